"""Lists: page requests and cursors; the filters and the order of lists of images, and their words."""

from imagehost_core.lists.filters import (
    FILTERS,
    GALLERY_PARAMETERS,
    MAX_SEARCH,
    PARAMETERS,
    REQUESTS_IN_MEMORY,
    STORED,
    ImageFilter,
    ImageListRequest,
    ImageSort,
    parse_image_list,
)
from imagehost_core.lists.page_requests import (
    DEFAULT_PER_PAGE,
    MAX_PAGE,
    MAX_PER_PAGE,
    CursorPosition,
    PageRequest,
    cursor_errors,
    encode_cursor,
    parse_page_request,
    require_cursor_of,
)
from imagehost_core.lists.words import is_whole_word, split_words

__all__ = [
    "DEFAULT_PER_PAGE",
    "FILTERS",
    "GALLERY_PARAMETERS",
    "MAX_PAGE",
    "MAX_PER_PAGE",
    "MAX_SEARCH",
    "PARAMETERS",
    "REQUESTS_IN_MEMORY",
    "STORED",
    "CursorPosition",
    "ImageFilter",
    "ImageListRequest",
    "ImageSort",
    "PageRequest",
    "cursor_errors",
    "encode_cursor",
    "is_whole_word",
    "parse_image_list",
    "parse_page_request",
    "require_cursor_of",
    "split_words",
]
