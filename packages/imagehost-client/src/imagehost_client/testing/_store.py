"""Records of the in-memory host: JSON objects in order of creation, each with its owner."""

from __future__ import annotations

import base64
import secrets
import time
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import define, field, frozen

from imagehost_client.errors import NotFoundError
from imagehost_client.models import rfc3339

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
"""The ThumbHash of every image."""


@define
class Row:
    """A record, its owner, and its position in the order of creation."""

    serial: int
    owner: str
    record: Record
    content: bytes = b""
    secret: str = ""


@frozen
class TokenGrant:
    """The permissions of a token.

    Attributes:
        account: The name of the account; empty for a request without a token.
        scopes: The scopes of a key; `None` for a session, which has all, and manages keys and sessions.
        key: The id of the key.
        session: The id of the session.
    """

    account: str
    scopes: tuple[str, ...] | None = None
    key: str | None = None
    session: str | None = None


@define
class Table:
    """The records of one kind."""

    name: str
    rows: dict[str, Row] = field(factory=dict)
    count: int = 0

    def add(self, owner: str, record: Record, *, content: bytes = b"", secret: str = "") -> Row:
        """Store a record, with an id and a creation time where it has none."""
        self.count += 1
        record.setdefault("id", new_id())
        record.setdefault("created_at", now())
        row = Row(self.count, owner, record, content, secret)
        self.rows[str(record["id"])] = row
        return row

    def get(self, owner: str, record_id: str) -> Row:
        """Return the owner's record with an id.

        Raises:
            NotFoundError: There is no such record, or another account owns it.
        """
        row = self.rows.get(record_id)
        if row is None or row.owner != owner:
            raise NotFoundError(f"expected the id of one of your {self.name} but received {record_id!r}")
        return row

    def remove(self, owner: str, record_id: str) -> Row:
        """Delete the owner's record with an id, and return it."""
        row = self.get(owner, record_id)
        del self.rows[record_id]
        return row


def new_id() -> str:
    """Return a random id of 16 characters."""
    return secrets.token_hex(8)


class HostClock:
    """The clock of an in-memory host: the real time, and what was skipped."""

    def __init__(self) -> None:
        self.skipped: float = 0.0

    def now(self) -> datetime:
        """Return the current time."""
        return datetime.now(UTC) + timedelta(seconds=self.skipped)

    def monotonic(self) -> float:
        """Return the time of a clock that is not set, in seconds."""
        return time.monotonic() + self.skipped

    def advance(self, seconds: float) -> None:
        """Let the time pass without waiting."""
        self.skipped += seconds


CLOCK: ContextVar[HostClock] = ContextVar("CLOCK", default=HostClock())  # noqa: B039 - never advanced
"""The clock of the host that handles the current request."""


def current_time() -> datetime:
    """Return the current time of the host that handles the current request."""
    return CLOCK.get().now()


def now() -> str:
    """Return the current time in RFC 3339."""
    return rfc3339(current_time())
