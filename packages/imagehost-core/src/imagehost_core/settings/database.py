"""Settings of the database: its engine, and the connections to PostgreSQL."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen
from attrs.validators import ge

SQLITE = "sqlite"
"""The value of the setting `database` for a SQLite file in the data directory."""
_URL = re.compile(r"postgres(ql)?://[!-~]+", re.ASCII)


def require_database(_settings: object, attribute: Attribute[str], value: str) -> None:
    """Raise ValueError unless a value names an engine; the message has no password."""
    if value != SQLITE and _URL.fullmatch(value) is None:
        expected = "sqlite, or a URL like postgresql://user@host/name,"
        raise ValueError(f"expected {expected} for {attribute.name} but received another value")


def redact_password(database: str) -> str:
    """Return the setting `database` with `***` in place of a password."""
    hidden = re.sub(r"(?i)([?&](?:ssl)?password=)[^&]*", r"\1***", database)
    user, separator, _ = (urlsplit(database).netloc.rpartition("@")[0]).partition(":")
    return hidden.replace(f"//{user}:{_}@", f"//{user}:***@", 1) if separator else hidden


@frozen(kw_only=True)
class PostgresSettings:
    """The connections of each process to PostgreSQL.

    Attributes:
        pool_size: The most connections of a process.
        timeout_seconds: The longest time that a request waits for a connection, and for other transactions.
        statement_timeout_seconds: The longest time of a statement of a request.
    """

    pool_size: int = field(default=10, validator=ge(1))
    timeout_seconds: float = field(default=5.0, validator=ge(0.1))
    statement_timeout_seconds: float = field(default=30.0, validator=ge(0.1))
