"""The JSON shape of a page of a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import frozen

from imagehost_core.models import Page

T = TypeVar("T")


@frozen(kw_only=True)
class Pagination:
    """The position of a page in its list, and the cursor of the next page."""

    page: int | None
    per_page: int
    total: int
    total_pages: int
    next_cursor: str | None


def page_response(name: str, page: Page[T], record: Callable[[T], object]) -> dict[str, object]:
    """Return the `data` of a page: its records and its pagination.

    Args:
        name: The member that holds the records, such as `images`.
        page: The page.
        record: Returns the record of an item.
    """
    pagination = Pagination(
        page=page.page,
        per_page=page.per_page,
        total=page.total,
        total_pages=page.total_pages,
        next_cursor=page.next_cursor,
    )
    return {name: [record(item) for item in page], "pagination": pagination}
