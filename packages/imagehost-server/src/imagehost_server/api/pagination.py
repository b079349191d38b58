"""The shape of a page of a list.

Contract 5: *`data` = `{"images": […], "pagination": {"page", "per_page", "total", "total_pages",
"next_cursor"|null}}`*; albums are paged alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import frozen

from imagehost_core.models import Page

T = TypeVar("T")


@frozen(kw_only=True)
class Pagination:
    """Where in its list a page stands."""

    page: int
    per_page: int
    total: int
    total_pages: int
    next_cursor: str | None


def page_response(name: str, page: Page[T], record: Callable[[T], object]) -> dict[str, object]:
    """Return a page as it is shown.

    Args:
        name: What the list is called.
        page: The page.
        record: Shows one item.
    """
    pagination = Pagination(
        page=page.page,
        per_page=page.per_page,
        total=page.total,
        total_pages=page.total_pages,
        next_cursor=page.next_cursor,
    )
    return {name: [record(item) for item in page], "pagination": pagination}
