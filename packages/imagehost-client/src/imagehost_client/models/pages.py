"""Pages of lists, with the position of the next one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from attrs import frozen

from imagehost_client.models.albums import PublicAlbum
from imagehost_client.models.results import Result

T = TypeVar("T")


@frozen(kw_only=True)
class Page(Result, Generic[T]):
    """One page of a list.

    Attributes:
        items: The records, in the order of the list.
        page: The number of the page, from 1; `None` for a page requested by cursor.
        per_page: The page size.
        total: The number of records on all pages; `None` if the host does not count them, as for a list
            with `q`, `format` or dates.
        total_pages: The number of pages; `None` if the host does not count the records.
        next_cursor: The cursor of the next page; `None` on the last page.
        album: The album of `gallery(album_id=…)`; `None` for every other list.
    """

    items: tuple[T, ...]
    page: int | None
    per_page: int
    total: int | None
    total_pages: int | None
    next_cursor: str | None = None
    album: PublicAlbum | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)
