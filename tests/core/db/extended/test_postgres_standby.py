"""A PostgreSQL server with a synchronous standby: which commits are confirmed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

import attrs
import psycopg
import pytest
from attrs import frozen
from tests.core.services.conftest import ONE_WORKER
from tests.postgres import FAST, PostgresServer, run_postgres
from tests.tcp_proxy import run_tcp_proxy
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.errors import UnavailableError
from imagehost_core.models import Image
from imagehost_core.settings import PostgresSettings
from imagehost_core.testing import make_image

pytestmark = pytest.mark.external

WAITS = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
SYNCHRONOUS = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


@frozen
class Pair:
    """A server that waits for its standby, and the URL of a database that names both."""

    primary: PostgresServer
    standby: PostgresServer
    url: str

    def insert(self, name: str, statement_timeout: float = 30) -> None:
        """Insert an account."""
        with (
            closing(PostgresDatabase(self.url, statement_timeout=statement_timeout)) as database,
            database.transaction() as transaction,
        ):
            AccountRepository(database).insert(transaction, name, None, b"secret", datetime.now(UTC))

    def wait_for(self, query: str) -> int:
        """Return the first value of a query as soon as it has a row."""
        deadline = monotonic() + PATIENCE
        with psycopg.connect(self.primary.url_of(), autocommit=True) as connection:
            while (row := connection.execute(query.encode()).fetchone()) is None:
                assert monotonic() < deadline, query
                sleep(0.02)
        return int(row[0])


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with run_postgres(*FAST) as primary, run_postgres(*FAST, primary=primary) as standby:
        url = f"postgresql://postgres@127.0.0.1:{primary.port},127.0.0.1:{standby.port}/postgres"
        pair = Pair(primary, standby, url)
        PostgresDatabase(url).close()
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")
        pair.wait_for(SYNCHRONOUS)
        yield pair


@pytest.fixture
def frozen_standby(pair: Pair) -> Iterator[None]:
    """Freeze the standby, so that it confirms nothing."""
    pids = pair.standby.pids
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    # The next test must not find a commit of this one that still waits.
    pair.wait_for(f"SELECT 1 WHERE NOT EXISTS ({WAITS})")


@pytest.mark.usefixtures("frozen_standby")
def test_a_commit_that_the_standby_does_not_confirm_in_time_is_no_success(pair: Pair) -> None:
    with pytest.raises(UnavailableError):
        pair.insert("late", statement_timeout=0.1)


@pytest.mark.usefixtures("frozen_standby")
def test_a_commit_whose_wait_for_the_standby_is_cancelled_is_no_success(pair: Pair) -> None:
    with ThreadPoolExecutor(1) as pool:
        commit = pool.submit(pair.insert, "cancelled")
        pair.primary.execute(f"SELECT pg_cancel_backend({pair.wait_for(WAITS)})")
        with pytest.raises(UnavailableError, match="warning"):
            commit.result(30)


def test_a_confirmed_commit_is_in_the_standby_that_takes_over_or_gets_the_ip_address(
    pair: Pair, tmp_path: Path
) -> None:
    pair.insert("confirmed")
    pair.primary.execute("CREATE DATABASE takeover")
    with run_tcp_proxy(pair.primary.port) as ip_address:
        url = pair.primary.url_of("takeover", ip_address.port)
        settings = attrs.evolve(ONE_WORKER, database=url, postgres=PostgresSettings(timeout_seconds=2))
        with ImageHost.open(tmp_path / "data", settings=settings) as host:
            before = host.upload(make_image(16, 12), owner="admin")
            pair.primary.kill()
            with pytest.raises(UnavailableError):
                host.upload(make_image(16, 12), owner="admin")
            pair.standby.promote()
            ip_address.server_port = pair.standby.port
            after = upload_when_available(host)
            assert {image.id for image in host.images.list(owner="admin").items} == {before.id, after.id}
            assert list(host.check()) == []
    with closing(PostgresDatabase(pair.url)) as database:
        assert AccountRepository(database).get_by_name("confirmed") is not None


def upload_when_available(host: ImageHost) -> Image:
    deadline = monotonic() + PATIENCE
    while True:
        try:
            return host.upload(make_image(16, 12), owner="admin")
        except UnavailableError:
            assert monotonic() < deadline
            sleep(0.1)
