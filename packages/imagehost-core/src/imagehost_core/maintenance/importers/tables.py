"""Tables of another program's database, or of an export of it."""

from __future__ import annotations

import csv
import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from attrs import field, frozen

from imagehost_core.errors import FieldError, InternalError, ValidationError, quote_value

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


Row = Mapping[str, str | None]
"""The values of a row by column: text, or `None` for NULL."""

_NULLS = frozenset({"", "NULL", "\\N"})
"""NULL in CSV of PostgreSQL, and in the output of `mysql --batch` and of phpMyAdmin."""
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {"n": "\n", "t": "\t", "0": "\0"}
"""Escape sequences of `mysql --batch`; any other escaped character stands for itself."""


@frozen
class Tables:
    """Tables by name.

    Attributes:
        names: The names.
    """

    names: tuple[str, ...]
    _read: Callable[[str], Iterator[Row]] = field(repr=False)

    def rows(self, name: str) -> Iterator[Row]:
        """Yield the rows of a table; none, if there is no such table."""
        if name in self.names:
            yield from self._read(name)


def open_tables(path: Path) -> Tables:
    """Return the tables of a database file, of a directory of CSV or TSV files, or of a JSON export.

    Args:
        path: A SQLite database; a directory with files such as `images.csv` (with a header line) or
            `images.tsv` (the output of `mysql --batch`); or a JSON export of phpMyAdmin.

    Raises:
        ValidationError: The path is none of them.
        OSError: It cannot be read.
    """
    if path.is_dir():
        files = {file.stem: file for file in sorted(path.iterdir()) if file.suffix in _READERS}
        if files:
            return Tables(tuple(files), lambda name: _READERS[files[name].suffix](files[name]))
    else:
        with path.open("rb") as file:
            head = file.read(len(HEADER))
        if head == HEADER:
            return Tables(sqlite_table_names(path), lambda name: map(_to_text, sqlite_rows(path, name)))
        if head.lstrip()[:1] == b"[":
            return _phpmyadmin_tables(path)
    expected = "a SQLite database, a directory of .csv or .tsv files, or a JSON export of phpMyAdmin"
    raise ValidationError(errors=[FieldError("PATH", expected, quote_value(str(path)))])


def _read_csv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            yield {name: None if value in _NULLS else value for name, value in row.items()}


def _read_tsv(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        lines = (line.rstrip("\n").split("\t") for line in file)
        names = next(lines, [])
        for values in lines:
            yield {
                name: None if value in _NULLS else _ESCAPE.sub(_unescape, value)
                for name, value in zip(names, values, strict=False)
            }


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {".csv": _read_csv, ".tsv": _read_tsv}


def _unescape(match: re.Match[str]) -> str:
    return _UNESCAPED.get(match[1], match[1])


def _phpmyadmin_tables(path: Path) -> Tables:
    try:
        entries = json.loads(path.read_bytes())
        tables: dict[str, list[dict[str, object]]] = {
            entry["name"]: entry["data"] for entry in entries if entry.get("type") == "table"
        }
    except (ValueError, KeyError, AttributeError) as error:
        expected = "a JSON export of phpMyAdmin"
        raise ValidationError(errors=[FieldError("PATH", expected, quote_value(str(path)))]) from error
    return Tables(tuple(tables), lambda name: map(_to_text, tables[name]))


def _to_text(row: Mapping[str, object]) -> Row:
    return {name: None if value is None else str(value) for name, value in row.items()}
