"""Settings of the database: its engine, and the connections to PostgreSQL."""

from __future__ import annotations

import re

from attrs import Attribute, field, frozen
from attrs.validators import ge

SQLITE = "sqlite"
"""The value of the setting `database` for a SQLite file in the data directory."""
_URL = re.compile(r"postgres(ql)?://[!-~]+", re.ASCII)


def require_database(_settings: object, attribute: Attribute[str], value: str) -> None:
    """Raise ValueError unless a value names an engine, by a URL that can be parsed; the message has no part.

    A URL is parsed by libpq, if psycopg is installed.
    """
    if value != SQLITE and not (_URL.fullmatch(value) and _is_parseable(value)):
        expected = "sqlite, or a URL like postgresql://user@host/name,"
        raise ValueError(f"expected {expected} for {attribute.name} but received another value")


def _is_parseable(url: str) -> bool:
    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        return True
    try:
        ports = str(conninfo_to_dict(url).get("port") or "")
    except (ProgrammingError, UnicodeDecodeError):
        return False
    return all(not port or (port.isdecimal() and 0 < int(port) <= 65_535) for port in ports.split(","))


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
