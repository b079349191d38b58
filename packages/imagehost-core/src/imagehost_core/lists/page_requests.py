"""Page requests: by page number, or by a cursor.

A cursor encodes the sort position of the last item of a page, so that the next page neither skips nor repeats
items while others are added or deleted. It belongs to one list: its filters, its order and its account.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from attrs import frozen

from imagehost_core._util.fields import is_within, parse_int_field, range_error
from imagehost_core.errors import BadRequestError, FieldError, quote_value

DEFAULT_PER_PAGE = 20
MAX_PER_PAGE = 100
MAX_PAGE = 2**31 - 1


@frozen
class CursorPosition:
    """The sort position of an item in a list that is sorted by a column, then by id.

    Attributes:
        list_id: A hash of what selects and sorts the list's items: 12 hexadecimal digits.
        key: The value of the column that the list is sorted by.
        id: The item's id.
    """

    list_id: str
    key: int | str
    id: str


@frozen
class PageRequest:
    """A validated request for a page of a list.

    Attributes:
        page: The page number, from 1; 1 where `after` is given.
        per_page: The maximum number of items, 1–100.
        after: The position after which the page begins.

    Raises:
        BadRequestError: Values are out of range, or `page` and `after` are both given; every one is listed in
            `errors`.
    """

    page: int = 1
    per_page: int = DEFAULT_PER_PAGE
    after: CursorPosition | None = None

    def __attrs_post_init__(self) -> None:
        ranges = (("page", self.page, MAX_PAGE), ("per_page", self.per_page, MAX_PER_PAGE))
        errors = [
            range_error(name, maximum, value)
            for name, value, maximum in ranges
            if not is_within(value, maximum)
        ]
        if self.after is not None and self.page != 1:
            errors.append(_page_with_cursor_error(self.page))
        if errors:
            raise BadRequestError(errors=errors)

    @property
    def offset(self) -> int:
        """The number of items before the page."""
        return (self.page - 1) * self.per_page


def parse_page_request(
    page: str | int | None = None, per_page: str | int | None = None, cursor: str | None = None
) -> PageRequest:
    """Return the page request of a list's query parameters.

    Args:
        page: The page number, an integer or its canonical decimal text.
        per_page: The maximum number of items, likewise.
        cursor: The `next_cursor` of the previous page; excludes `page`.

    Raises:
        BadRequestError: Values are malformed or out of range, or there are a page number and a cursor; every
            one is listed in `errors`.
    """
    errors: list[FieldError] = []
    number = 1 if page is None else parse_int_field("page", page, MAX_PAGE, errors)
    count = (
        DEFAULT_PER_PAGE if per_page is None else parse_int_field("per_page", per_page, MAX_PER_PAGE, errors)
    )
    after = None if cursor is None else _parse_cursor(cursor, errors)
    if page is not None and number is not None and cursor is not None:
        errors.append(_page_with_cursor_error(page))
    if errors or number is None or count is None:
        raise BadRequestError(errors=errors)
    return PageRequest(number, count, after)


def _page_with_cursor_error(page: str | int) -> FieldError:
    return FieldError("page", "no page number together with a cursor", quote_value(page))


def encode_cursor(position: CursorPosition) -> str:
    """Return the cursor of a position, which `parse_page_request` reads."""
    key = str(position.key) if isinstance(position.key, int) else f'"{position.key}'
    text = f"{position.list_id}.{position.id}.{key}"
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def cursor_errors(list_id: str, request: PageRequest) -> tuple[FieldError, ...]:
    """Return the error of a cursor that belongs to another list than that of the request."""
    if request.after is None or request.after.list_id == list_id:
        return ()
    received = quote_value(encode_cursor(request.after))
    return (FieldError("cursor", "a next_cursor of this list, with the same filters and sort,", received),)


def require_cursor_of(list_id: str, request: PageRequest) -> None:
    """Raise BadRequestError if the cursor of a request belongs to another list."""
    errors = cursor_errors(list_id, request)
    if errors:
        raise BadRequestError(errors=errors)


_CURSOR = re.compile(
    r"""
    (?P<list_id>[0-9a-f]{12}) \. (?P<id>[0-9A-Za-z_]{1,40}) \.
    (?: (?P<number>[0-9]{1,18}) | "(?P<text>[^\0]{0,1000}) )
    """,
    re.ASCII | re.VERBOSE,
)


def _parse_cursor(cursor: str, errors: list[FieldError]) -> CursorPosition | None:
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except ValueError:
        text = ""
    match = _CURSOR.fullmatch(text)
    position = None
    if match is not None:
        key = match["text"] if match["number"] is None else int(match["number"])
        position = CursorPosition(match["list_id"], key, match["id"])
    # Base64 can encode one position in several ways; only the encoding of `encode_cursor` is accepted.
    if position is None or encode_cursor(position) != cursor:
        errors.append(FieldError("cursor", "a next_cursor of this list", quote_value(cursor)))
        return None
    return position
