"""Tables of another program's SQLite database, read without changing it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from imagehost_core.errors import InternalError

HEADER = b"SQLite format 3\0"
"""The first bytes of a database file (https://www.sqlite.org/fileformat.html, section 1.3)."""


def sqlite_table_names(path: Path) -> tuple[str, ...]:
    """Return the names of the tables of a database file.

    Raises:
        InternalError: The file cannot be read as a database.
    """
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name"
    return tuple(str(row["name"]) for row in _rows(path, sql))


def sqlite_rows(path: Path, table: str) -> Iterator[Mapping[str, object]]:
    """Yield the rows of a table.

    Args:
        path: The database file.
        table: One of `sqlite_table_names`.

    Raises:
        InternalError: The file cannot be read as a database.
    """
    quoted = table.replace('"', '""')
    yield from _rows(path, f'SELECT * FROM "{quoted}"')  # noqa: S608 - quoted


def _rows(path: Path, sql: str) -> Iterator[Mapping[str, object]]:
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.row_factory = sqlite3.Row
            yield from map(dict, connection.execute(sql))
    except sqlite3.Error as error:
        raise InternalError(f"expected a database at {str(path)!r} but received: {error}") from error
