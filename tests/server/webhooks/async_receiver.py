"""An asyncio HTTP server that records webhook requests, for senders that run in the test's process."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from attrs import define, field
from tests.open_host import open_host
from tests.waiting import PATIENCE

from imagehost_core import ImageHost, Settings
from imagehost_core.endpoints import AddressPolicy, Endpoint, require_public_address
from imagehost_core.models import Webhook, WebhookDelivery
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import FrozenClock
from imagehost_server.http.outgoing import Outgoing, OutgoingResponse, Resolve, resolve

LOOPBACK_TOO = partial(require_public_address, allow_loopback=True)
"""The policy of a host that allows loopback."""
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"


async def post(
    endpoint: Endpoint,
    policy: AddressPolicy,
    *,
    resolve: Resolve = resolve,
    tls: ssl.SSLContext | None = None,
) -> OutgoingResponse:
    """Send an empty event, and return the response."""
    return await Outgoing(policy, tls, resolve).request("POST", endpoint, {}, b"{}", timeout=PATIENCE)


@define
class AsyncReceiver:
    """A listener that records requests and writes the given response.

    Attributes:
        response: The bytes of every response, or a coroutine function that returns them, given the number of
            requests so far.
        requests: Headers, with names in lower case and the request line as `:request`, and bodies.
    """

    response: bytes | Callable[[int], Awaitable[bytes]] = OK
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
            await self.handle_request(reader, writer)
        finally:
            writer.transport.abort()

    async def handle_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")[1:-2]
            headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
            headers[":request"] = head.split("\r\n")[0]
            body = await reader.readexactly(int(headers["content-length"]))
            self.requests.append((headers, body))
            self.arrived.set()
            response = self.response
            writer.write(response if isinstance(response, bytes) else await response(len(self.requests)))
            await writer.drain()
            writer.close()
            await writer.wait_closed()


@contextlib.asynccontextmanager
async def receiving(
    response: bytes | Callable[[int], Awaitable[bytes]] = OK, tls: ssl.SSLContext | None = None
) -> AsyncIterator[AsyncReceiver]:
    """Run a receiver on a free port of 127.0.0.1 until the block ends."""
    receiver = AsyncReceiver(response)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in receiver.tasks:
            task.cancel()
        await asyncio.gather(*receiver.tasks, return_exceptions=True)


def loopback_host(clock: FrozenClock, *, concurrency: int = 4, timeout_seconds: float = 5.0) -> ImageHost:
    """Return a temporary host whose webhooks may have endpoints on loopback."""
    webhooks = WebhookSettings(allow_loopback=True, timeout_seconds=timeout_seconds, concurrency=concurrency)
    settings = Settings(
        base_url="https://img.example/v1", webhooks=webhooks, rendering=RenderingSettings(processes=1)
    )
    return open_host(":memory:", settings=settings, clock=clock)


def only_delivery(host: ImageHost, webhook: Webhook) -> WebhookDelivery:
    (delivery,) = host.webhooks.deliveries(webhook.id, owner="admin")
    return delivery
