"""The measurements of hosts that share a database: connections, leases, and changes that wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest
from tests.core.services.conftest import ONE_WORKER
from tests.tcp_proxy import TcpProxy, run_tcp_proxy
from tests.waiting import wait_until

from imagehost_core import ImageHost
from imagehost_core.cluster.membership import LEASE_SECONDS
from imagehost_core.observer import InvalidationEnded, Measurement, SharedDatabaseLoad
from imagehost_core.settings import PostgresSettings
from imagehost_core.testing import make_image

pytestmark = pytest.mark.external
OpenHost = Callable[[str, str, list[Measurement]], ImageHost]


@pytest.fixture
def open_host(tmp_path: Path) -> Iterator[OpenHost]:
    """Open a host of its own by its name, with one connection to a database, and keep its measurements."""
    shared = tmp_path / "images"
    shared.mkdir()
    with ExitStack() as stack:

        def open_one(name: str, url: str, measured: list[Measurement]) -> ImageHost:
            (tmp_path / name).mkdir()
            (tmp_path / name / "images").symlink_to(shared)
            postgres = PostgresSettings(pool_size=1, timeout_seconds=20)
            settings = attrs.evolve(ONE_WORKER, database=url, postgres=postgres)
            host = ImageHost.open(tmp_path / name, settings=settings, observe=measured.append)
            return stack.enter_context(host)

        yield open_one


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[TcpProxy]:
    """The network between one of the hosts and the database."""
    with run_tcp_proxy(int(postgres_url.rpartition(":")[2].partition("/")[0])) as running:
        yield running


def through(proxy: TcpProxy, url: str) -> str:
    """Return the URL of a database through a proxy."""
    scheme, _, database = url.rpartition("@")
    return f"{scheme}@127.0.0.1:{proxy.port}/{database.partition('/')[2]}"


def loads(measured: list[Measurement]) -> list[SharedDatabaseLoad]:
    return [each for each in measured if isinstance(each, SharedDatabaseLoad)]


def waits(measured: list[Measurement]) -> list[InvalidationEnded]:
    return [each for each in measured if isinstance(each, InvalidationEnded)]


def test_connections_in_use_and_threads_that_wait_for_one_are_measured(
    open_host: OpenHost, postgres_url: str, proxy: TcpProxy
) -> None:
    measured = list[Measurement]()
    host = open_host("one", through(proxy, postgres_url), measured)
    wait_until(
        lambda: any((load.connections_used, load.connections_waiting) == (0, 0) for load in loads(measured))
    )
    proxy.cut()
    with ThreadPoolExecutor(3) as threads:
        results = [threads.submit(host.accounts.list) for _ in range(3)]
        wait_until(
            lambda: any(
                (load.connections_used, load.connections_waiting) == (1, 2) for load in loads(measured)
            )
        )
        proxy.restore()
        assert all(result.result() for result in results)


def test_the_lease_is_young_while_the_database_responds_and_ages_while_it_does_not(
    open_host: OpenHost, postgres_url: str, proxy: TcpProxy
) -> None:
    measured = list[Measurement]()
    open_host("one", through(proxy, postgres_url), measured)
    wait_until(lambda: len(loads(measured)) > 1)
    assert all(0 <= load.lease_age_seconds < LEASE_SECONDS for load in loads(measured))
    proxy.cut()
    wait_until(lambda: loads(measured)[-1].lease_age_seconds > 2 * LEASE_SECONDS)
    proxy.restore()
    wait_until(lambda: loads(measured)[-1].lease_age_seconds < LEASE_SECONDS)


def test_a_change_is_measured_while_it_waits_and_with_how_its_wait_has_ended(
    open_host: OpenHost, postgres_url: str, proxy: TcpProxy
) -> None:
    measured = list[Measurement]()
    here = open_host("here", postgres_url, measured)
    open_host("there", through(proxy, postgres_url), [])
    images = [here.upload(make_image(40, 30), owner="admin") for _ in range(2)]
    measured.clear()
    here.images.delete(images[0], owner="admin")
    (wait,) = waits(measured)
    assert wait.acknowledged
    assert 0 < wait.seconds < LEASE_SECONDS
    proxy.cut()
    measured.clear()
    here.images.delete(images[1], owner="admin")
    (wait,) = waits(measured)
    assert not wait.acknowledged
    assert wait.seconds >= LEASE_SECONDS
    assert max(load.changes_waiting for load in loads(measured)) == 1
    proxy.restore()
