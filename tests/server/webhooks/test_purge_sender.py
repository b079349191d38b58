"""Cache purges over HTTP: what a shared cache receives, and what counts as a failure."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator

import attrs
import pytest
from tests.open_host import open_host
from tests.server.webhooks.async_receiver import OK, AsyncReceiver, receiving
from tests.waiting import until

from imagehost_core import ImageHost, Settings
from imagehost_core.endpoints import require_ip_address
from imagehost_core.settings import PurgeSettings, RenderingSettings
from imagehost_core.testing import FrozenClock, make_image
from imagehost_server.background.purge_sender import (
    MAX_CONCURRENT,
    OverduePurges,
    running_purge_sender,
    send_due_purges,
)
from imagehost_server.http.outgoing import Outgoing

pytestmark = pytest.mark.anyio

OUTGOING = Outgoing(require_ip_address)


@contextlib.contextmanager
def hidden_images(receiver: AsyncReceiver, clock: FrozenClock, count: int = 1) -> Iterator[ImageHost]:
    """Yield a host with deleted images that the receiver's cache must remove."""
    purge = PurgeSettings(
        url=f"http://127.0.0.1:{receiver.port}/purge/{{tag}}?x=1",
        method="PURGE",
        headers=("X-Key: secret",),
        body="{id}",
        timeout_seconds=0.5,
    )
    settings = Settings(
        base_url="https://img.example/v1", purge=purge, rendering=RenderingSettings(processes=1)
    )
    with open_host(":memory:", settings=settings, clock=clock) as host:
        image = host.upload(make_image(8, 8), owner="admin")
        others = [host.upload(make_image(8, 8), owner="admin") for _ in range(count - 1)]
        for each in (image, *others):
            host.images.delete(each)
        yield host


async def test_the_cache_receives_the_configured_request_now_and_a_minute_later() -> None:
    clock = FrozenClock()
    async with receiving() as receiver:
        with hidden_images(receiver, clock) as host:
            assert len(await send_due_purges(host, OUTGOING)) == 1
            assert len(await send_due_purges(host, OUTGOING)) == 0
            clock.advance(seconds=60)
            assert len(await send_due_purges(host, OUTGOING)) == 1
            clock.advance(days=365)
            assert len(await send_due_purges(host, OUTGOING)) == 0
    assert len(receiver.requests) == 2
    headers, body = receiver.requests[0]
    assert receiver.requests[1] == (headers, body)
    image_id = body.decode()
    assert headers[":request"] == f"PURGE /purge/img-{image_id}?x=1 HTTP/1.1"
    assert headers["x-key"] == "secret"


async def no_response(_count: int) -> bytes:
    return b""


async def silence(_count: int) -> bytes:
    await until(lambda: False)
    return b""


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n", "the cache responded with 503"),
        (b"HTTP/1.1 302 no\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "the cache responded with 302"),
        (no_response, "reason="),
        (silence, "no response within 0.5 seconds"),
    ],
)
async def test_a_failed_request_is_logged_and_sent_again(
    response: bytes | Callable[[int], Awaitable[bytes]], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    clock = FrozenClock()
    async with receiving(response) as receiver:
        with hidden_images(receiver, clock) as host:
            assert len(await send_due_purges(host, OUTGOING)) == 1
            assert reason in caplog.text
            assert "secret" not in caplog.text
            clock.advance(seconds=5)
            receiver.response = OK
            assert len(await send_due_purges(host, OUTGOING)) == 1
    assert len(receiver.requests) == 2


async def test_a_failure_that_lasts_is_one_line_with_its_reason_and_what_to_check_and_one_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FrozenClock()
    caplog.set_level("INFO", "imagehost.server")
    async with receiving(b"HTTP/1.1 403 no\r\nContent-Length: 0\r\n\r\n") as receiver:
        with hidden_images(receiver, clock, 3) as host:
            overdue = OverduePurges(host)

            def lines() -> list[str]:
                overdue.record()
                events = ("shared cache may serve deleted and private images", "shared cache is purged again")
                found = [vars(each) for each in caplog.records if each.message in events]
                caplog.clear()
                return [f"{each['message']} {each.get('fields', '')}" for each in found]

            overdue.add(await send_due_purges(host, OUTGOING))
            clock.advance(seconds=60)
            assert lines() == []
            clock.advance(seconds=1)
            (line,) = lines()
            for part in ("deleted and private", "the cache responded with 403", "61 s", "purge.url"):
                assert part in line
            assert lines() == []
            receiver.response = OK
            overdue.add(await send_due_purges(host, OUTGOING))
            assert lines() == ["shared cache is purged again "]
            clock.advance(seconds=61)
            assert lines() == []


async def test_the_server_sends_more_purges_than_it_sends_at_a_time() -> None:
    async with receiving() as receiver:
        with hidden_images(receiver, FrozenClock(), MAX_CONCURRENT + 1) as host:
            async with running_purge_sender(host):
                await until(lambda: len(receiver.requests) == MAX_CONCURRENT + 1)
    assert len({body for _, body in receiver.requests}) == MAX_CONCURRENT + 1


async def test_a_change_in_this_process_wakes_the_sender() -> None:
    async with receiving() as receiver:
        with hidden_images(receiver, FrozenClock()) as host:
            async with running_purge_sender(host, poll_seconds=3_600):
                await until(lambda: len(receiver.requests) == 1)
                image = host.upload(make_image(8, 8), owner="admin")
                host.images.update(image, is_public=False)
                await until(lambda: len(receiver.requests) == 2)
                host.accounts.create("eve")
                host.upload(make_image(8, 8), owner="eve")
                host.accounts.update("eve", suspended=True)
                await until(lambda: len(receiver.requests) == 3)


async def test_without_a_url_no_task_runs() -> None:
    settings = attrs.evolve(
        Settings(base_url="https://img.example/v1"), rendering=RenderingSettings(processes=1)
    )
    with open_host(":memory:", settings=settings) as host:
        async with running_purge_sender(host):
            assert not host.cache_purges.is_enabled
