"""Pagination: one query for all lists, sorted by a column, then by id.

A page may be far from the first. Long lists without filters have buckets, so that it begins near a known
position. In others, the ids of its items come from a covering index, which has every column that the
conditions name: with 100,000 items that takes 9 ms, and 350 ms or more from the rows. Only the rows of the
page's items are read. The total number of items is counted only where no counter has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Generic, TypeVar

from attrs import field, frozen

from imagehost_core.db.database import Queryable, SqlRow, SqlValue
from imagehost_core.db.list_buckets import Buckets
from imagehost_core.models import Page
from imagehost_core.pagination import CursorPosition, PageRequest, encode_cursor, require_cursor_of

T = TypeVar("T")


@frozen
class Order:
    """The order of a list.

    Attributes:
        column: The column that the list is sorted by; items with equal values are sorted by id.
        descending: Whether the largest value, and of equal ones the largest id, comes first.
    """

    column: str
    descending: bool


NEWEST_FIRST = Order("created_at", descending=True)


@frozen
class CheckedRows:
    """Conditions that a part of a list is checked for, row by row in its order.

    Attributes:
        columns: The columns of the list's table that are read, the id and those of the conditions.
        where: The conditions.
        limit: The number of rows from the beginning of the list, or from the cursor.
    """

    columns: tuple[str, ...]
    where: str
    limit: int


_NUMBER = re.compile("[0-9]{1,18}")
_TEXTS = ("filename",)
"""The columns of orders that contain texts."""


@frozen(kw_only=True)
class ItemList(Generic[T]):
    """A list of rows of the database.

    Attributes:
        id: The `list_id` of the list.
        table: The table of the items' ids; it has the columns `id` and that of the order.
        where: The conditions, in which the table's alias is `item`.
        values: The parameters of the conditions.
        order: The order of the items.
        to_item: Converts a row.
        select: A query without conditions for the items' rows; by default all columns of the table.
        deadline: The time of `time.monotonic` until which a page must be read; `None`: no limit.
        has_numbers: Whether the ids of the items are numbers.
        buckets: The buckets of the list, if it has any and is in the order of `created_at`.
        checked: Further conditions, which only a part of the list is checked for; a page that has no next
            cursor may then lack items.
    """

    id: str
    table: str
    to_item: Callable[[SqlRow], T]
    where: str = "true"
    values: Mapping[str, SqlValue] = field(factory=dict)
    order: Order = NEWEST_FIRST
    select: str = ""
    deadline: float | None = None
    has_numbers: bool = False
    buckets: Buckets | None = None
    checked: CheckedRows | None = None


@lru_cache(1_000, typed=True)
def list_id(name: str, *values: SqlValue) -> str:
    """Return the id of a list, which its cursors contain: another list has another id.

    Args:
        name: The name of the list.
        values: Every value that selects or sorts its items.
    """
    return blake2b(repr((name, *values)).encode(), digest_size=6).hexdigest()


def paginate(queryable: Queryable, items: ItemList[T], request: PageRequest, total: int | None) -> Page[T]:
    """Return one page of a list.

    One item more than requested is read, which shows whether there is a next page.

    Args:
        queryable: The database or a transaction.
        items: The list.
        request: The page's number or cursor, and its size.
        total: The number of items in the list; `None`: unknown.

    Raises:
        BadRequestError: The cursor belongs to another list.
        UnavailableError: Reading the page takes longer than until the deadline.
    """
    # The position of a cursor that a client has changed may have values of other types.
    require_cursor_of(items.id if _is_position_in(items, request.after) else "", request)
    column, is_descending = items.order.column, items.order.descending
    after, parameters = "", dict(items.values)
    parameters |= {"count": request.per_page + 1, "offset": request.offset}
    if request.after is not None:
        operator = "<" if is_descending else ">"
        after = f"AND (item.{column}, item.id) {operator} (:after_key, :after_id)"
        parameters |= {"after_key": request.after.key, "after_id": request.after.id}
    elif items.buckets is not None and total is not None:
        found = items.buckets.find_range(
            request.offset, request.per_page + 1, total, is_descending=is_descending
        )
        if found is not None:
            is_descending = found.is_descending
            after = f"AND (item.{column}, item.id) {'<=' if is_descending else '>'} (:bound_key, :bound_id)"
            parameters |= {"bound_key": found.bound[0], "bound_id": found.bound[1]}
            parameters |= {"count": found.count, "offset": found.skipped}
    source = f"FROM {items.table} AS item WHERE {items.where} {after} {_order_by(column, is_descending)}"
    if items.checked is not None:
        # Rows come in the order of the subquery. With an order here too, SQLite would read all of them first.
        columns = ", ".join(f"item.{name}" for name in items.checked.columns)
        source = f"FROM (SELECT {columns} {source} LIMIT :checked) AS item WHERE {items.checked.where}"
        parameters["checked"] = items.checked.limit
    page_ids = f"SELECT item.id {source} LIMIT :count OFFSET :offset"
    select = items.select or f"SELECT * FROM {items.table} AS item"  # noqa: S608
    sql = f"{select} WHERE item.id IN ({page_ids}) {_order_by(column, items.order.descending)}"
    rows = queryable.fetch_all(sql, parameters, deadline=items.deadline)
    page_rows = rows[: request.per_page]
    has_more = len(rows) > len(page_rows)
    return Page(
        items=tuple(map(items.to_item, page_rows)),
        page=None if request.after else request.page,
        per_page=request.per_page,
        total=total,
        next_cursor=encode_cursor(_cursor_position(items, page_rows[-1])) if has_more else None,
    )


def count_items(queryable: Queryable, items: ItemList[T]) -> int:
    """Return the number of items in a list, for lists that have no counter but a largest length."""
    (row,) = queryable.fetch_all(
        f"SELECT count(*) AS total FROM {items.table} AS item WHERE {items.where}",  # noqa: S608
        items.values,
    )
    return int(row["total"] or 0)


def _order_by(column: str, is_descending: bool) -> str:
    direction = "DESC" if is_descending else "ASC"
    return f"ORDER BY item.{column} {direction}, item.id {direction}"


def _is_position_in(items: ItemList[T], position: CursorPosition | None) -> bool:
    """Return whether a position has the types of a list's columns; PostgreSQL compares no others."""
    if position is None:
        return True
    has_text = isinstance(position.key, str)
    return has_text == (items.order.column in _TEXTS) and (
        _NUMBER.fullmatch(position.id) is not None or not items.has_numbers
    )


def _cursor_position(items: ItemList[T], row: SqlRow) -> CursorPosition:
    key = row[items.order.column]
    return CursorPosition(items.id, key if isinstance(key, str) else int(key or 0), str(row["id"]))
