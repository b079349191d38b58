"""The parameters and the JSON shape of a page of a list."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Annotated, Any, TypeVar

from attrs import frozen
from litestar.params import QueryParameter

from imagehost_core.lists import DEFAULT_PER_PAGE, MAX_PAGE, MAX_PER_PAGE
from imagehost_core.models import Page as ListPage
from imagehost_server.http.responses import record_of


def query(description: str, **schema: object) -> QueryParameter:
    """Return what the OpenAPI document says of a query parameter, whose text the core parses.

    Args:
        description: What it does.
        schema: Its JSON Schema.
    """
    return QueryParameter(description=description, schema_extra=schema)


Page = Annotated[
    str | None,
    query(
        "Page number. A page past the end is empty. Not together with `cursor`.",
        type="integer",
        minimum=1,
        maximum=MAX_PAGE,
        default=1,
    ),
]

PerPage = Annotated[
    str | None,
    query("Items per page.", type="integer", minimum=1, maximum=MAX_PER_PAGE, default=DEFAULT_PER_PAGE),
]

Cursor = Annotated[
    str | None,
    query(
        "The `next_cursor` of the previous page, instead of `page`. Neither skips nor repeats "
        "items while others are added or deleted. With other filters or another order it is rejected.",
        type="string",
    ),
]

T = TypeVar("T")

_POSITION = frozenset({"page", "per_page", "cursor"})
"""The query parameters that neither filter nor sort."""

_MAX_SHORT_PAGE_DIGITS = 2


@frozen(kw_only=True)
class Pagination:
    """The position of a page in its list, and the cursor of the next page.

    Attributes:
        page: The page number; null after a cursor.
        per_page: The maximum number of items of a page.
        total: The number of items of the whole list; null with `q`, `format` or dates.
        total_pages: The number of pages of the whole list; null if `total` is.
        next_cursor: The `cursor` of the next page; null on the last one.
    """

    page: int | None
    per_page: int
    total: int | None
    total_pages: int | None
    next_cursor: str | None


def pagination(page: ListPage[T]) -> Pagination:
    """Return the position of a page."""
    return record_of(Pagination, page)


GALLERY_PARAMETERS = _POSITION | {"album_id", "q"}
"""The query parameters of the gallery."""


def list_keywords(parameters: Iterable[tuple[str, str]], names: Container[str]) -> dict[str, Any]:
    """Return query parameters as keywords of the core's lists of images; others than `names` are ignored.

    One that is repeated has all its values, which the core rejects: parsers of other programs disagree on
    which value counts.
    """
    values: dict[str, tuple[str, ...]] = {}
    for name, value in parameters:
        if name in names:
            values[name] = (*values.get(name, ()), value)
    return {name: found[0] if len(found) == 1 else found for name, found in values.items()}


def is_short_read(parameters: Iterable[tuple[str, str]]) -> bool:
    """Return whether the database reads a page in less than about a millisecond, however long the list is.

    That is a page after a cursor, or one of the first 99, of a list in its default order without filters.

    Args:
        parameters: The query parameters.
    """
    return all(
        name in _POSITION and (name != "page" or len(value) <= _MAX_SHORT_PAGE_DIGITS)
        for name, value in parameters
    )
