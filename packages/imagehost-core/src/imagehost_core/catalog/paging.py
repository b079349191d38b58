"""Lists in pages: one query for all of them, newest first by (created_at, id)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from imagehost_core.catalog.database import Reader, Row, Value
from imagehost_core.models import Page
from imagehost_core.paging import PageRequest, Place, to_cursor

T = TypeVar("T")


def page_of(
    reader: Reader,
    source: str,
    where: str,
    values: Mapping[str, Value],
    request: PageRequest,
    read: Callable[[Row], T],
) -> Page[T]:
    """Return the part of a list that is asked for.

    One item more than asked for is read: its presence says whether there is a next page.

    Args:
        reader: The catalog or a transaction.
        source: The query without its conditions, such as `SELECT * FROM images`; its rows have
            `created_at` and `id`, of the table that is called `item`.
        where: The conditions.
        values: What the conditions name.
        request: Which part.
        read: Makes an item of a row.
    """
    (count,) = reader.all(f"SELECT count(*) AS total FROM ({source} WHERE {where})", values)  # noqa: S608
    after, bounds = "", dict(values)
    if request.after is not None:
        after = "AND (item.created_at, item.id) < (:after_micros, :after_id)"
        bounds |= {"after_micros": request.after.micros, "after_id": request.after.id}
    bounds |= {"count": request.per_page + 1, "offset": request.offset}
    rows = reader.all(
        f"{source} WHERE {where} {after} "
        "ORDER BY item.created_at DESC, item.id DESC LIMIT :count OFFSET :offset",
        bounds,
    )
    shown = rows[: request.per_page]
    return Page(
        items=tuple(map(read, shown)),
        page=request.page,
        per_page=request.per_page,
        total=int(count["total"] or 0),
        next_cursor=to_cursor(_place(shown[-1])) if len(rows) > len(shown) else None,
    )


def _place(row: Row) -> Place:
    return Place(int(row["created_at"] or 0), str(row["id"]))
