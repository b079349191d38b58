"""The last ids that the database has assigned: those of deleted rows are not assigned again."""

from __future__ import annotations

from collections.abc import Mapping

from imagehost_core.db.columns import integer
from imagehost_core.db.database import Queryable, Transaction
from imagehost_core.db.dialect import SQLITE

_NEVER_REUSED = {"accounts": "id", "albums": "id"}
"""The tables whose ids are never reused, with the column of the id."""
_NUMBERED = {"events": "number"}
"""The tables whose rows are numbered by the database, with the column of the number."""

# https://sqlite.org/autoinc.html
_LAST_OF_SQLITE = "SELECT coalesce(max(seq), 0) AS id FROM sqlite_sequence WHERE name = :table"
_SEQUENCE = "pg_get_serial_sequence(:table, :column)"
# https://www.postgresql.org/docs/current/functions-sequence.html
_LAST_OF_POSTGRES = f"SELECT coalesce(pg_sequence_last_value(CAST({_SEQUENCE} AS regclass)), 0) AS id"
_SET_SEQUENCE = f"SELECT setval({_SEQUENCE}, greatest(:last, 1), :last > 0)"


def last_ids(queryable: Queryable) -> dict[str, int]:
    """Return the last assigned id of each table whose ids are never reused; 0 if there was none."""
    sql = _LAST_OF_SQLITE if queryable.dialect is SQLITE else _LAST_OF_POSTGRES
    found = {}
    for table, column in _NEVER_REUSED.items():
        values = {"table": table} if queryable.dialect is SQLITE else {"table": table, "column": column}
        row = queryable.fetch_one(sql, values)
        found[table] = 0 if row is None else integer(row, "id")
    return found


def set_last_ids(transaction: Transaction, ids: Mapping[str, int]) -> None:
    """Let the database assign ids after given ones, and numbers after those of all rows."""
    if transaction.dialect is SQLITE:
        for table, last in ids.items():
            transaction.execute("DELETE FROM sqlite_sequence WHERE name = :table", {"table": table})
            transaction.insert("sqlite_sequence", {"name": table, "seq": last})
        return
    for table, column in _NEVER_REUSED.items():
        transaction.fetch_one(_SET_SEQUENCE, {"table": table, "column": column, "last": ids[table]})
    for table, column in _NUMBERED.items():
        sql = f"SELECT coalesce(max({column}), 0) AS id FROM {table}"  # noqa: S608 - constants only
        row = transaction.fetch_one(sql, {})
        last = 0 if row is None else integer(row, "id")
        transaction.fetch_one(_SET_SEQUENCE, {"table": table, "column": column, "last": last})
