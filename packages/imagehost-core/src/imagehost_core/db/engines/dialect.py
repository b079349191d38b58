"""The dialects of SQL: what statements cannot express in the same way on SQLite and on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from attrs import frozen


@frozen
class Dialect:
    """The SQL of an engine, where the engines differ.

    Attributes:
        name: The name of the engine.
        is_shared: Whether several hosts can share a database.
        texts: Returns the subquery for the elements of a parameter: a JSON array of texts.
        for_share: The end of a query whose rows do not change until the transaction ends.
        for_update: The end of a query that locks the rows of the table `item` until the transaction ends.
        skip_locked: The same, without those that another transaction has locked.
        counter_slot: The expression for the end of the name of the counter that a transaction changes; it has
            several values if transactions run at the same time.
        now: The time in microseconds, where several hosts compare it: by the clock of the server that they
            share; of an engine for one host, the parameter `now`.
        has_fts5: Whether `image_words` is a table of FTS5.
        contains: Returns the condition under which a text contains another one.
        before: Returns the part of a text before another one; the whole text without it.
        unindexed: Returns a column that is compared without choosing an index for it. PostgreSQL chooses by
            statistics, which it has of columns and not of expressions.
    """

    name: str
    is_shared: bool
    texts: Callable[[str], str]
    for_share: str
    for_update: str
    skip_locked: str
    counter_slot: str
    now: str
    has_fts5: bool
    contains: Callable[[str, str], str]
    before: Callable[[str, str], str]
    unindexed: Callable[[str], str]


SQLITE = Dialect(
    name="SQLite",
    is_shared=False,
    texts="(SELECT value FROM json_each(:{}))".format,
    for_share="",
    for_update="",
    skip_locked="",
    counter_slot="''",
    now=":now",
    has_fts5=True,
    contains="instr({}, {}) > 0".format,
    before="substr({0}, 1, instr({0} || {1}, {1}) - 1)".format,
    unindexed="+{}".format,
)
"""The dialect of SQLite (https://www.sqlite.org/lang.html)."""

_COUNTER_SLOTS = 32
"""The most rows of a counter that transactions change at the same time."""
POSTGRES = Dialect(
    name="PostgreSQL",
    is_shared=True,
    texts="(SELECT jsonb_array_elements_text(CAST(:{} AS jsonb)))".format,
    for_share="FOR SHARE",
    for_update="FOR UPDATE OF item",
    skip_locked="FOR UPDATE OF item SKIP LOCKED",
    # A connection has one transaction at a time, and those of a process have successive numbers.
    counter_slot=f"' ' || pg_backend_pid() % {_COUNTER_SLOTS}",
    now="CAST(1000000 * extract(epoch FROM clock_timestamp()) AS bigint)",
    has_fts5=False,
    contains="strpos({}, {}) > 0".format,
    before="split_part({}, {}, 1)".format,
    unindexed="{}".format,
)
"""The dialect of PostgreSQL (https://www.postgresql.org/docs/current/sql.html)."""


_LITERAL_OR_PARAMETER = re.compile(r"'[^']*'|:([a-z_][a-z0-9_]*)")


@lru_cache(1_000)
def to_psycopg(sql: str) -> str:
    """Return a statement with parameters like `%(name)s` in place of `:name`."""
    return _LITERAL_OR_PARAMETER.sub(
        lambda match: match[0] if match[1] is None else f"%({match[1]})s", sql.replace("%", "%%")
    )


def insert_statement(table: str, row: Mapping[str, object]) -> str:
    """Return the statement that inserts a row."""
    names = ", ".join(row)
    placeholders = ", ".join(f":{name}" for name in row)
    # Table and column names are constants, never input.
    return f"INSERT INTO {table} ({names}) VALUES ({placeholders})"  # noqa: S608
