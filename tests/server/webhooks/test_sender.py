"""The webhook sender: requests, results and retries, against real receivers on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.ports import free_port
from tests.server.webhooks.async_receiver import OK, loopback_host, only_delivery, receiving

from imagehost_core import ImageHost
from imagehost_core.models import DeliveryStatus
from imagehost_core.testing import FrozenClock
from imagehost_core.webhooks import sign_webhook
from imagehost_server.background import WebhookSender

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def host(clock: FrozenClock) -> Iterator[ImageHost]:
    with loopback_host(clock) as host:
        yield host


async def test_an_event_is_posted_with_a_valid_signature(host: ImageHost) -> None:
    async with receiving() as receiver:
        created = host.webhooks.create(owner="admin", url=receiver.url)
        album = host.albums.create(owner="admin", name="Cats")
        assert await WebhookSender(host).drain() == 1
    ((headers, body),) = receiver.requests
    assert headers[":request"] == "POST /hook?x=1 HTTP/1.1"
    assert headers["host"] == f"127.0.0.1:{receiver.port}"
    assert headers["content-type"] == "application/json"
    assert headers["webhook-timestamp"] == str(int(host.now().timestamp()))
    signed = sign_webhook(created.secret, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == signed
    assert b'"type":"album.created"' in body
    assert f'"id":{album.id},'.encode() in body
    delivery = only_delivery(host, created)
    assert (delivery.status, delivery.attempts, delivery.response_status) == (
        DeliveryStatus.DELIVERED,
        1,
        200,
    )
    assert (delivery.response_excerpt, delivery.event_id) == ("fine", headers["webhook-id"])


async def test_only_subscribed_event_types_are_sent(host: ImageHost) -> None:
    async with receiving() as receiver:
        host.webhooks.create(owner="admin", url=receiver.url, events=["album.updated"])
        album = host.albums.create(owner="admin", name="Cats")
        host.albums.update(album.id, owner="admin", name="Dogs")
        assert await WebhookSender(host).drain() == 1
    assert [b"album.updated" in body for _, body in receiver.requests] == [True]


async def test_a_failed_delivery_is_retried_with_the_same_id(host: ImageHost, clock: FrozenClock) -> None:
    async def flaky(count: int) -> bytes:
        return OK if count == 3 else b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"

    async with receiving(flaky) as receiver:
        host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        sender = WebhookSender(host)
        for wait in (0, 6, 360):
            clock.advance(seconds=wait)
            assert await sender.drain() == 1
            assert await sender.drain() == 0
    assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
    assert len({headers["webhook-timestamp"] for headers, _ in receiver.requests}) == 3
    assert len({body for _, body in receiver.requests}) == 1


async def test_redirects_are_not_followed(host: ImageHost) -> None:
    async with receiving() as target:
        location = f"HTTP/1.1 307 Go\r\nLocation: {target.url}\r\nContent-Length: 0\r\n\r\n".encode()
        async with receiving(location) as receiver:
            created = host.webhooks.create(owner="admin", url=receiver.url)
            host.albums.create(owner="admin", name="Cats")
            await WebhookSender(host).drain()
    assert (receiver.connections, target.connections) == (1, 0)
    delivery = only_delivery(host, created)
    assert (delivery.status, delivery.response_status) == (DeliveryStatus.PENDING, 307)


async def test_a_410_response_disables_the_webhook(host: ImageHost) -> None:
    async with receiving(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n") as receiver:
        created = host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        await WebhookSender(host).drain()
        host.albums.create(owner="admin", name="Dogs")
        assert await WebhookSender(host).drain() == 0
    webhook = host.webhooks.get(created.id, owner="admin")
    assert not webhook.is_active
    assert "410" in str(webhook.disabled_reason)


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"rubbish\r\n\r\n", "not HTTP"),
        (b"", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "not HTTP"),
    ],
)
async def test_a_malformed_response_is_a_failure_with_the_reason(
    host: ImageHost, response: bytes, reason: str
) -> None:
    async with receiving(response) as receiver:
        created = host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        await WebhookSender(host).drain()
    delivery = only_delivery(host, created)
    assert (delivery.status, delivery.response_status) == (DeliveryStatus.PENDING, None)
    assert reason in (delivery.error or "")


async def test_an_endpoint_that_stalls_is_cut_off_at_the_timeout(clock: FrozenClock) -> None:
    async def stall(_count: int) -> bytes:
        await asyncio.sleep(30)
        return OK

    with loopback_host(clock, timeout_seconds=0.25) as host:
        async with receiving(stall) as receiver:
            created = host.webhooks.create(owner="admin", url=receiver.url)
            host.albums.create(owner="admin", name="Cats")
            await WebhookSender(host).drain()
        assert only_delivery(host, created).error == "no response within 0.25 seconds"


async def test_a_refused_connection_is_a_failure_with_the_reason(host: ImageHost) -> None:
    created = host.webhooks.create(owner="admin", url=f"http://127.0.0.1:{free_port()}/")
    host.albums.create(owner="admin", name="Cats")
    await WebhookSender(host).drain()
    delivery = only_delivery(host, created)
    assert (delivery.error or "").startswith("no connection")


async def test_after_a_rotation_both_secrets_sign_for_a_day(host: ImageHost, clock: FrozenClock) -> None:
    async with receiving() as receiver:
        first = host.webhooks.create(owner="admin", url=receiver.url)
        second = host.webhooks.rotate_secret(first.id, owner="admin")
        for wait, secrets in ((0, (second, first)), (25, (second,))):
            clock.advance(hours=wait)
            host.webhooks.test(first.id, owner="admin")
            await WebhookSender(host).drain()
            headers, body = receiver.requests[-1]
            timestamp = int(headers["webhook-timestamp"])
            assert headers["webhook-signature"].split(" ") == [
                sign_webhook(signer.secret, headers["webhook-id"], timestamp, body) for signer in secrets
            ]


async def test_a_bug_in_the_sender_counts_as_an_attempt_and_is_logged(
    host: ImageHost, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_name: str, _port: int) -> list[str]:
        raise LookupError("unexpected")

    created = host.webhooks.create(owner="admin", url="http://127.0.0.1:9/")
    host.albums.create(owner="admin", name="Cats")
    assert await WebhookSender(host, resolve=broken).drain() == 1
    delivery = only_delivery(host, created)
    assert (delivery.attempts, delivery.error) == (1, "internal error of the sender")
    assert "unexpected" in caplog.text


async def test_a_manual_retry_sends_the_event_again(host: ImageHost) -> None:
    async with receiving() as receiver:
        created = host.webhooks.create(owner="admin", url=receiver.url)
        delivery = host.webhooks.test(created.id, owner="admin")
        await WebhookSender(host).drain()
        host.webhooks.retry(created.id, delivery.id, owner="admin")
        await WebhookSender(host).drain()
        retried = only_delivery(host, created)
    assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
    assert (len(receiver.requests), retried.attempts, retried.status) == (2, 2, DeliveryStatus.DELIVERED)
