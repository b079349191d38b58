"""The plans of all statements of a server: none reads a table, an account, an album or a list of events.

`statement_walk` visits all that there is, with each engine. The plan of each statement is that in a database
with the rows of `many_rows`; SQLite's without ANALYZE does not depend on their number. `LONG` has the
statements that may read many rows, with the reason.
"""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from attrs import frozen
from tests.many_rows import ROWS, STATEMENTS, WEBHOOK
from tests.postgres import PostgresServer
from tests.server.statement_walk import everything, walking
from tests.sqlite_hooks import sqlite_hooks

import imagehost_core
from imagehost_core import ImageHost
from imagehost_server.settings import load

REPOSITORIES = ("db/repositories/*.py", "db/lists/*.py", "db/*.py", "services/*.py")
"""The files with the statements of requests and background tasks."""
EXECUTES = {"fetch_one", "fetch_all", "execute", "insert", "insert_numbered", "insert_rows"}
"""The methods that execute a statement."""
READS_ROWS = re.compile(r"\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH)\b")
"""The beginning of a statement that has a plan."""
LONG = {
    # The first rows in the order of an index.
    r"LIMIT :count OFFSET :offset": "a page of a list: `tests/core/db/test_list_plans.py`",
    r"ORDER BY images\.created_at DESC, images\.id DESC LIMIT 1 \)": "the cover of an album, its newest",
    r"SELECT 1 FROM images AS item WHERE .* LIMIT \d+\) AS first$": "the length of a list, up to 5,001",
    r"^SELECT 1 AS found WHERE EXISTS \(SELECT 1 FROM accounts\)": "whether there is any",
    r"^SELECT id FROM (accounts|api_keys WHERE account_id = :account) LIMIT 1$": "whether there is any",
    r"WHERE role = 'operator' AND suspended_at IS NULL AND id != :id LIMIT 1$": "whether there is another",
    r"FROM webhooks AS item WHERE disabled_reason IS NOT NULL ORDER BY": "an index has these alone",
    r"FROM cache_purges( AS item)? WHERE next_attempt_at [<>].* LIMIT (1|:count)$": "those that are due",
    r"FROM cache_purges ORDER BY next_attempt_at LIMIT (1$|10000 )": "the first, and for metrics 10,000",
    r"^WITH RECURSIVE pending": "a seek for each webhook: `tests/core/db/test_lease_queries.py`",
    r"^SELECT id, next_attempt_at FROM webhook_deliveries AS item WHERE .* LIMIT :count$": "the same",
    r"^SELECT item\.id FROM images AS item WHERE item\.album_id = :album( AND item\.is_public = [01])? "
    r"ORDER BY item\.created_at, item\.id LIMIT :count$": "the next thousand of an album",
    r"^INSERT INTO gallery_images .* WHERE item\.id IN \(": "seeks for each of at most 1,000 ids",
    r"AND item\.upload_sha256 = :sha256 AND .* LIMIT 1$": "an account's images of the same uploaded bytes",
    # Few in any host.
    r"FROM \(SELECT 1 FROM webhooks AS item WHERE item\.account_id": "an account has at most 100 webhooks",
    r"FROM webhooks WHERE account_id = :(account|id|value)( AND is_active = 1)?$": "the same",
    r"FROM \(SELECT 1 FROM album_shares AS item WHERE item\.album_id": "an album has at most 100 shares",
    r"^DELETE FROM album_shares WHERE album_id = :album_id AND expires_at": "the same",
    r"FROM \(SELECT 1 FROM sessions AS item WHERE item\.account_id": "an account has at most 1,000 sessions",
    r"^SELECT DISTINCT ip_address FROM sessions WHERE account_id": "the same",
    r"^DELETE FROM sessions WHERE account_id": "the same",
    r"FROM counters WHERE name >= :name": "a total has at most 33 rows",
    r"lease_expires_at = NULL WHERE lease_expires_at IS NOT NULL": "those that senders have leased now",
    r"^SELECT image_id FROM tombstones$": "deleted images of which files are left",
    r"FROM (installation|_sqlite_migrations)\b": "a row for the host, and one for each version of the schema",
    # What has expired since the last time.
    r"(FROM|^DELETE FROM) (sessions|idempotency_keys) WHERE (expires_at|created_at) <=? :": "in an index",
    r"FROM events( CROSS JOIN .* AND| WHERE) events\.created_at < :before": "in an index",
    # All of something, by their purpose.
    r"gallery_images.* WHERE item\.(account|album)_id = :value": "hides or shows all images of a scope",
    r"^INSERT INTO cache_purges .* FROM images WHERE account_id": "removes an account's images from caches",
    r"^SELECT id FROM images WHERE (account|album)_id = .* FROM tombstones WHERE": "all of these are deleted",
    r"^DELETE FROM (accounts|albums|webhooks) WHERE id = ": "few refer to it any more",
    r"^DELETE FROM (albums|api_keys|idempotency_keys) WHERE account_id = :id$": "an account is deleted",
    r"^DELETE FROM events WHERE number IN": "a webhook is deleted: 0.7 s for 80,000 deliveries",
    r"^UPDATE webhook_deliveries SET state = 'failed'": "a webhook is disabled: 0.2 s for 40,000 deliveries",
    r"^UPDATE webhook_deliveries SET next_attempt_at = :now WHERE state = 'pending'": "at a start; a command",
    r"^SELECT min\( CASE WHEN lease_expires_at > next_attempt_at": "`Webhooks.next_due` of a program",
    r"^SELECT count\(\*\) AS accounts, coalesce\(sum": "the metrics: 100,000 accounts",
    r"ORDER BY used_bytes DESC, id LIMIT :count$": "an operator's page: 0.1 s for 100,000 accounts",
    # Commands that go through a whole host.
    r"^UPDATE image_words SET filename = (trim|replace)\(": "a migration",
    r"^DELETE FROM \w+$": "restore: the first rows of an empty host",
    r" AS row_key, ": "fsck: references to nothing",
    r"\bactual_(\w+_)?(count|value)\b": "fsck: counters",
    r"FROM image_words WHERE NOT EXISTS|FROM gallery_images EXCEPT": "fsck: indexes",
    r"WHERE (item\.)?(number|id) > :after( AND created_at >= :since)? ORDER BY": "a thousand rows at a time",
    r"^SELECT count\(\*\) AS (images|number) FROM images": "the progress of fsck and backup",
}
"""Patterns of statements that may read many rows, with the reason."""

_STEP = re.compile(
    r"(?:SCAN|SEARCH) (?P<alias>\S+)"
    r"(?: VIRTUAL TABLE INDEX (?P<virtual>\S+)"
    r"| USING (?:AUTOMATIC )?(?:PARTIAL )?(?:COVERING )?"
    r"(?P<key>INTEGER PRIMARY KEY|PRIMARY KEY|INDEX(?: (?P<index>[^ (]+))?))?"
    r"(?: \((?P<condition>.*)\))?"
)
"""A step of a plan that reads a table (https://sqlite.org/eqp.html)."""


class SqlitePlans:
    """The plans of a SQLite database."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        # Plans then contain the search for rows that refer to one that is deleted.
        database.execute("PRAGMA foreign_keys = ON")
        # The columns of each table with their positions in its primary key, and of each index that is unique.
        self._tables = {
            table: {name: position for _, name, _, _, _, position in self._rows(f"table_info('{table}')")}
            for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        }
        self._unique = {
            index: {name or "<expr>" for _, _, name in self._rows(f"index_info('{index}')")}
            for table in self._tables
            for _, index, is_unique, *_ in self._rows(f"index_list('{table}')")
            if is_unique
        }

    def long_steps(self, sql: str, values: Any) -> list[str]:
        """Return the steps of a statement that read a table otherwise than by a unique key."""
        aliases = {alias: table for table, alias in re.findall(r"\b(\w+) AS (\w+)", sql)}
        plan = self._database.execute(f"EXPLAIN QUERY PLAN {sql}", values)
        return [step for *_, step in plan if not self._is_bounded(step, aliases)]

    def _is_bounded(self, step: str, aliases: dict[str, str]) -> bool:
        match = _STEP.match(step)
        if match is None:
            return True
        table = aliases.get(match["alias"], match["alias"])
        if match["virtual"] is not None:
            # FTS5 with neither a row nor words reads all.
            return match["virtual"] != "0:" or table != "image_words"
        if table not in self._tables:
            return True  # a result of another step
        equal = set(re.findall(r"([\w<>]+)=\?", match["condition"] or ""))
        if match["key"] == "INTEGER PRIMARY KEY":
            return equal == {"rowid"}
        if match["key"] == "PRIMARY KEY":
            return {name for name, position in self._tables[table].items() if position} <= equal
        return self._unique.get(match["index"] or "", {"no key"}) <= equal

    def _rows(self, pragma: str) -> list[Any]:
        return self._database.execute(f"PRAGMA {pragma}").fetchall()


MAX_COST = 0.01 * ROWS
"""PostgreSQL's estimate of what reading so many rows costs at least, its `cpu_tuple_cost` for each."""
LARGE = {**dict.fromkeys(("album", "album_id", "owner", "value"), 1), "webhook": WEBHOOK}
"""The values with which parameters choose what has many rows, in place of those of the walk."""


class PostgresPlans:
    """The plans of a PostgreSQL database."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def cost(self, sql: str, values: Any) -> float | None:
        """Return the cost of a statement that reads many rows; `None` for others."""
        if isinstance(values, dict):
            large = {name: value for name, value in LARGE.items() if type(values.get(name)) is type(value)}
            values = {**values, **large}
        ((plan,),) = self._connection.execute(f"EXPLAIN (FORMAT JSON) {sql}".encode(), values)
        cost = float(plan[0]["Plan"]["Total Cost"])
        return cost if cost >= MAX_COST else None


@contextmanager
def recorded_statements() -> Iterator[dict[str, Any]]:
    """Yield the statements that the connections to PostgreSQL execute in a block, with their first values."""
    statements: dict[str, Any] = {}
    execute = psycopg.Connection.execute

    def record(connection: Any, query: Any, values: Any = None, **options: Any) -> Any:
        if isinstance(query, str):
            statements.setdefault(query, values)
        return execute(connection, query, values, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg.Connection, "execute", record)
        yield statements


@frozen
class Walked:
    """A walk that has ended.

    Attributes:
        data: The data directory.
        statements: All statements with the values of their first execution.
        callers: Files and lines that executed them, directly or not.
    """

    data: Path
    statements: Mapping[str, Any]
    callers: Set[tuple[str, int]]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    """A walk through a host on SQLite."""
    with sqlite_hooks() as hooks, walking(tmp_path_factory.mktemp("walk") / "data", {}, {}) as walk:
        walk.all()
    assert walk.visited == everything()
    return Walked(walk.data, hooks.values, hooks.callers)


def require_bounded(statements: Mapping[str, Any], reads_many: Callable[[str, Any], Any]) -> None:
    """Assert that no statement reads many rows but those of `LONG`.

    Args:
        statements: Statements with their values.
        reads_many: Returns how a statement reads many rows, or what is false.
    """
    found = {
        text: reads_many(sql, values)
        for sql, values in statements.items()
        if READS_ROWS.match(sql) and not any(re.search(each, text := normalized(sql)) for each in LONG)
    }
    assert {text: how for text, how in found.items() if how} == {}


def normalized(sql: str) -> str:
    """Return a statement in one line, with the parameters of SQLite."""
    return re.sub(r"%\((\w+)\)s", r":\1", " ".join(sql.split()))


def test_the_walk_executes_every_statement_of_the_repositories(walked: Walked) -> None:
    """So that the plan of a new statement is looked at."""
    core = Path(imagehost_core.__file__).parent
    for path in (path for pattern in REPOSITORIES for path in core.glob(pattern)):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr=name)) if name in EXECUTES:
                    lines = range(node.lineno, (node.end_lineno or 0) + 1)
                    assert {(str(path), line) for line in lines} & walked.callers, f"{path}:{node.lineno}"


def test_no_statement_on_sqlite_reads_many_rows(walked: Walked) -> None:
    path = walked.data / "imagehost.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        require_bounded(walked.statements, SqlitePlans(database).long_steps)
    texts = [*map(normalized, walked.statements)]
    assert [each for each in LONG if not any(re.search(each, text) for text in texts)] == []


@pytest.mark.slow
def test_no_statement_on_sqlite_with_statistics_reads_many_rows(walked: Walked, tmp_path: Path) -> None:
    ImageHost.open(tmp_path / "data").close()
    path = tmp_path / "data" / "imagehost.sqlite3"
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in ("PRAGMA synchronous = OFF", "BEGIN", *STATEMENTS, "COMMIT", "ANALYZE"):
            database.execute(statement)
        require_bounded(walked.statements, SqlitePlans(database).long_steps)


@pytest.mark.external
def test_no_statement_on_postgres_reads_many_rows(postgres_server: PostgresServer, tmp_path: Path) -> None:
    with ExitStack() as stack:
        urls = [stack.enter_context(postgres_server.empty_database()) for _ in range(3)]
        walked, restored, large = ({"IMAGEHOST_DATABASE": url} for url in urls)
        with recorded_statements() as statements, walking(tmp_path / "data", walked, restored) as walk:
            walk.all()
        ImageHost.open(tmp_path / "large", settings=load(tmp_path / "large", {}, large)[0]).close()
        with psycopg.connect(urls[2]) as connection:
            for statement in (*STATEMENTS, "ANALYZE"):
                connection.execute(statement.encode())
            require_bounded(statements, PostgresPlans(connection).cost)
