"""The sender, against real receivers on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import define, evolve, field

from imagehost_core import ImageHost, Settings
from imagehost_core.db import LeasedDelivery
from imagehost_core.errors import UnavailableError
from imagehost_core.models import DeliveryState, Webhook, WebhookDelivery
from imagehost_core.services.webhooks import MAX_IN_FLIGHT_PER_ENDPOINT, WebhookService
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import FrozenClock
from imagehost_core.webhooks.endpoint import parse_endpoint_url
from imagehost_core.webhooks.retry import Attempt
from imagehost_core.webhooks.signing import sign_webhook
from imagehost_server.background import WebhookSender, post
from imagehost_server.background.webhook_http import UnreachableError

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@define
class Receiver:
    """A listener that keeps what it gets, and answers as it is told."""

    answer: bytes | Callable[[int], Awaitable[bytes]] = OK
    requests: list[tuple[dict[str, str], bytes]] = field(factory=list)
    connections: int = 0
    port: int = 0
    arrived: asyncio.Event = field(factory=asyncio.Event)
    tasks: list[asyncio.Task[object]] = field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?x=1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        try:
            await self.answer_one(reader, writer)
        finally:
            writer.transport.abort()

    async def answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")[1:-2]
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            headers[":request"] = head.split("\r\n")[0]
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append((headers, body))
            self.arrived.set()
            answer = self.answer
            writer.write(answer if isinstance(answer, bytes) else await answer(len(self.requests)))
            await writer.drain()
            writer.close()
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def receiving(
    answer: bytes | Callable[[int], Awaitable[bytes]] = OK, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    receiver = Receiver(answer)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in receiver.tasks:
            task.cancel()
        await asyncio.gather(*receiver.tasks, return_exceptions=True)


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def host(clock: FrozenClock) -> Iterator[ImageHost]:
    webhooks = WebhookSettings(allow_loopback=True, timeout_seconds=1.0, concurrency=4)
    settings = Settings(webhooks=webhooks, rendering=RenderingSettings(processes=1))
    with ImageHost.open(":memory:", settings=settings, clock=clock) as host:
        yield host


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    for _ in range(3_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("expected it within half a minute")


def evolve_concurrency(host: ImageHost, concurrency: int) -> ImageHost:
    """Return the host with room for so many attempts at a time."""
    webhooks = evolve(host.settings.webhooks, concurrency=concurrency, timeout_seconds=30.0)
    host.settings = evolve(host.settings, webhooks=webhooks)
    return host


def only(host: ImageHost, webhook: Webhook) -> WebhookDelivery:
    (delivery,) = host.webhooks.deliveries(webhook.id, owner="admin")
    return delivery


def webhook_of(host: ImageHost, webhook: Webhook) -> Webhook:
    return host.webhooks.get(webhook.id, owner="admin")


async def test_an_event_arrives_signed_with_the_bytes_of_the_contract(host: ImageHost) -> None:
    async with receiving() as receiver:
        made = host.webhooks.create(owner="admin", url=receiver.url)
        album = host.albums.create(owner="admin", name="Cats")
        assert await WebhookSender(host).drain() == 1
    ((headers, body),) = receiver.requests
    assert headers[":request"] == "POST /hook?x=1 HTTP/1.1"
    assert headers["host"] == f"127.0.0.1:{receiver.port}"
    assert headers["content-type"] == "application/json"
    assert headers["webhook-timestamp"] == str(int(host.now().timestamp()))
    signed = sign_webhook(made.secret, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == signed
    assert b'"type":"album.created"' in body
    assert f'"id":{album.id},'.encode() in body
    (delivery,) = host.webhooks.deliveries(made.webhook.id, owner="admin")
    assert (delivery.state, delivery.attempts, delivery.last_status) == (DeliveryState.DELIVERED, 1, 200)
    assert (delivery.last_response, delivery.event_id) == ("fine", headers["webhook-id"])


async def test_only_the_kinds_that_were_asked_for_are_sent(host: ImageHost) -> None:
    async with receiving() as receiver:
        host.webhooks.create(owner="admin", url=receiver.url, events=["album.updated"])
        album = host.albums.create(owner="admin", name="Cats")
        host.albums.update(album.id, owner="admin", name="Dogs")
        assert await WebhookSender(host).drain() == 1
    assert [b"album.updated" in body for _, body in receiver.requests] == [True]


async def test_a_destination_that_fails_is_tried_again_with_the_same_id(
    host: ImageHost, clock: FrozenClock
) -> None:
    async def flaky(count: int) -> bytes:
        return OK if count == 3 else b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"

    async with receiving(flaky) as receiver:
        host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        sender = WebhookSender(host)
        for wait in (timedelta(0), timedelta(seconds=6), timedelta(minutes=6)):
            clock.now += wait
            assert await sender.drain() == 1
            assert await sender.drain() == 0
    assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
    assert len({headers["webhook-timestamp"] for headers, _ in receiver.requests}) == 3
    assert len({body for _, body in receiver.requests}) == 1


async def test_redirects_are_not_followed(host: ImageHost) -> None:
    async with receiving() as inside:
        location = f"HTTP/1.1 307 Go\r\nLocation: {inside.url}\r\nContent-Length: 0\r\n\r\n".encode()
        async with receiving(location) as outside:
            made = host.webhooks.create(owner="admin", url=outside.url)
            host.albums.create(owner="admin", name="Cats")
            await WebhookSender(host).drain()
    assert (outside.connections, inside.connections) == (1, 0)
    (delivery,) = host.webhooks.deliveries(made.webhook.id, owner="admin")
    assert (delivery.state, delivery.last_status) == (DeliveryState.PENDING, 307)


async def test_410_disables_the_destination(host: ImageHost) -> None:
    async with receiving(b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n") as receiver:
        made = host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        await WebhookSender(host).drain()
        host.albums.create(owner="admin", name="Dogs")
        assert await WebhookSender(host).drain() == 0
    assert not webhook_of(host, made.webhook).is_active
    assert "410" in str(webhook_of(host, made.webhook).disabled_reason)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"rubbish\r\n\r\n", "no HTTP"),
        (b"", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", "no HTTP"),
    ],
)
async def test_an_answer_that_is_none_is_a_failure_that_says_why(
    host: ImageHost, answer: bytes, said: str
) -> None:
    async with receiving(answer) as receiver:
        made = host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        await WebhookSender(host).drain()
    (delivery,) = host.webhooks.deliveries(made.webhook.id, owner="admin")
    assert (delivery.state, delivery.last_status) == (DeliveryState.PENDING, None)
    assert said in delivery.last_response


async def test_a_destination_that_stalls_is_cut_off_at_the_timeout(host: ImageHost) -> None:
    async def stall(_count: int) -> bytes:
        await asyncio.sleep(30)
        return OK

    async with receiving(stall) as receiver:
        made = host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        await WebhookSender(host).drain()
    (delivery,) = host.webhooks.deliveries(made.webhook.id, owner="admin")
    assert delivery.last_response == "no response within 1 seconds"


async def test_nobody_listening_is_a_failure_that_says_why(host: ImageHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    made = host.webhooks.create(owner="admin", url=f"http://127.0.0.1:{port}/")
    host.albums.create(owner="admin", name="Cats")
    await WebhookSender(host).drain()
    (delivery,) = host.webhooks.deliveries(made.webhook.id, owner="admin")
    assert delivery.last_response.startswith("no connection")


async def test_after_a_rotation_both_secrets_sign_for_a_day(host: ImageHost, clock: FrozenClock) -> None:
    async with receiving() as receiver:
        first = host.webhooks.create(owner="admin", url=receiver.url)
        second = host.webhooks.rotate_secret(first.webhook.id, owner="admin")
        for wait, secrets in ((0, (second, first)), (25, (second,))):
            clock.advance(hours=wait)
            host.webhooks.test(first.webhook.id, owner="admin")
            await WebhookSender(host).drain()
            headers, body = receiver.requests[-1]
            timestamp = int(headers["webhook-timestamp"])
            assert headers["webhook-signature"].split(" ") == [
                sign_webhook(made.secret, headers["webhook-id"], timestamp, body) for made in secrets
            ]


async def test_a_name_that_turns_inside_between_check_and_connect_reaches_nothing(host: ImageHost) -> None:
    async with receiving() as inside:

        async def rebound(_host: str, _port: int) -> list[str]:
            return ["127.0.0.1"]

        destination = parse_endpoint_url(f"https://rebinding.example.com:{inside.port}/")
        with pytest.raises(UnreachableError, match="public IP address"):
            await post(destination, {}, b"{}", timeout=5, resolve=rebound)
    assert inside.connections == 0


async def test_one_inside_address_among_good_ones_is_enough_to_refuse(host: ImageHost) -> None:
    async def mixed(_host: str, _port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(UnreachableError, match="public IP address"):
        await post(parse_endpoint_url("https://mixed.example.com/"), {}, b"", timeout=5, resolve=mixed)


async def test_a_name_without_an_address_is_a_failure_that_says_why() -> None:
    async def nowhere(_host: str, _port: int) -> list[str]:
        return []

    with pytest.raises(UnreachableError, match="has no address"):
        await post(parse_endpoint_url("https://nowhere.example.com/"), {}, b"", timeout=5, resolve=nowhere)


async def test_one_slow_destination_does_not_hold_up_others(host: ImageHost) -> None:
    """While one keeps every attempt that it may have hanging, all events of another arrive."""
    let_go = asyncio.Event()

    async def stall(_count: int) -> bytes:
        await let_go.wait()
        return OK

    async with receiving(stall) as slow, receiving() as quick:
        made = host.webhooks.create(owner="admin", url=slow.url, events=["album.created"]).webhook
        for number in range(30):
            host.albums.create(owner="admin", name=f"Slow {number}")
        host.webhooks.update(made.id, owner="admin", events=["album.updated"])
        host.webhooks.create(owner="admin", url=quick.url)
        sender = WebhookSender(evolve_concurrency(host, MAX_IN_FLIGHT_PER_ENDPOINT + 1))
        running = asyncio.create_task(sender.run())
        await until(lambda: slow.connections == MAX_IN_FLIGHT_PER_ENDPOINT)
        for number in range(10):
            host.albums.create(owner="admin", name=f"Quick {number}")
        await until(lambda: len(quick.requests) == 10)
        assert slow.connections == MAX_IN_FLIGHT_PER_ENDPOINT
        let_go.set()
        sender.stop()
        await running


async def test_no_more_attempts_are_under_way_than_the_setting_says(host: ImageHost) -> None:
    under_way, most = 0, 0

    async def count(_count: int) -> bytes:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.02)
        under_way -= 1
        return OK

    async with receiving(count) as receiver:
        for _ in range(3):
            host.webhooks.create(owner="admin", url=receiver.url)
        for number in range(10):
            host.albums.create(owner="admin", name=f"Album {number}")
        assert await WebhookSender(host).drain() == 30
    assert most == host.settings.webhooks.concurrency == 4


async def test_a_name_whose_servers_do_not_answer_holds_up_nobody(host: ImageHost) -> None:
    """The real resolver waits in threads; as many of them hang as may be under way to one destination."""
    hang = threading.Event()

    def hanging(name: str, port: int, **_: object) -> list[tuple[object, ...]]:
        assert name == "localhost"
        assert hang.wait(30)
        return [(0, 0, 0, "", ("127.0.0.1", port))]

    async with receiving() as slow, receiving() as quick:
        host.webhooks.create(owner="admin", url=f"http://localhost:{slow.port}/", events=["album.created"])
        host.webhooks.create(owner="admin", url=quick.url)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", hanging)
            for number in range(3):
                host.albums.create(owner="admin", name=f"Album {number}")
            draining = asyncio.create_task(WebhookSender(host).drain())
            await until(lambda: len(quick.requests) == 3)
            assert slow.connections == 0
            hang.set()
            await draining


async def test_a_fault_of_ours_counts_as_an_attempt_and_is_logged(
    host: ImageHost, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_name: str, _port: int) -> list[str]:
        raise LookupError("a mistake")

    made = host.webhooks.create(owner="admin", url="http://127.0.0.1:9/")
    host.albums.create(owner="admin", name="Cats")
    assert await WebhookSender(host, resolve=broken).drain() == 1
    (delivery,) = host.webhooks.deliveries(made.webhook.id, owner="admin")
    assert (delivery.attempts, delivery.last_response) == (1, "internal error of the sender")
    assert "a mistake" in caplog.text


async def test_what_could_not_be_reported_is_reported_later(
    host: ImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog refuses once, as it does where another process has been writing all the time."""
    async with receiving() as receiver:
        made = host.webhooks.create(owner="admin", url=receiver.url)
        real, refused = WebhookService.report_and_lease, list[object]()

        def exchange(
            self: WebhookService, attempts: list[tuple[LeasedDelivery, Attempt]], *rest: int
        ) -> tuple[LeasedDelivery, ...]:
            if attempts and not refused:
                refused.append(attempts)
                raise UnavailableError("busy")
            return real(self, attempts, *rest)

        monkeypatch.setattr(WebhookService, "report_and_lease", exchange)
        host.albums.create(owner="admin", name="Cats")
        sender = WebhookSender(host)
        running = asyncio.create_task(sender.run())
        await until(lambda: only(host, made.webhook).state is DeliveryState.DELIVERED)
        sender.stop()
        await running
    assert len(refused) == 1
    assert len(receiver.requests) == 1


async def test_a_sender_that_is_stopped_gives_its_seat_back(host: ImageHost) -> None:
    sender = WebhookSender(host)
    running = asyncio.create_task(sender.run())
    await asyncio.sleep(0.1)
    with host.webhooks.sender_slot() as seat:
        assert seat == 1
    sender.stop()
    await running
    with host.webhooks.sender_slot() as seat:
        assert seat == 0


async def test_what_was_leased_by_a_sender_that_died_is_sent_by_another(
    host: ImageHost, clock: FrozenClock
) -> None:
    async with receiving() as receiver:
        host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        assert len(host.webhooks.lease(10)) == 1
        assert await WebhookSender(host).drain() == 0
        clock.advance(seconds=32)
        assert await WebhookSender(host).drain() == 1


async def test_a_sender_that_is_stopped_finishes_or_gives_back(host: ImageHost) -> None:
    reached = asyncio.Event()

    async def slow(count: int) -> bytes:
        reached.set()
        await asyncio.sleep(0.3 if count == 1 else 30)
        return OK

    async with receiving(slow) as receiver:
        made = host.webhooks.create(owner="admin", url=receiver.url)
        host.albums.create(owner="admin", name="Cats")
        host.albums.create(owner="admin", name="Dogs")
        sender = WebhookSender(host)
        running = asyncio.create_task(sender.run())
        await reached.wait()
        sender.stop()
        await running
    states = sorted(delivery.state for delivery in host.webhooks.deliveries(made.webhook.id, owner="admin"))
    assert states == [DeliveryState.DELIVERED, DeliveryState.PENDING]


async def test_a_running_sender_is_woken_by_an_event_of_its_process(host: ImageHost) -> None:
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


async def test_a_retry_by_hand_sends_once_more(host: ImageHost) -> None:
    async with receiving() as receiver:
        made = host.webhooks.create(owner="admin", url=receiver.url)
        delivery = host.webhooks.test(made.webhook.id, owner="admin")
        await WebhookSender(host).drain()
        host.webhooks.retry(made.webhook.id, delivery.id, owner="admin")
        await WebhookSender(host).drain()
        (after,) = host.webhooks.deliveries(made.webhook.id, owner="admin")
    assert len({headers["webhook-id"] for headers, _ in receiver.requests}) == 1
    assert (len(receiver.requests), after.attempts, after.state) == (2, 2, DeliveryState.DELIVERED)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


async def test_tls_is_verified_for_the_name(certificate: tuple[Path, Path]) -> None:
    """A listener with a certificate that nobody vouches for gets not one byte of the event."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(*certificate)

    async def here(_host: str, _port: int) -> list[str]:
        return ["127.0.0.1"]

    async with receiving(tls=serving) as receiver:
        destination = parse_endpoint_url(f"https://localhost:{receiver.port}/", allow_loopback=True)
        with pytest.raises(UnreachableError, match="TLS failed"):
            await post(destination, {}, b"{}", timeout=5, allow_loopback=True, resolve=here)
        assert receiver.requests == []
        trusting = ssl.create_default_context(cafile=str(certificate[0]))
        posted = await post(
            destination, {}, b"{}", timeout=5, allow_loopback=True, resolve=here, tls=trusting
        )
        assert posted.status == 200
        other = parse_endpoint_url(f"https://127.0.0.1:{receiver.port}/", allow_loopback=True)
        with pytest.raises(UnreachableError, match="TLS failed"):
            await post(other, {}, b"{}", timeout=5, allow_loopback=True, resolve=here, tls=trusting)
