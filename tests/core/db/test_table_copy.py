"""Copies of all tables into another database, of each engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from tests.core.db.generated_rows import Rows, database_rows, replace_rows
from tests.postgres import PostgresServer

from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.cluster.table_copy import BATCH, COPIED, NOT_COPIED, copied_tables, copy_tables
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database, Queryable, SqlValue
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.errors import InternalError

NOW = datetime(2026, 11, 22, tzinfo=UTC)
ENGINES = [
    "sqlite to sqlite",
    *(
        pytest.param(engines, marks=pytest.mark.external)
        for engines in ("sqlite to postgres", "postgres to sqlite", "postgres to postgres")
    ),
]
COLUMNS = ("image_id", "requested_at", "attempts", "next_attempt_at", "is_repetition")


@contextmanager
def sqlite_database() -> Iterator[Database]:
    with TemporaryDirectory() as directory:
        path = Path(directory)
        with closing(SqliteDatabase(path / "imagehost.sqlite3", LockManager(path / "locks"))) as database:
            yield database


@contextmanager
def two_databases(request: pytest.FixtureRequest) -> Iterator[tuple[Database, Database]]:
    """Open two empty databases, of the engines that the parameter of a test names."""
    with ExitStack() as stack:
        opened: list[Database] = []
        for engine in request.param.split(" to "):
            if engine == "sqlite":
                opened.append(stack.enter_context(sqlite_database()))
            else:
                server: PostgresServer = request.getfixturevalue("postgres_server")
                url = stack.enter_context(server.empty_database())
                opened.append(stack.enter_context(closing(PostgresDatabase(url, pool_size=2))))
        source, target = opened
        yield source, target


@pytest.fixture(params=ENGINES)
def databases(request: pytest.FixtureRequest) -> Iterator[tuple[Database, Database]]:
    """Open a source and a target, both empty."""
    with two_databases(request) as opened:
        yield opened


@pytest.fixture(params=ENGINES, scope="module")
def reused_databases(request: pytest.FixtureRequest) -> Iterator[tuple[Database, Database]]:
    """Open a source and a target, with the rows of earlier examples."""
    with two_databases(request) as opened:
        yield opened


def all_rows(queryable: Queryable) -> Rows:
    return {
        table.name: [values for rows in table.batches(queryable) for values in rows]
        for table in copied_tables()
    }


def in_any_order(rows: Rows) -> Rows:
    return {name: sorted(values, key=repr) for name, values in rows.items()}


@hypothesis_settings(max_examples=15)
@given(before=database_rows(), rows=database_rows())
def test_a_copy_has_the_rows_of_the_source_and_no_others(
    reused_databases: tuple[Database, Database], before: Rows, rows: Rows
) -> None:
    source, target = reused_databases
    with target.transaction() as transaction:
        replace_rows(transaction, before)
    with source.transaction() as transaction:
        replace_rows(transaction, rows)
    with target.transaction() as transaction:
        copy_tables(source, transaction)
    assert in_any_order(all_rows(target)) == in_any_order(rows)


def test_every_table_of_the_schema_is_copied_or_named_as_not_copied(database: Database) -> None:
    sql = "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'"
    if isinstance(database, SqliteDatabase):
        sql = (
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual') "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
    names = {str(row["name"]) for row in database.fetch_all(sql, {})}
    # The tables of several hosts are in PostgreSQL only.
    assert set(COPIED) <= names - {"_sqlite_migrations", "migrations"} <= set(COPIED) | NOT_COPIED


@pytest.mark.parametrize("count", [0, 1, BATCH - 1, BATCH, BATCH + 1])
def test_tables_with_several_batches_are_copied_whole(
    databases: tuple[Database, Database], count: int
) -> None:
    source, target = databases
    rows: list[tuple[SqlValue, ...]] = [(f"{number}", number, 0, number, 0) for number in range(count)]
    with source.transaction() as transaction:
        transaction.insert_rows("cache_purges", COLUMNS, rows)
    with target.transaction() as transaction:
        copy_tables(source, transaction)
    assert all_rows(target) == all_rows(source)


def test_ids_of_deleted_accounts_are_not_assigned_again_after_a_copy(
    databases: tuple[Database, Database],
) -> None:
    source, target = databases
    for name in ("first", "second"):
        with source.transaction() as transaction:
            AccountRepository(source).insert(transaction, name, None, b"secret", NOW)
    with source.transaction() as transaction:
        transaction.execute("DELETE FROM accounts WHERE name = 'second'", {})
    with target.transaction() as transaction:
        copy_tables(source, transaction)
    with target.transaction() as transaction:
        AccountRepository(target).insert(transaction, "third", None, b"secret", NOW)
    third = AccountRepository(target).get_by_name("third")
    assert third is not None
    assert third.id == 3


def test_rows_can_be_added_to_every_numbered_table_after_a_copy(
    databases: tuple[Database, Database],
) -> None:
    source, target = databases
    event: dict[str, SqlValue] = {"id": "msg_1", "type": "image.uploaded", "body": b"", "created_at": 0}
    with source.transaction() as transaction:
        transaction.insert("events", {"number": 7, **event})
    with target.transaction() as transaction:
        copy_tables(source, transaction)
        assert transaction.insert_numbered("events", event, "number") == 8


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        ("UPDATE accounts SET role = role || ' ' WHERE id = new.id", "received 1 rows or other values"),
        ("DELETE FROM accounts", "received 0 rows"),
    ],
)
def test_a_copy_that_differs_is_an_error(trigger: str, message: str) -> None:
    with sqlite_database() as source, sqlite_database() as target:
        with source.transaction() as transaction:
            AccountRepository(source).insert(transaction, "admin", None, b"secret", NOW)
        with target.transaction() as transaction:
            # What a bug of a driver would do.
            transaction.execute(f"CREATE TRIGGER damage AFTER INSERT ON accounts BEGIN {trigger}; END", {})
        with pytest.raises(InternalError, match=message), target.transaction() as transaction:
            copy_tables(source, transaction)
        assert all_rows(target)["accounts"] == []
