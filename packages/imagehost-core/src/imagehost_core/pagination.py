"""Which part of a list is asked for: by page number, or by a cursor that walks on.

A cursor holds the place of the last item seen (its time and id), so that walking on neither skips
nor repeats anything while items are added or deleted.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from attrs import frozen

from imagehost_core.errors import BadRequestError, FieldError, quote_value

DEFAULT_PER_PAGE = 20
MAX_PER_PAGE = 100
"""SPEC 4.2."""
MAX_PAGE = 2**31 - 1


@frozen
class CursorPosition:
    """Where an item stands in a list that is sorted by time, then id, newest first."""

    micros: int
    id: str


@frozen
class PageRequest:
    """A part of a list that is asked for; it cannot be built wrong.

    Attributes:
        page: The page's number, from 1. Means nothing beside a cursor.
        per_page: How many items, 1–100.
        after: Walk on after this place.

    Raises:
        BadRequestError: A value is out of range. Names every fault.
    """

    page: int = 1
    per_page: int = DEFAULT_PER_PAGE
    after: CursorPosition | None = None

    def __attrs_post_init__(self) -> None:
        ranges = (("page", self.page, MAX_PAGE), ("per_page", self.per_page, MAX_PER_PAGE))
        faults = [
            _range_fault(name, maximum, value)
            for name, value, maximum in ranges
            if not (type(value) is int and 1 <= value <= maximum)
        ]
        if faults:
            raise BadRequestError(errors=faults)

    @property
    def offset(self) -> int:
        """How many items to pass over."""
        return 0 if self.after else (self.page - 1) * self.per_page


def parse_page_request(
    page: str | int | None = None, per_page: str | int | None = None, cursor: str | None = None
) -> PageRequest:
    """Return what a list's query asks for.

    Raises:
        BadRequestError: Something is not a canonical integer, out of range, or no cursor of ours.
            Names every fault.
    """
    faults: list[FieldError] = []
    number = _integer("page", page, 1, MAX_PAGE, faults)
    count = _integer("per_page", per_page, DEFAULT_PER_PAGE, MAX_PER_PAGE, faults)
    after = _parse_cursor(cursor, faults)
    if faults:
        raise BadRequestError(errors=faults)
    return PageRequest(number, count, after)


def encode_cursor(place: CursorPosition) -> str:
    """Return the text of a place, which `parse_page_request` reads."""
    return urlsafe_b64encode(f"{place.micros}.{place.id}".encode()).decode().rstrip("=")


_CANONICAL = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9A-Za-z_]{1,40})", re.ASCII)


def _range_fault(name: str, maximum: int, value: object) -> FieldError:
    return FieldError(name, f"an integer from 1 to {maximum}", quote_value(value))


def _integer(name: str, value: str | int | None, default: int, maximum: int, faults: list[FieldError]) -> int:
    if value is None:
        return default
    number = int(value) if isinstance(value, str) and _CANONICAL.fullmatch(value) else value
    if type(number) is int and 1 <= number <= maximum:
        return number
    faults.append(_range_fault(name, maximum, value))
    return default


def _parse_cursor(cursor: str | None, faults: list[FieldError]) -> CursorPosition | None:
    if cursor is None:
        return None
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        text = ""
    match = _CURSOR.fullmatch(text)
    place = None if match is None else CursorPosition(int(match[1]), match[2])
    # Base64 can spell one place in many ways; only the way in which we spell it is a cursor.
    if place is None or encode_cursor(place) != cursor:
        faults.append(FieldError("cursor", "a next_cursor of this list", quote_value(cursor)))
        return None
    return place
