"""Leases of cache purges by the senders of several hosts, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import timedelta

import pytest
from tests.waiting import PATIENCE

from imagehost_core._util.clock import utc_now
from imagehost_core.cache_purges import CachePurge
from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.db.repositories.cache_purges import CachePurgeRepository
from imagehost_core.ids import ImageId

pytestmark = pytest.mark.external

LEASE = timedelta(seconds=40)


@pytest.fixture
def hosts(postgres_url: str) -> Iterator[tuple[CachePurgeRepository, CachePurgeRepository]]:
    """The purges of two hosts on one database."""
    with ExitStack() as stack:
        first, second = (stack.enter_context(closing(PostgresDatabase(postgres_url))) for _ in range(2))
        yield CachePurgeRepository(first, True), CachePurgeRepository(second, True)


def lease(purges: CachePurgeRepository) -> tuple[CachePurge, ...]:
    with purges.database.transaction(blind=True) as transaction:
        return purges.lease(transaction, utc_now(), LEASE, 9)


def test_a_purge_that_one_host_is_leasing_is_passed_over_by_another(
    hosts: tuple[CachePurgeRepository, CachePurgeRepository],
) -> None:
    first, second = hosts
    with first.database.transaction(blind=True) as transaction:
        first.record(transaction, [ImageId("0123456789abcdef")], utc_now())
    with ThreadPoolExecutor(1) as threads:
        with first.database.transaction(blind=True) as transaction:
            assert len(first.lease(transaction, utc_now(), LEASE, 9)) == 1
            # The other one neither waits for the transaction nor takes the purge as well.
            assert threads.submit(lease, second).result(timeout=PATIENCE) == ()
        assert lease(second) == ()
