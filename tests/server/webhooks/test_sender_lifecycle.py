"""The webhook sender: concurrency, leases, wake-up and shutdown."""

from __future__ import annotations

import asyncio
import itertools
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.open_host import open_host
from tests.server.webhooks.async_receiver import OK, loopback_host, only_delivery, receiving
from tests.waiting import until

from imagehost_core import ImageHost
from imagehost_core.db.repositories.leases import LeasedDelivery
from imagehost_core.errors import UnavailableError
from imagehost_core.models import DeliveryStatus
from imagehost_core.services.webhooks import LEASE_MARGIN, WebhookService
from imagehost_core.testing import FrozenClock
from imagehost_core.webhooks import MAX_IN_FLIGHT_PER_WEBHOOK, Attempt, SenderLoad
from imagehost_server.background import WebhookSender

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def host(clock: FrozenClock) -> Iterator[ImageHost]:
    with loopback_host(clock) as host:
        yield host


async def test_silent_endpoints_of_one_account_do_not_delay_another_account(clock: FrozenClock) -> None:
    """While all attempts that one account may have are hanging, the event of another arrives."""
    release = asyncio.Event()

    async def stall(_count: int) -> bytes:
        await release.wait()
        return OK

    with loopback_host(clock, concurrency=32, timeout_seconds=60) as host:
        async with receiving(stall) as silent, receiving() as quick:
            host.accounts.create("eve")
            for _ in range(10):
                host.webhooks.create(owner="eve", url=silent.url)
            host.webhooks.create(owner="admin", url=quick.url)
            sender = WebhookSender(host)
            running = asyncio.create_task(sender.run())
            for number in range(20):
                host.albums.create(owner="eve", name=f"Silent {number}")
            await until(lambda: silent.connections == 8)
            for number in range(10):
                host.albums.create(owner="admin", name=f"Quick {number}")
            await until(lambda: len(quick.requests) == 10)
            assert silent.connections == 8
            release.set()
            sender.stop()
            await running


async def test_a_silent_endpoint_does_not_delay_another_one_of_its_account(clock: FrozenClock) -> None:
    release = asyncio.Event()

    async def stall(_count: int) -> bytes:
        await release.wait()
        return OK

    with loopback_host(clock, concurrency=8, timeout_seconds=60) as host:
        async with receiving(stall) as silent, receiving() as quick:
            for receiver in (silent, quick):
                host.webhooks.create(owner="admin", url=receiver.url)
            sender = WebhookSender(host)
            running = asyncio.create_task(sender.run())
            for number in range(30):
                host.albums.create(owner="admin", name=f"Album {number}")
            await until(lambda: len(quick.requests) == 30)
            assert silent.connections == 1
            release.set()
            sender.stop()
            await running


async def test_an_endpoint_is_tried_one_at_a_time_until_it_responds_again(clock: FrozenClock) -> None:
    """Its first attempt and those after a timeout run alone; after a response, several run at a time."""
    starts, is_silent = list[float](), True
    in_flight = peak = 0

    async def respond(_count: int) -> bytes:
        nonlocal in_flight, peak
        starts.append(time.monotonic())
        if is_silent:
            await asyncio.sleep(60)
        in_flight += 1
        peak = max(peak, in_flight)
        await asyncio.sleep(0.05)
        in_flight -= 1
        return OK

    with loopback_host(clock, concurrency=32, timeout_seconds=0.3) as host:
        async with receiving(respond) as receiver:
            host.webhooks.create(owner="admin", url=receiver.url)
            for number in range(24):
                host.albums.create(owner="admin", name=f"Album {number}")
            sender = WebhookSender(host)
            running = asyncio.create_task(sender.run())
            await until(lambda: len(starts) == 4)
            is_silent = False
            await until(lambda: len(starts) == 24)
            sender.stop()
            await running
    gaps = [after - before for before, after in itertools.pairwise(starts[:4])]
    assert min(gaps) > 0.2, "an attempt began before the one before it had timed out"
    assert 1 < peak <= MAX_IN_FLIGHT_PER_WEBHOOK


async def test_attempts_in_flight_never_exceed_the_concurrency_setting(host: ImageHost) -> None:
    in_flight, peak = 0, 0

    async def count(_count: int) -> bytes:
        nonlocal in_flight, peak
        in_flight += 1
        peak = max(peak, in_flight)
        await asyncio.sleep(0.02)
        in_flight -= 1
        return OK

    async with receiving(count) as receiver:
        for owner in ("a", "b", "c", "d", "e"):
            host.accounts.create(owner)
            host.webhooks.create(owner=owner, url=receiver.url)
            for number in range(6):
                host.albums.create(owner=owner, name=f"Album {number}")
        assert await WebhookSender(host).drain() == 30
    assert peak == host.settings.webhooks.concurrency == 4


async def test_a_hanging_dns_lookup_does_not_delay_other_endpoints(clock: FrozenClock) -> None:
    """The system resolver blocks; as many lookups hang as one endpoint may have attempts in flight."""
    release = threading.Event()

    def blocking_lookup(name: str, port: int, **_: object) -> list[tuple[object, ...]]:
        assert name == "localhost"
        assert release.wait(60)
        return [(0, 0, 0, "", ("127.0.0.1", port))]

    with loopback_host(clock, concurrency=8, timeout_seconds=60) as host:
        async with receiving() as slow, receiving() as quick:
            url = f"http://localhost:{slow.port}/"
            host.webhooks.create(owner="admin", url=url, events=["album.created"])
            host.webhooks.create(owner="admin", url=quick.url)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(socket, "getaddrinfo", blocking_lookup)
                for number in range(3):
                    host.albums.create(owner="admin", name=f"Album {number}")
                draining = asyncio.create_task(WebhookSender(host).drain())
                await until(lambda: len(quick.requests) == 3)
                assert slow.connections == 0
                release.set()
                await draining


async def test_results_that_could_not_be_reported_are_reported_later(
    host: ImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database is busy once, as it is while another process writes for a long time."""
    async with receiving() as receiver:
        created = host.webhooks.create(owner="admin", url=receiver.url)
        real, failed = WebhookService.report_and_lease, list[object]()

        def busy_once(
            self: WebhookService, attempts: list[tuple[LeasedDelivery, Attempt]], load: SenderLoad, slot: int
        ) -> tuple[LeasedDelivery, ...]:
            if attempts and not failed:
                failed.append(attempts)
                raise UnavailableError("busy")
            return real(self, attempts, load, slot)

        monkeypatch.setattr(WebhookService, "report_and_lease", busy_once)
        host.albums.create(owner="admin", name="Cats")
        sender = WebhookSender(host)
        running = asyncio.create_task(sender.run())
        await until(lambda: only_delivery(host, created).status is DeliveryStatus.DELIVERED)
        sender.stop()
        await running
    assert len(failed) == 1
    assert len(receiver.requests) == 1


async def test_a_stopped_sender_releases_its_slot(host: ImageHost) -> None:
    sender = WebhookSender(host)
    running = asyncio.create_task(sender.run())
    await asyncio.sleep(0.1)
    with host.webhooks.sender_slot() as slot:
        assert slot == 1
    sender.stop()
    await running
    with host.webhooks.sender_slot() as slot:
        assert slot == 0


async def test_an_expired_lease_of_a_dead_sender_is_sent_by_another(
    host: ImageHost, clock: FrozenClock
) -> None:
    async with receiving() as receiver:
        host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        assert len(host.webhooks.lease(10)) == 1
        assert await WebhookSender(host).drain() == 0
        lease_seconds = host.settings.webhooks.timeout_seconds + LEASE_MARGIN.total_seconds()
        clock.advance(seconds=lease_seconds + 1)
        assert await WebhookSender(host).drain() == 1


async def test_a_stopped_sender_finishes_or_releases_attempts_in_flight(clock: FrozenClock) -> None:
    reached = asyncio.Event()

    async def respond(count: int) -> bytes:
        if count == 2:
            reached.set()
        await asyncio.sleep(0.3 if count == 1 else 30)
        return OK

    with loopback_host(clock, timeout_seconds=30) as host:
        async with receiving(respond) as receiver:
            created = host.webhooks.create(owner="admin", url=receiver.url)
            host.albums.create(owner="admin", name="Cats")
            host.albums.create(owner="admin", name="Dogs")
            sender = WebhookSender(host, grace_seconds=1.0)
            running = asyncio.create_task(sender.run())
            await reached.wait()
            sender.stop()
            await running
        deliveries = host.webhooks.deliveries(created.id, owner="admin")
        results = sorted((delivery.status, delivery.attempts) for delivery in deliveries)
        assert results == [(DeliveryStatus.DELIVERED, 1), (DeliveryStatus.PENDING, 0)]
        assert len(host.webhooks.lease(10)) == 1  # released, not only expired


async def test_an_event_of_the_same_process_wakes_the_sender(host: ImageHost) -> None:
    async with receiving() as receiver:
        host.webhooks.create(owner="admin", url=receiver.url)
        sender = WebhookSender(host)
        running = asyncio.create_task(sender.run())
        thread = threading.Thread(target=lambda: host.albums.create(owner="admin", name="Cats"))
        thread.start()
        await receiver.arrived.wait()
        sender.stop()
        await running
        thread.join()
    assert len(receiver.requests) == 1


async def test_an_idle_sender_finds_an_event_of_another_process(host: ImageHost, clock: FrozenClock) -> None:
    async with receiving() as receiver:
        host.webhooks.create(owner="admin", url=receiver.url)
        sender = WebhookSender(host, idle_poll_seconds=0.01)
        running = asyncio.create_task(sender.run())
        with open_host(host.path, clock=clock) as other:
            other.albums.create(owner="admin", name="Cats")
        await until(lambda: len(receiver.requests) == 1)
        sender.stop()
        await running


@pytest.mark.parametrize("during_the_attempt", [False, True])
async def test_a_retry_that_a_clock_an_hour_ahead_put_off_is_sent_when_the_clock_is_right(
    host: ImageHost, clock: FrozenClock, during_the_attempt: bool
) -> None:
    right = clock.now

    async def fail_once(count: int) -> bytes:
        if during_the_attempt:
            clock.now = right
        return b"HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n" if count == 1 else OK

    async with receiving(fail_once) as receiver:
        webhook = host.webhooks.create(owner="admin", url=receiver.url)
        clock.now = right + timedelta(hours=1)
        sender = WebhookSender(host, idle_poll_seconds=0.01)
        running = asyncio.create_task(sender.run())
        host.albums.create(owner="admin", name="Cats")
        await until(lambda: only_delivery(host, webhook).attempts == 1)
        clock.now = right + timedelta(seconds=6)
        await until(lambda: len(receiver.requests) == 2)
        sender.stop()
        await running
