"""Statements and values as psycopg sends them to PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from imagehost_core.db.database import SqlValue

_LITERAL_OR_PARAMETER = re.compile(r"'[^']*'|:([a-z_][a-z0-9_]*)")


@lru_cache(1_000)
def to_psycopg(sql: str) -> str:
    """Return a statement with parameters like `%(name)s` in place of `:name`."""
    return _LITERAL_OR_PARAMETER.sub(
        lambda match: match[0] if match[1] is None else f"%({match[1]})s", sql.replace("%", "%%")
    )


def insert_statement(table: str, row: Mapping[str, SqlValue]) -> str:
    """Return the statement that inserts a row."""
    names = ", ".join(row)
    placeholders = ", ".join(f":{name}" for name in row)
    # Table and column names are constants, never input.
    return f"INSERT INTO {table} ({names}) VALUES ({placeholders})"  # noqa: S608
