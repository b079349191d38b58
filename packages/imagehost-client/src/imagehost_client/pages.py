"""Lazy pagination by cursor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Generic, TypeVar

from imagehost_client._calls.call import Call, next_page
from imagehost_client.errors import ServerError
from imagehost_client.models import Page

__all__ = ["AsyncPager", "Pager"]

T = TypeVar("T")


class Pager(Generic[T]):
    """A list whose pages are requested during iteration.

    Iterate over it for records, over `pages()` for pages; each iteration starts with the first page.
    Later pages are requested by cursor: no record is skipped or repeated while others are added or
    deleted.
    """

    def __init__(self, run: Callable[[Call[Page[T]]], Page[T]], call: Call[Page[T]]) -> None:
        self._run = run
        self._call = call

    def __iter__(self) -> Iterator[T]:
        for page in self.pages():
            yield from page.items

    def pages(self) -> Iterator[Page[T]]:
        """Return the pages, one after another."""
        call: Call[Page[T]] | None = self._call
        while call is not None:
            page = self._run(call)
            yield page
            call = _next_call(call, page)

    def first_page(self) -> Page[T]:
        """Return the first page, with a single request."""
        return self._run(self._call)


class AsyncPager(Generic[T]):
    """A list whose pages are requested during iteration.

    Iterate over it with `async for` for records, over `pages()` for pages; each iteration starts with
    the first page. Later pages are requested by cursor: no record is skipped or repeated while others
    are added or deleted.
    """

    def __init__(
        self, run: Callable[[Call[Page[T]]], Coroutine[None, None, Page[T]]], call: Call[Page[T]]
    ) -> None:
        self._run = run
        self._call = call

    async def __aiter__(self) -> AsyncIterator[T]:
        async for page in self.pages():
            for item in page.items:
                yield item

    async def pages(self) -> AsyncIterator[Page[T]]:
        """Return the pages, one after another."""
        call: Call[Page[T]] | None = self._call
        while call is not None:
            page = await self._run(call)
            yield page
            call = _next_call(call, page)

    async def first_page(self) -> Page[T]:
        """Return the first page, with a single request."""
        return await self._run(self._call)


def _next_call(call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
    """Return the call for the next page.

    Raises:
        ServerError: The cursor is the one of this page, which would be an infinite loop.
    """
    following = next_page(call, page)
    if following == call:
        raise ServerError(
            f"expected another cursor for the page after {page.next_cursor!r} but received the same one",
            message="The list does not end",
            code="INVALID_RESPONSE",
        )
    return following
