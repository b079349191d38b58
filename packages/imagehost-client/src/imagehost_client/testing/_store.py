"""What the double keeps: records as JSON objects, newest last, each with its owner."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import define, field, frozen

from imagehost_client._wire import rfc3339
from imagehost_client.errors import BadRequestError, NotFoundError
from imagehost_client.testing._forms import integer

Record = dict[str, Any]

SCOPES = (
    "images:read",
    "images:write",
    "images:delete",
    "albums:read",
    "albums:write",
    "webhooks:manage",
    "account:read",
)

PLACEHOLDER = base64.b64encode(bytes.fromhex("a0f70500" + "88" * 20)).decode()
"""A ThumbHash; every image has the same."""


@define
class Row:
    """A record, its owner, and its place in the order of making."""

    serial: int
    owner: str
    record: Record
    content: bytes = b""
    secret: str = ""


@frozen
class TokenGrant:
    """What a token may do; `scopes` of `None` are all, and the keys too: a session's."""

    account: str
    scopes: tuple[str, ...] | None = None
    key: str | None = None


@define
class Table:
    """The records of one kind."""

    name: str
    rows: dict[str, Row] = field(factory=dict)
    count: int = 0

    def add(self, owner: str, record: Record, **rest: Any) -> Row:
        """Keep a record; it gets an id, and the time if it has none."""
        self.count += 1
        record.setdefault("id", new_id())
        record.setdefault("created_at", now())
        row = Row(self.count, owner, record, **rest)
        self.rows[str(record["id"])] = row
        return row

    def get(self, owner: str, number: str) -> Row:
        """Return a record of its owner's.

        Raises:
            NotFoundError: There is none, or it is somebody else's: no caller can tell which.
        """
        row = self.rows.get(number)
        if row is None or row.owner != owner:
            raise NotFoundError(f"expected the id of one of your {self.name} but received {number!r}")
        return row

    def remove(self, owner: str, number: str) -> Row:
        """Drop a record of its owner's, and return it."""
        row = self.get(owner, number)
        del self.rows[number]
        return row

    def page(self, query: Mapping[str, str], wanted: Callable[[Row], bool]) -> Record:
        """Return a page of what is wanted, newest first.

        Raises:
            BadRequestError: `page`, `per_page` or `cursor` is wrong.
        """
        page, size = integer(query, "page", 1, 2**31 - 1), integer(query, "per_page", 20, 100)
        rows = [row for row in reversed(self.rows.values()) if wanted(row)]
        start = (page - 1) * size
        if "cursor" in query:
            before = _serial(query["cursor"])
            start = sum(1 for row in rows if row.serial >= before)
            page = start // size + 1
        shown = rows[start : start + size]
        more = start + size < len(rows)
        return {
            self.name: [row.record for row in shown],
            "pagination": {
                "page": page,
                "per_page": size,
                "total": len(rows),
                "total_pages": -(-len(rows) // size),
                "next_cursor": f"s{shown[-1].serial}" if more and shown else None,
            },
        }


def _serial(cursor: str) -> int:
    digits = cursor[1:]
    if not cursor.startswith("s") or not (digits.isascii() and digits.isdecimal() and len(digits) < 19):
        raise BadRequestError(f"expected a cursor of an earlier page for cursor but received {cursor!r}")
    return int(digits)


def new_id() -> str:
    """Return 16 characters that nothing else has."""
    return secrets.token_hex(8)


def now() -> str:
    """Return the time as records hold it."""
    return rfc3339(datetime.now(UTC))
