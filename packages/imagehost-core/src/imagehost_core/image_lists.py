"""Lists of images: the filters and the order that a request can choose.

`parse_image_list` reads them from query parameters, together with the page, and reports all errors at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from attrs import field, frozen

from imagehost_core._util.fields import choice_error, first_values, parse_choice
from imagehost_core.errors import BadRequestError, FieldError, ValidationError, quote_value
from imagehost_core.formats import UPLOADABLE, Format
from imagehost_core.ids import AlbumId, parse_album_id
from imagehost_core.pagination import PageRequest, parse_page_request
from imagehost_core.uploads import BOOLEANS

REQUESTS_IN_MEMORY = 1_000
"""Parsed requests that are kept in memory, per process: most requests are for the first page of a list."""
MAX_SEARCH = 100
"""Characters of a search text."""
STORED: dict[str, Format] = {fmt.value: fmt for fmt in UPLOADABLE}
"""The formats that images are stored in, by name."""


class ImageSort(StrEnum):
    """The order of a list of images; those with equal values are sorted by id, in the same direction."""

    OLDEST = "created_at"
    NEWEST = "-created_at"
    FILENAME = "filename"
    FILENAME_DESCENDING = "-filename"
    SMALLEST = "size"
    LARGEST = "-size"

    @property
    def column(self) -> str:
        """The field that the list is sorted by."""
        return self.value.removeprefix("-")

    @property
    def is_descending(self) -> bool:
        """Whether the largest value comes first."""
        return self.value.startswith("-")


@frozen(kw_only=True)
class ImageFilter:
    """The conditions of a list of images; an image is listed if it meets all of them.

    Attributes:
        q: Words that its filename or description has, up to 100 characters; blank for any image.
        is_public: Whether it is public; `None` for both.
        format: Its stored format; `None` for any.
        created_after: A time before its upload, with a time zone; `None` for any.
        created_before: A time after its upload, with a time zone; `None` for any.

    Raises:
        BadRequestError: Values are not allowed; every one is listed in `errors`.
    """

    q: str = ""
    is_public: bool | None = None
    format: Format | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None

    def __attrs_post_init__(self) -> None:
        errors = list(_filter_errors(self))
        if errors:
            raise BadRequestError(errors=errors)

    @property
    def has_search(self) -> bool:
        """Whether images are searched by words."""
        return self.q != "" and not self.q.isspace()

    @property
    def has_total(self) -> bool:
        """Whether the number of images is known without reading them all."""
        return not self.has_search and (self.format, self.created_after, self.created_before) == (None,) * 3


@frozen(kw_only=True)
class ImageListRequest:
    """A validated request for a page of images.

    Attributes:
        album_id: The album whose images are listed; `None` for all images of the account.
        filters: The conditions of the list.
        sort: The order of the list.
        page: The page.
    """

    album_id: AlbumId | None = None
    filters: ImageFilter = field(factory=ImageFilter)
    sort: ImageSort = ImageSort.NEWEST
    page: PageRequest = field(factory=PageRequest)


GALLERY_PARAMETERS = ("page", "per_page", "cursor", "album_id")
"""The query parameters of the gallery."""
PARAMETERS = (
    *GALLERY_PARAMETERS,
    "q",
    "is_public",
    "format",
    "created_after",
    "created_before",
    "sort",
)
"""The query parameters of a list of images."""


def parse_image_list(
    parameters: Iterable[tuple[str, str]], names: Iterable[str] = PARAMETERS
) -> ImageListRequest:
    """Return the request of a list's query parameters.

    Args:
        parameters: Names and values as text, in any order.
        names: The names of parameters that the list has; others are ignored.

    Raises:
        BadRequestError: Values are malformed, not allowed or repeated; every one is listed in `errors`.
    """
    known = tuple(names)
    return _parse_image_list(tuple(pair for pair in parameters if pair[0] in known), known)


@lru_cache(REQUESTS_IN_MEMORY)
def _parse_image_list(parameters: tuple[tuple[str, str], ...], names: tuple[str, ...]) -> ImageListRequest:
    errors: list[FieldError] = []
    texts = first_values(parameters, names, errors)
    page = album_id = filters = None
    try:
        page = parse_page_request(*map(texts.get, ("page", "per_page", "cursor")))
    except BadRequestError as error:
        errors += error.errors
    try:
        album_id = None if "album_id" not in texts else parse_album_id(texts["album_id"])
    except ValidationError as error:
        errors += error.errors
    values: dict[str, object] = {"q": texts.get("q", "")}
    for name, choices in _CHOICES.items():
        if name in texts:
            values[name] = parse_choice(name, texts[name], choices, errors, ignore_case=True)
    for name in ("created_after", "created_before"):
        if name in texts:
            values[name] = _parse_timestamp(name, texts[name], errors)
    try:
        filters = ImageFilter(**values)  # type: ignore[arg-type]
    except BadRequestError as error:
        errors += error.errors
    sort = parse_choice("sort", texts.get("sort", ImageSort.NEWEST.value), _SORTS, errors)
    if errors or page is None or filters is None or sort is None:
        raise BadRequestError(errors=errors)
    return ImageListRequest(album_id=album_id, filters=filters, sort=sort, page=page)


_CHOICES: dict[str, Mapping[str, object]] = {"is_public": BOOLEANS, "format": STORED}
_SORTS: dict[str, ImageSort] = {sort.value: sort for sort in ImageSort}


def _filter_errors(filters: ImageFilter) -> Iterator[FieldError]:
    if len(filters.q) > MAX_SEARCH:
        yield FieldError("q", f"at most {MAX_SEARCH} characters", f"{len(filters.q)}")
    if type(filters.is_public) not in (bool, type(None)):
        yield FieldError("is_public", "true or false", quote_value(filters.is_public))
    if filters.format is not None and filters.format not in STORED.values():
        yield choice_error("format", STORED, filters.format)
    for name in ("created_after", "created_before"):
        value = getattr(filters, name)
        if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
            yield FieldError(name, "a time with a time zone", quote_value(value))


_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
"""RFC 3339, section 5.6."""


def _parse_timestamp(name: str, text: str, errors: list[FieldError]) -> datetime | None:
    try:
        if _TIMESTAMP.fullmatch(text):
            return datetime.fromisoformat(text.upper())
    except ValueError:
        pass
    errors.append(FieldError(name, "a time by RFC 3339, such as 2026-01-31T12:00:00Z,", quote_value(text)))
    return None
