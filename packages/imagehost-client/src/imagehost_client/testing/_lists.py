"""Pages of lists of the in-memory host: order, page numbers and cursors."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import frozen

from imagehost_client.errors import BadRequestError
from imagehost_client.testing import _query
from imagehost_client.testing._request import FakeRequest
from imagehost_client.testing._store import Record, Row


@frozen
class Order:
    """An order of rows: by a member of their records, then in the order of creation.

    Attributes:
        member: The member; `None` to sort in the order of creation alone.
    """

    member: str | None = None
    descending: bool = True

    def key(self, row: Row) -> tuple[Any, ...]:
        """Return the sort key of a row."""
        return (row.serial,) if self.member is None else (row.record[self.member], row.serial)


NEWEST_FIRST = Order()


def paginate(
    request: FakeRequest,
    name: str,
    matches: Callable[[Row], bool],
    *,
    order: Order = NEWEST_FIRST,
    filters: Sequence[object] = (),
    is_counted: bool = True,
) -> Record:
    """Return one page of the rows of a table.

    Args:
        request: The request; the errors that it has collected are raised here.
        name: The name of the table, and of the member with the records.
        matches: Whether a row is in the list; it is called after all errors were raised.
        order: The order of the list.
        filters: The values of the filters, to which cursors are bound.
        is_counted: Whether the response has totals.

    Raises:
        BadRequestError: `page`, `per_page` or `cursor` is invalid, or there are both `page` and `cursor`.
    """
    query, errors = request.query, request.errors
    number = errors.attempt(_query.parse_integer, query, "page", 1, 2**31 - 1) or 1
    size = errors.attempt(_query.parse_integer, query, "per_page", 20, 100) or 20
    binding = hashlib.sha256(repr((request.path, order, filters)).encode()).hexdigest()[:16]
    position = errors.attempt(_parse_cursor, query["cursor"], binding) if "cursor" in query else None
    if "page" in query and "cursor" in query:
        errors.add(
            BadRequestError(
                f"expected no page number together with a cursor for page but received {query['page']!r}"
            )
        )
    errors.raise_all()
    rows = sorted(filter(matches, request.table(name).rows.values()), key=order.key, reverse=order.descending)
    start = (number - 1) * size if position is None else _index_after(rows, position, order)
    items = rows[start : start + size]
    has_more = bool(items) and start + size < len(rows)
    return {
        name: [row.record for row in items],
        "pagination": {
            "page": number if position is None else None,
            "per_page": size,
            "total": len(rows) if is_counted else None,
            "total_pages": -(-len(rows) // size) if is_counted else None,
            "next_cursor": _encode_cursor(order.key(items[-1]), binding) if has_more else None,
        },
    }


def _index_after(rows: Iterable[Row], position: tuple[Any, ...], order: Order) -> int:
    """Return the number of rows up to a position, which need not exist any more."""
    keys = map(order.key, rows)
    return sum(key >= position if order.descending else key <= position for key in keys)


def _encode_cursor(position: tuple[Any, ...], binding: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([binding, *position]).encode()).decode()


def _parse_cursor(cursor: str, binding: str) -> tuple[Any, ...]:
    try:
        received, *position = json.loads(base64.urlsafe_b64decode(cursor))
    except (ValueError, TypeError, binascii.Error):
        received = None
    if received != binding:
        raise BadRequestError(
            f"expected the cursor of a page of this list, with its filters and order, for cursor "
            f"but received {cursor!r}"
        )
    return tuple(position)
