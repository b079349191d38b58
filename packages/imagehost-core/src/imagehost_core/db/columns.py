"""How values cross between rows and models."""

from __future__ import annotations

from datetime import datetime

from imagehost_core._util.clock import from_micros, to_micros
from imagehost_core.db.database import Row


def integer(row: Row, name: str) -> int:
    """Return a column that holds an integer."""
    value = row[name]
    assert isinstance(value, int), name
    return value


def text(row: Row, name: str) -> str:
    """Return a column that holds text."""
    value = row[name]
    assert isinstance(value, str), name
    return value


def timestamp(row: Row, name: str) -> datetime:
    """Return a column that holds a time."""
    return from_micros(integer(row, name))


def optional_timestamp(row: Row, name: str) -> datetime | None:
    """Return a column that may hold a time."""
    return None if row[name] is None else timestamp(row, name)


def to_optional_micros(value: datetime | None) -> int | None:
    """Return what a column holds for a time that may be missing."""
    return None if value is None else to_micros(value)
