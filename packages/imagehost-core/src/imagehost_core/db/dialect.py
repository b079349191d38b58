"""The dialects of SQL: what statements cannot express in the same way on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen


@frozen
class Dialect:
    """The SQL of an engine, where the engines differ.

    Attributes:
        name: The name of the engine.
        is_shared: Whether several hosts can share a database.
        texts: Returns the subquery for the elements of a parameter: a JSON array of texts.
        integers: Returns the subquery for the elements of a parameter, a JSON array of integers, in the
            column `value`.
        json_array: Returns the aggregate for the values of an expression, in the order of the rows, as the
            text of a JSON array.
        has_word_vectors: Whether `image_words` has a column `words` with a `tsvector`.
        for_share: The end of a query whose rows do not change until the transaction ends.
        for_update: The end of a query that locks the rows of the table `item` until the transaction ends.
        skip_locked: The same, without those that another transaction has locked.
        counter_slot: The expression for the end of the name of the counter that a transaction changes; it has
            several values if transactions run at the same time.
        lock: Returns the statement that locks a number until the transaction ends, with others that share it
            (true) or alone (false); empty for an engine with one writer.
        now: The time in microseconds, where several hosts compare it: by the clock of the server that they
            share; of an engine for one host, the parameter `now`.
        matches_words: The condition under which a row of `image_words` has the words of a search.
        has_phrases: Whether that condition also finds phrases.
        contains: Returns the condition under which a text contains another one.
        word_texts: The table with the texts of `image_words`, and its columns: the number of the image, and
            those texts.
    """

    name: str
    is_shared: bool
    texts: Callable[[str], str]
    integers: Callable[[str], str]
    json_array: Callable[[str], str]
    has_word_vectors: bool
    for_share: str
    for_update: str
    skip_locked: str
    counter_slot: str
    lock: Callable[[int, bool], str]
    now: str
    matches_words: str
    has_phrases: bool
    contains: Callable[[str, str], str]
    word_texts: tuple[str, str, tuple[str, str]]


SQLITE = Dialect(
    name="SQLite",
    is_shared=False,
    texts="(SELECT value FROM json_each(:{}))".format,
    integers="(SELECT value FROM json_each(:{}))".format,
    json_array="json_group_array({})".format,
    has_word_vectors=False,
    for_share="",
    for_update="",
    skip_locked="",
    counter_slot="''",
    lock=lambda _number, _is_shared: "",
    now=":now",
    matches_words="image_words MATCH :words",
    has_phrases=True,
    contains="instr({}, {}) > 0".format,
    # The table behind that of FTS5, which reads a row in a third of the time
    # (https://sqlite.org/fts5.html#fts5_data_structures).
    word_texts=("image_words_content", "id", ("c0", "c1")),
)
"""The dialect of SQLite (https://www.sqlite.org/lang.html)."""

_COUNTER_SLOTS = 32
"""The most rows of a counter that transactions change at the same time."""
POSTGRES = Dialect(
    name="PostgreSQL",
    is_shared=True,
    texts="(SELECT jsonb_array_elements_text(CAST(:{} AS jsonb)))".format,
    integers="(SELECT CAST(jsonb_array_elements_text(CAST(:{} AS jsonb)) AS bigint) AS value)".format,
    json_array="coalesce(CAST(json_agg({}) AS text), '[]')".format,
    has_word_vectors=True,
    for_share="FOR SHARE",
    for_update="FOR UPDATE OF item",
    skip_locked="FOR UPDATE OF item SKIP LOCKED",
    # A connection has one transaction at a time, and those of a process have successive numbers.
    counter_slot=f"' ' || pg_backend_pid() % {_COUNTER_SLOTS}",
    lock=lambda number, is_shared: f"SELECT pg_advisory_xact_lock{'_shared' if is_shared else ''}({number})",
    now="CAST(1000000 * extract(epoch FROM clock_timestamp()) AS bigint)",
    matches_words="words @@ CAST(:words AS tsquery)",
    has_phrases=False,
    contains="strpos({}, {}) > 0".format,
    word_texts=("image_words", "rowid", ("filename", "description")),
)
"""The dialect of PostgreSQL (https://www.postgresql.org/docs/current/sql.html)."""
