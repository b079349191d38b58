"""The PostgreSQL engine: scopes of transactions, deadlines, and a server that stops, freezes or is killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.postgres import FAST, PostgresServer, run_postgres

from imagehost_core import ImageHost, Settings
from imagehost_core._util.clock import utc_now
from imagehost_core.cluster.coherence import RECONNECT_SECONDS
from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.cluster.rate_limits import PostgresRateLimitStore
from imagehost_core.db.engines.database import Database, Queryable, SqlRow, SqlValue
from imagehost_core.db.schema import postgres_migrations
from imagehost_core.errors import EngineUnavailableError, InternalError, UnavailableError
from imagehost_core.ids import AccountId
from imagehost_core.limits import Window
from imagehost_core.settings import SettingsError

if TYPE_CHECKING:
    from tests.programs import Program

pytestmark = pytest.mark.external

TIMEOUT = 30
FIRST, SECOND = AccountId(1), AccountId(2)
IMAGE: SqlRow = {
    **dict.fromkeys(("id", "filename", "original_filename", "description", "format", "sha256"), ""),
    **dict.fromkeys(("placeholder", "derivatives"), ""),
    **dict.fromkeys(("number", "account_id", "is_public", "size", "width", "height", "frames"), 1),
    **dict.fromkeys(("has_alpha", "created_at", "updated_at"), 1),
}
"""A row of `images`."""
WAITS = (
    "SELECT 1 AS found FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
OPEN = """
    import sys
    from imagehost_core.cluster.postgres_database import PostgresDatabase
    print("ready")
    sys.stdin.readline()
    PostgresDatabase(sys.argv[1]).close()
    print("open")
"""


class RecordsValues(PostgresDatabase):
    """A database that records the parameters of queries."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.values: list[Mapping[str, SqlValue]] = []

    def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
        self.values.append(values)
        return super().fetch_one(sql, values)


@pytest.fixture
def database(postgres_url: str) -> Iterator[PostgresDatabase]:
    """An empty PostgreSQL database."""
    with closing(PostgresDatabase(postgres_url, timeout=TIMEOUT)) as database:
        yield database


@pytest.fixture
def impatient(postgres_url: str) -> Iterator[PostgresDatabase]:
    """The same database with short timeouts and two connections."""
    with closing(PostgresDatabase(postgres_url, timeout=0.2, statement_timeout=0.5, pool_size=2)) as database:
        yield database


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server of the test's own, which it can stop."""
    with run_postgres(*FAST) as server:
        yield server


@pytest.fixture(scope="module")
def refusing_server() -> Iterator[PostgresServer]:
    """A server that accepts `postgres`, and the role `alice` with the password `secret`."""
    with run_postgres(*FAST) as server:
        server.execute("CREATE ROLE alice LOGIN PASSWORD 'secret'")
        server.replace_access("host all alice all scram-sha-256", "host all postgres,unknown all trust")
        yield server


def _require_logged(caplog: pytest.LogCaptureFixture, message: str) -> None:
    if message not in caplog.text:
        raise UnavailableError(message)


def insert(database: Database, name: str, scope: AccountId | None = None) -> int:
    with database.transaction(scope) as transaction:
        return transaction.insert_numbered(
            "accounts", {"name": name, "signing_secret": b"", "created_at": 0}, "id"
        )


def names(reader: Queryable) -> list[object]:
    return [row["name"] for row in reader.fetch_all("SELECT name FROM accounts ORDER BY name", {})]


def name_of(database: Database) -> str:
    row = database.fetch_one("SELECT current_database() AS name", {})
    assert row is not None
    return str(row["name"])


def until_success(action: Callable[[], object], seconds: float = 10) -> None:
    """Call an action until it raises no UnavailableError."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            action()
        except UnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            return


def test_eight_processes_that_open_an_empty_database_at_once_create_it_once(
    postgres_url: str, program: Callable[..., Program]
) -> None:
    processes = [program(OPEN, postgres_url) for _ in range(8)]
    for process in processes:
        assert process.read_line() == "ready"
    for process in processes:
        process.write_line()
    assert [process.read_line() for process in processes] == ["open"] * 8
    with psycopg.connect(postgres_url) as connection:
        applied = [name for (name,) in connection.execute("SELECT name FROM migrations")]
    assert sorted(applied) == sorted(postgres_migrations)


def test_a_migration_waits_for_the_transactions_of_running_hosts(
    database: PostgresDatabase, postgres_url: str
) -> None:
    """A transaction that has one of its tables and needs another would be in a deadlock with it."""
    with database.transaction() as transaction:
        transaction.execute("DROP INDEX images_by_account_and_format", {})
        transaction.execute("DELETE FROM migrations WHERE name IN ('public_words', 'format_index')", {})
        transaction.insert("accounts", {"id": 1, "name": "a", "signing_secret": b"", "created_at": 0})
        transaction.insert("images", IMAGE)
        transaction.insert("image_words", {"rowid": 1, "filename": "1xa", "description": ""})
    with ThreadPoolExecutor() as threads:
        with database.transaction(FIRST) as transaction:
            transaction.execute("UPDATE images SET size = 2", {})
            migration = threads.submit(PostgresDatabase, postgres_url)
            while database.fetch_one(WAITS, {}) is None:
                assert not migration.done()
            transaction.execute("UPDATE image_words SET filename = '1xb'", {})
        migration.result().close()
    assert database.fetch_one("SELECT filename FROM image_words", {}) == {"filename": "1xb 0xb"}


def test_a_database_with_another_encoding_is_refused(postgres_server: PostgresServer) -> None:
    postgres_server.execute("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'")
    with pytest.raises(InternalError, match="LATIN1"):
        PostgresDatabase(postgres_server.url_of("latin"))
    postgres_server.execute("DROP DATABASE latin")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_transaction_is_rolled_back_and_the_next_one_works(
    database: PostgresDatabase, error: type[BaseException]
) -> None:
    def fail() -> None:
        with database.transaction() as transaction:
            transaction.insert("accounts", {"name": "rolled back", "signing_secret": b"", "created_at": 0})
            raise error

    with pytest.raises(error):
        fail()
    insert(database, "new")
    assert names(database) == ["new"]


def test_a_transaction_that_goes_on_after_an_error_of_a_statement_is_no_success(
    database: PostgresDatabase,
) -> None:
    def go_on() -> None:
        with database.transaction() as transaction:
            transaction.insert("accounts", {"name": "lost", "signing_secret": b"", "created_at": 0})
            with pytest.raises(psycopg.errors.UndefinedTable):
                transaction.execute("DELETE FROM missing", {})

    with pytest.raises(InternalError):
        go_on()
    assert names(database) == []


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [
        pytest.param(None, None, True, id="all and all"),
        pytest.param(None, FIRST, True, id="all and an account"),
        pytest.param(FIRST, None, True, id="an account and all"),
        pytest.param(FIRST, FIRST, True, id="an account twice"),
        pytest.param(FIRST, SECOND, False, id="two accounts"),
    ],
)
def test_transactions_wait_for_others_of_their_scope(
    database: PostgresDatabase,
    impatient: PostgresDatabase,
    first: AccountId | None,
    second: AccountId | None,
    waits: bool,
) -> None:
    with database.transaction(first) as transaction:
        transaction.insert("accounts", {"name": "first", "signing_secret": b"", "created_at": 0})
        if waits:
            with pytest.raises(UnavailableError) as caught:
                insert(impatient, "second", second)
            assert caught.value.retry_after == 5
            assert isinstance(caught.value.__cause__, psycopg.errors.LockNotAvailable)
        else:
            insert(impatient, "second", second)
    insert(impatient, "third", second)
    assert names(database) == ["first", "third"] if waits else ["first", "second", "third"]


def test_transactions_with_row_locks_only_wait_for_those_of_everything(
    database: PostgresDatabase, impatient: PostgresDatabase
) -> None:
    with database.transaction(FIRST), impatient.transaction(blind=True), impatient.transaction(blind=True):
        pass
    with database.transaction(), pytest.raises(UnavailableError), impatient.transaction(blind=True):
        pass


def test_what_was_checked_is_true_until_the_commit(database: PostgresDatabase) -> None:
    """Eight threads each add 10 to a row of 0 if it is below 50, and read it first."""
    account_id = AccountId(insert(database, "admin"))
    barrier = threading.Barrier(8)

    def add_to_used_bytes() -> None:
        barrier.wait(TIMEOUT)
        with database.transaction(account_id) as transaction:
            row = transaction.fetch_one("SELECT used_bytes FROM accounts", {})
            assert row is not None
            if int(row["used_bytes"] or 0) < 50:
                transaction.execute("UPDATE accounts SET used_bytes = used_bytes + 10", {})

    with ThreadPoolExecutor(8) as threads:
        for future in [threads.submit(add_to_used_bytes) for _ in range(8)]:
            future.result()
    assert database.fetch_one("SELECT used_bytes FROM accounts", {}) == {"used_bytes": 50}


@pytest.mark.parametrize("text", ["a\0", "a\ud800"], ids=ascii)
def test_a_search_for_what_no_text_can_contain_finds_nothing(database: PostgresDatabase, text: str) -> None:
    assert database.fetch_one("SELECT id FROM accounts WHERE name = :name", {"name": text}) is None


def test_a_request_gives_up_when_all_connections_are_in_use(impatient: PostgresDatabase) -> None:
    with impatient.transaction(FIRST), impatient.transaction(SECOND):
        started = time.monotonic()
        with pytest.raises(UnavailableError) as caught:
            names(impatient)
        assert time.monotonic() - started < 5
    assert caught.value.retry_after == 5
    assert names(impatient) == []


def test_a_statement_that_takes_too_long_is_ended_by_the_server(impatient: PostgresDatabase) -> None:
    with pytest.raises(UnavailableError) as caught:
        impatient.fetch_all("SELECT CAST(pg_sleep(60) AS text) AS slept", {})
    assert isinstance(caught.value.__cause__, psycopg.errors.QueryCanceled), "ended by the client"
    assert names(impatient) == []


def test_maintenance_has_no_time_limit_and_the_next_request_has_one_again(
    impatient: PostgresDatabase,
) -> None:
    slow = "SELECT CAST(pg_sleep(0.6) AS text) AS slept"
    with impatient.without_time_limit():
        assert impatient.fetch_one(slow, {}) is not None
        with impatient.transaction() as transaction:
            assert transaction.fetch_one(slow, {}) is not None
    for _ in range(2):
        with pytest.raises(UnavailableError):
            impatient.fetch_one(slow, {})


def test_a_backup_has_no_time_limit(
    impatient: PostgresDatabase, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """The table of accounts is replaced by a view that takes longer than a request may."""
    insert(impatient, "admin")
    for statement in (
        "ALTER TABLE accounts RENAME TO quick_accounts",
        "CREATE VIEW accounts AS SELECT item.* FROM quick_accounts AS item, "
        "(SELECT pg_sleep(0.6) OFFSET 0) AS slow",
    ):
        postgres_server.execute(statement, name_of(impatient))
    with pytest.raises(UnavailableError):
        names(impatient)
    impatient.copy_to(tmp_path / "copy")
    with closing(sqlite3.connect(tmp_path / "copy")) as copy:
        assert copy.execute("SELECT name FROM accounts").fetchall() == [("admin",)]


def test_rate_limits_follow_the_clock_of_the_server_not_that_of_the_host(postgres_url: str) -> None:
    with closing(RecordsValues(postgres_url)) as database:
        limits = PostgresRateLimitStore(database, utc_now)
        assert limits.admit("key", (Window("minute", 60, 2),)).admitted
        assert database.values[-1]["now"] is None


def test_refunds_of_several_hosts_at_once_give_back_no_more_than_was_counted(postgres_url: str) -> None:
    windows = (Window("day", 86_400, 10),)
    with closing(PostgresDatabase(postgres_url)) as database, ThreadPoolExecutor(8) as threads:
        limits = PostgresRateLimitStore(database, utc_now)
        for _ in range(10):
            assert limits.admit("key", windows).admitted
            for _ in threads.map(lambda _: limits.refund("key", windows), range(8)):
                pass
            assert limits.peek("key", windows) == {"day": 0}


def test_a_request_lock_excludes_other_hosts_until_its_end(
    database: PostgresDatabase, impatient: PostgresDatabase
) -> None:
    with database.request_lock("upload/1", 0) as mine, impatient.request_lock("upload/2", 0) as theirs:
        assert (mine, theirs) == (True, True)
        with impatient.request_lock("upload/1", 0.1) as acquired:
            assert not acquired
    with impatient.request_lock("upload/1", 0) as acquired:
        assert acquired


def test_the_request_locks_of_a_host_that_dies_are_released(
    database: PostgresDatabase, postgres_url: str
) -> None:
    other = PostgresDatabase(postgres_url)
    lock = other.request_lock("upload/1", 0)
    assert lock.__enter__()
    other.close()
    with database.request_lock("upload/1", TIMEOUT) as acquired:
        assert acquired
    lock.__exit__(None, None, None)


@pytest.mark.parametrize(
    ("url", "kind", "received"),
    [
        (
            "postgresql://x:word@127.0.0.1:1/x",
            EngineUnavailableError,
            '"127.0.0.1", port 1 failed: Connection',
        ),
        ("postgresql://x:word@no.invalid/x", EngineUnavailableError, "failed to resolve host 'no.invalid'"),
        ("{server}/missing", EngineUnavailableError, 'database "missing" does not exist'),
        ("{server}/postgres?sslmode=require", SettingsError, "does not support SSL, but SSL was required"),
        ("postgresql://unknown@{address}/postgres", SettingsError, 'role "unknown" does not exist'),
        ("postgresql://alice:word@{address}/postgres", SettingsError, "password authentication failed for"),
        ("postgresql://bob:word@{address}/postgres", SettingsError, "no pg_hba.conf entry for host"),
    ],
)
def test_a_failed_first_connection_says_why_and_where_without_the_password(
    refusing_server: PostgresServer, url: str, kind: type[Exception], received: str
) -> None:
    address = f"127.0.0.1:{refusing_server.port}"
    with pytest.raises(kind) as caught:
        PostgresDatabase(url.format(server=f"postgresql://postgres@{address}", address=address))
    text = str(caught.value)
    assert "expected a connection to postgresql://" in text
    assert received in text
    assert "word@" not in text
    assert not isinstance(caught.value, EngineUnavailableError) or caught.value.engine == "database"


def test_an_outage_is_logged_once_with_its_cause_and_its_end(
    own_server: PostgresServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        own_server.empty_database() as url,
        ImageHost.open(tmp_path, settings=Settings(database=url)) as host,
    ):
        for _ in range(2):
            own_server.stop(signal.SIGQUIT)
            time.sleep(4 * RECONNECT_SECONDS)
            own_server.start()
            until_success(lambda: host.accounts.get("admin"))
            until_success(lambda: _require_logged(caplog, "database responds again"))
            lines = [record.getMessage() for record in caplog.records if record.name.endswith(".coherence")]
            assert [line.partition(":")[0] for line in lines] == [
                "database does not respond",
                "database responds again",
            ]
            caplog.clear()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
def test_a_server_that_was_stopped_is_used_again_when_it_is_back(
    own_server: PostgresServer, how: signal.Signals
) -> None:
    with (
        own_server.empty_database() as url,
        closing(PostgresDatabase(url, timeout=0.5, pool_size=4)) as database,
    ):
        insert(database, "before")
        own_server.stop(how)
        for action in (lambda: names(database), lambda: insert(database, "lost")):
            with pytest.raises(UnavailableError):
                action()
        own_server.start()
        until_success(lambda: insert(database, "after"))
        assert names(database) == ["after", "before"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "crashed"])
def test_the_first_requests_after_a_restart_of_the_server_succeed(
    own_server: PostgresServer, how: signal.Signals
) -> None:
    """All connections of the pool have ended meanwhile."""
    with (
        own_server.empty_database() as url,
        closing(PostgresDatabase(url, timeout=TIMEOUT, pool_size=3)) as database,
    ):
        with database.transaction(FIRST), database.transaction(SECOND):
            insert(database, "before", AccountId(3))
        own_server.stop(how)
        own_server.start()
        with database.transaction(FIRST) as first, database.transaction(SECOND) as second:
            assert names(first) == names(second) == names(database) == ["before"]
        insert(database, "after")
        assert names(database) == ["after", "before"]


def test_a_server_that_is_frozen_is_given_up_and_used_again(own_server: PostgresServer) -> None:
    with (
        own_server.empty_database() as url,
        closing(PostgresDatabase(url, timeout=0.5, statement_timeout=0.5, pool_size=1)) as database,
    ):
        insert(database, "before")
        row = database.fetch_one("SELECT pg_backend_pid() AS pid", {})
        assert row is not None
        pid = int(row["pid"] or 0)
        os.kill(pid, signal.SIGSTOP)
        try:
            started = time.monotonic()
            with pytest.raises(UnavailableError):
                names(database)
            assert time.monotonic() - started < 10
        finally:
            os.kill(pid, signal.SIGCONT)
        until_success(lambda: insert(database, "after"))
        assert names(database) == ["after", "before"]


def test_a_commit_without_a_response_is_no_success(own_server: PostgresServer) -> None:
    with own_server.empty_database() as url, closing(PostgresDatabase(url, timeout=0.5)) as database:

        def insert_and_crash() -> None:
            with database.transaction() as transaction:
                transaction.insert("accounts", {"name": "unknown", "signing_secret": b"", "created_at": 0})
                own_server.stop(signal.SIGQUIT)

        with pytest.raises(UnavailableError):
            insert_and_crash()
        own_server.start()
        until_success(lambda: names(database))
        assert names(database) == []
