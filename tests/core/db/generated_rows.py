"""Strategies for the rows of all tables of a database, with every kind of value that a column can have."""

from __future__ import annotations

from contextlib import closing

from attrs import frozen
from hypothesis import strategies as st
from sqlite_utils import Database as SqliteFile

from imagehost_core.cluster.table_copy import copied_tables
from imagehost_core.db.engines.database import SqlValue, Transaction
from imagehost_core.db.engines.sqlite_database import migrate

Rows = dict[str, list[tuple[SqlValue, ...]]]
"""Rows by their table, with the values in the order of its columns."""

INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
# No database text has NUL, which PostgreSQL cannot store, and requests with it are refused.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12) | (
    st.sampled_from(["", "\\N", "\\.", "a\tb\nc\r", "'\"\\", "\u202e\U0010ffff", "e\u0301\u00e9", "NULL"])
)
BYTES = st.binary(max_size=12) | st.sampled_from([b"", b"\0\xff\\x00", b"\\N\n"])
VALUES: dict[str, st.SearchStrategy[SqlValue]] = {"INTEGER": INTEGERS, "TEXT": TEXTS, "BLOB": BYTES}


@frozen
class _Column:
    kind: str
    is_nullable: bool
    parent: tuple[str, str] | None
    is_unique: bool


def _columns() -> dict[str, dict[str, _Column]]:
    database = SqliteFile(memory=True)
    with closing(database.conn):
        migrate(database.conn)
        described = {}
        for table in copied_tables():
            described_table = database.table(table.name)
            parents = {
                key.column: (key.other_table, key.other_column or "")
                for key in described_table.foreign_keys
                if key.column
            }
            unique = {
                name
                for index in described_table.indexes
                if index.unique and len(index.columns) == 1
                for name in index.columns
            }
            described[table.name] = {
                column.name: _Column(
                    column.type or "TEXT",
                    # The columns of a virtual table have no types.
                    bool(column.type) and not column.notnull and not column.is_pk,
                    parents.get(column.name),
                    column.name in unique,
                )
                for column in described_table.columns
            }
        return described


_COLUMNS = _columns()


@st.composite
def database_rows(draw: st.DrawFn) -> Rows:
    """Return rows of all tables that refer to each other as foreign keys require."""
    rows: Rows = {}
    for table in copied_tables():
        count = draw(st.integers(0, 4))
        if table.name == "idempotency_results":
            # Its foreign key has two columns.
            parents = [row[:2] for row in rows["idempotency_keys"]]
            rows[table.name] = [(*parent, draw(INTEGERS), draw(TEXTS)) for parent in parents]
            continue
        drawn: dict[tuple[SqlValue, ...], tuple[SqlValue, ...]] = {}
        for number in range(count):
            values = tuple(_draw(draw, table.name, name, number, rows) for name in table.columns)
            if _MISSING not in values:
                key = tuple(values[table.columns.index(name)] for name in table.key)
                drawn[key] = values
        rows[table.name] = list(drawn.values())
    return rows


_MISSING = "a row that the foreign key could refer to"


def _draw(draw: st.DrawFn, table: str, name: str, number: int, rows: Rows) -> SqlValue:
    if name == "rowid":
        return draw(st.integers(1, 2**40))
    column = _COLUMNS[table][name]
    if column.is_nullable and draw(st.booleans()):
        return None
    if column.parent is not None:
        parent = next(each for each in copied_tables() if each.name == column.parent[0])
        position = parent.columns.index(column.parent[1])
        keys = [row[position] for row in rows[parent.name]]
        return draw(st.sampled_from(keys)) if keys else (None if column.is_nullable else _MISSING)
    # Names of accounts are unique by an index of an expression.
    if column.is_unique or (table, name) == ("accounts", "name"):
        return f"{draw(TEXTS)}{number}"
    if name == "used_bytes":
        return draw(st.integers(0, 2**63 - 1))
    return draw(VALUES[column.kind.upper()])


def replace_rows(transaction: Transaction, rows: Rows) -> None:
    """Replace the rows of all tables."""
    for table in reversed(copied_tables()):
        transaction.execute(f"DELETE FROM {table.name}", {})
    for table in copied_tables():
        transaction.insert_rows(table.name, table.columns, rows[table.name])
