"""Lists of images: the filters and the order that a request can choose.

`parse_image_list` reads them from query parameters, together with the page, and reports all errors at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Any

import attrs
from attrs import field, frozen

from imagehost_core._util.clock import to_micros
from imagehost_core._util.fields import choice_error, first_values, parse_choice
from imagehost_core.errors import BadRequestError, FieldError, ValidationError, quote_value
from imagehost_core.formats import UPLOADABLE, Format
from imagehost_core.ids import AlbumId, parse_album_id
from imagehost_core.lists.page_requests import PageRequest, parse_page_request
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


@frozen
class FilterRule:
    """What a filter of a list of images does. The attributes of `ImageFilter` have one each.

    Attributes:
        parse: Returns the value of a query parameter, or appends an error.
        check: Returns the error of a value that is not allowed, or `None`.
        condition: The column of `images` and the operator that compares it with the value; empty for the
            search.
        to_sql: Converts a value to that of the database.
        is_counted: Whether the images that meet it are counted, so that the list has a total.
        is_given: Whether a value selects images.
    """

    parse: Callable[[str, str, list[FieldError]], object]
    check: Callable[[str, Any], FieldError | None]
    condition: str
    to_sql: Callable[[Any], str | int]
    is_counted: bool = False
    is_given: Callable[[Any], bool] = lambda value: value is not None


def _text(_name: str, text: str, _errors: list[FieldError]) -> str:
    return text


def _choice(choices: Mapping[str, object]) -> Callable[[str, str, list[FieldError]], object]:
    return lambda name, text, errors: parse_choice(name, text, choices, errors, ignore_case=True)


def _check_search(name: str, value: str) -> FieldError | None:
    is_long = len(value) > MAX_SEARCH
    return FieldError(name, f"at most {MAX_SEARCH} characters", f"{len(value)}") if is_long else None


def _check_boolean(name: str, value: object) -> FieldError | None:
    return None if type(value) is bool else FieldError(name, "true or false", quote_value(value))


def _check_format(name: str, value: object) -> FieldError | None:
    return None if value in STORED.values() else choice_error(name, STORED, value)


def _check_time(name: str, value: object) -> FieldError | None:
    is_time = isinstance(value, datetime) and value.tzinfo is not None
    return None if is_time else FieldError(name, "a time with a time zone", quote_value(value))


_TIMESTAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)
"""RFC 3339, section 5.6."""


def _parse_time(name: str, text: str, errors: list[FieldError]) -> datetime | None:
    try:
        if _TIMESTAMP.fullmatch(text):
            return datetime.fromisoformat(text.upper())
    except ValueError:
        pass
    errors.append(FieldError(name, "a time by RFC 3339, such as 2026-01-31T12:00:00Z,", quote_value(text)))
    return None


def _rule(*values: Any, **names: Any) -> dict[str, FilterRule]:
    return {"rule": FilterRule(*values, **names)}


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

    q: str = field(
        default="", metadata=_rule(_text, _check_search, "", str, is_given=lambda text: bool(text.strip()))
    )
    is_public: bool | None = field(
        default=None, metadata=_rule(_choice(BOOLEANS), _check_boolean, "is_public =", int, is_counted=True)
    )
    format: Format | None = field(
        default=None, metadata=_rule(_choice(STORED), _check_format, "format =", attrgetter("value"))
    )
    created_after: datetime | None = field(
        default=None, metadata=_rule(_parse_time, _check_time, "created_at >", to_micros)
    )
    created_before: datetime | None = field(
        default=None, metadata=_rule(_parse_time, _check_time, "created_at <", to_micros)
    )

    def __attrs_post_init__(self) -> None:
        checked = (
            rule.check(name, value)
            for name, rule in FILTERS.items()
            if (value := getattr(self, name)) is not None
        )
        errors = [error for error in checked if error is not None]
        if errors:
            raise BadRequestError(errors=errors)

    @property
    def given(self) -> dict[str, str | int]:
        """The value of each filter that selects images, as the database has it, by name."""
        return {
            name: rule.to_sql(value)
            for name, rule in FILTERS.items()
            if rule.is_given(value := getattr(self, name))
        }

    @property
    def has_search(self) -> bool:
        """Whether images are searched by words."""
        return "q" in self.given

    @property
    def has_total(self) -> bool:
        """Whether the number of images is known without reading them all."""
        return all(FILTERS[name].is_counted for name in self.given)


FILTERS: dict[str, FilterRule] = {
    attribute.name: attribute.metadata["rule"] for attribute in attrs.fields(ImageFilter)
}
"""The rule of each filter, by the name of its query parameter."""


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
PARAMETERS = (*GALLERY_PARAMETERS, *FILTERS, "sort")
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
    values = {name: rule.parse(name, texts[name], errors) for name, rule in FILTERS.items() if name in texts}
    try:
        filters = ImageFilter(**values)  # type: ignore[arg-type]
    except BadRequestError as error:
        errors += error.errors
    sort = parse_choice("sort", texts.get("sort", ImageSort.NEWEST.value), _SORTS, errors)
    if errors or page is None or filters is None or sort is None:
        raise BadRequestError(errors=errors)
    return ImageListRequest(album_id=album_id, filters=filters, sort=sort, page=page)


_SORTS: dict[str, ImageSort] = {sort.value: sort for sort in ImageSort}
