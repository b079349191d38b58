"""Pages of lists: one query for all lists, sorted by a column, then by id.

The ids of a page's items come from a covering index, which has every column that the conditions name, and
only the rows of these items are read. A page by its number is counted from the nearer end of a list whose
total is known: the middle of a million items takes 26 ms. A cursor is entered by the index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Generic, TypeVar

from attrs import field, frozen

from imagehost_core.db.engines.database import Queryable, SqlRow, SqlValue
from imagehost_core.lists import CursorPosition, PageRequest, encode_cursor, require_cursor_of
from imagehost_core.models import Page

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

    @property
    def reversed(self) -> Order:
        """The order from the other end."""
        return Order(self.column, not self.descending)

    @property
    def sql(self) -> str:
        """The clause that sorts rows of `item`."""
        direction = "DESC" if self.descending else "ASC"
        return f"ORDER BY item.{self.column} {direction}, item.id {direction}"


NEWEST_FIRST = Order("created_at", descending=True)


@frozen
class CheckedRows:
    """Conditions that only the beginning of a list is checked for, row by row in its order.

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
        checked: Further conditions, which only the beginning of the list is checked for; a page that has no
            next cursor may then lack items.
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
    checked: CheckedRows | None = None


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
        total: The number of items in the list when it was counted; `None`: unknown.

    Raises:
        BadRequestError: The cursor belongs to another list.
        UnavailableError: Reading the page takes longer than until the deadline.
    """
    after, values = after_cursor(items, request)
    order, offset, count = items.order, request.offset, request.per_page + 1
    if total is not None and request.after is None:
        # The list may have grown since it was counted, so only a page from the far end is cut by the total.
        rest = max(0, min(count, total - offset))
        if total - rest < 2 * offset:
            count = rest
            order, offset = order.reversed, max(0, total - offset - count)
    values |= {"count": count, "offset": offset}
    source = f"FROM {items.table} AS item WHERE {items.where}{after} {order.sql}"
    if items.checked is not None:
        # Rows come in the order of the subquery. With an order here too, SQLite would read all of them first.
        columns = ", ".join(f"item.{name}" for name in items.checked.columns)
        source = f"FROM (SELECT {columns} {source} LIMIT :checked) AS item WHERE {items.checked.where}"
        values["checked"] = items.checked.limit
    rows = read_items(queryable, items, f"(SELECT item.id {source} LIMIT :count OFFSET :offset)", values)
    last = rows[request.per_page - 1] if len(rows) > request.per_page else None
    if total is not None and request.after is None and rows:
        total = max(total, request.offset + len(rows))
    return to_page(items, request, rows, total, last)


def after_cursor(items: ItemList[T], request: PageRequest) -> tuple[str, dict[str, SqlValue]]:
    """Return the condition of the items after a cursor, and the parameters of the list with it.

    Raises:
        BadRequestError: The cursor belongs to another list.
    """
    # The position of a cursor that a client has changed may have values of other types.
    require_cursor_of(items.id if _is_position_in(items, request.after) else "", request)
    if request.after is None:
        return "", dict(items.values)
    condition = f" AND (item.{items.order.column}, item.id) {'<' if items.order.descending else '>'} "
    values = {**items.values, "after_key": request.after.key, "after_id": request.after.id}
    return f"{condition}(:after_key, :after_id)", values


def read_items(
    queryable: Queryable, items: ItemList[T], ids: str, values: Mapping[str, SqlValue]
) -> list[SqlRow]:
    """Return the rows of the items of a subquery for ids, in the order of the list."""
    select = items.select or f"SELECT * FROM {items.table} AS item"  # noqa: S608
    sql = f"{select} WHERE item.id IN {ids} {items.order.sql}"
    return queryable.fetch_all(sql, values, deadline=items.deadline)


def to_page(
    items: ItemList[T], request: PageRequest, rows: Sequence[SqlRow], total: int | None, last: SqlRow | None
) -> Page[T]:
    """Return the page of the first rows.

    Args:
        items: The list.
        request: The request of the page.
        rows: The rows of the page, and perhaps more.
        total: The number of items in the list; `None`: unknown.
        last: The last item of the page, if others follow, with its id and the column of the order.
    """
    cursor = None
    if last is not None:
        key = last[items.order.column]
        position = CursorPosition(items.id, key if isinstance(key, str) else int(key or 0), str(last["id"]))
        cursor = encode_cursor(position)
    return Page(
        items=tuple(map(items.to_item, rows[: request.per_page])),
        page=None if request.after else request.page,
        per_page=request.per_page,
        total=total,
        next_cursor=cursor,
    )


def count_items(queryable: Queryable, items: ItemList[T], limit: int = 10**9) -> int:
    """Return the number of items in a list without a counter, or `limit` of a longer one."""
    first = f"SELECT 1 FROM {items.table} AS item WHERE {items.where} LIMIT {limit}"  # noqa: S608
    (row,) = queryable.fetch_all(f"SELECT count(*) AS total FROM ({first}) AS first", items.values)  # noqa: S608
    return int(row["total"] or 0)


def _is_position_in(items: ItemList[T], position: CursorPosition | None) -> bool:
    """Return whether a position has the types of a list's columns; PostgreSQL compares no others."""
    if position is None:
        return True
    has_text = isinstance(position.key, str)
    return has_text == (items.order.column in _TEXTS) and (
        _NUMBER.fullmatch(position.id) is not None or not items.has_numbers
    )
