"""Typed access to the columns of a row."""

from __future__ import annotations

from datetime import datetime

from imagehost_core._util.clock import from_micros, to_micros
from imagehost_core.db.database import SqlRow


def integer(row: SqlRow, name: str) -> int:
    """Return the value of an integer column."""
    value = row[name]
    assert isinstance(value, int), name
    return value


def text(row: SqlRow, name: str) -> str:
    """Return the value of a text column."""
    value = row[name]
    assert isinstance(value, str), name
    return value


def blob(row: SqlRow, name: str) -> bytes:
    """Return the value of a column of bytes."""
    value = row[name]
    assert isinstance(value, bytes), name
    return value


def timestamp(row: SqlRow, name: str) -> datetime:
    """Return the value of a timestamp column."""
    return from_micros(integer(row, name))


def optional_timestamp(row: SqlRow, name: str) -> datetime | None:
    """Return the value of a nullable timestamp column."""
    return None if row[name] is None else timestamp(row, name)


def to_optional_micros(value: datetime | None) -> int | None:
    """Return the value to store in a nullable timestamp column."""
    return None if value is None else to_micros(value)
