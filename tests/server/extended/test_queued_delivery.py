"""Requests for variants in the queue of renderings: without threads, and gone when the client is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from attrs import evolve
from tests.waiting import PATIENCE

from imagehost_core import Image, ImageHost
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.steps import advance
from imagehost_core.testing import make_image
from imagehost_server._executors import FILE_THREADS, Executors
from imagehost_server.delivery.route import DeliveryRoute
from imagehost_server.settings import ServerSettings

RENDERING = RenderingSettings(processes=1, queue=16)
SETTINGS = ServerSettings(rendering=RENDERING, limits=LimitSettings(unauthenticated_per_minute=0))
HASTY = RenderingSettings(processes=1, queue=16, render_timeout_seconds=2.0)


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with ImageHost.open(":memory:", settings=SETTINGS) as opened:
        yield opened


@pytest.fixture
def image(host: ImageHost) -> Image:
    return host.upload(make_image(64, 48), owner="admin")


@pytest.fixture
def route(host: ImageHost) -> DeliveryRoute:
    return DeliveryRoute(host, Executors(RENDERING))


@contextmanager
def busy_workers(host: ImageHost, image: Image, query: str) -> Iterator[None]:
    """Hold both worker processes that render thumbnails, so that all others wait, in the block."""
    with ExitStack() as stack:
        for each in (query, "w=41"):
            steps = host.delivery.open_in_steps(host.delivery.resolve(image.id, each))
            stack.callback(steps.close)
            lent = advance(steps)
            assert isinstance(lent, Future)
            lent.result(PATIENCE)
        yield


class Client:
    """An ASGI client of one request, which can disconnect.

    Attributes:
        status: The status of the response; 0 = none was sent.
    """

    def __init__(self, route: DeliveryRoute, image: Image, query: str) -> None:
        self.disconnected, self.status = asyncio.Event(), 0
        scope: Any = {"type": "http", "method": "GET", "query_string": query.encode(), "headers": []}
        scope["state"] = {"request_id": "1"}
        self.task = asyncio.create_task(route(image.id, scope, self._receive, self._send))

    async def _receive(self) -> Any:
        await self.disconnected.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.status = message.get("status", self.status)


@pytest.mark.anyio
async def test_requests_in_the_queue_hold_no_thread(
    host: ImageHost, image: Image, route: DeliveryRoute
) -> None:
    with busy_workers(host, image, "w=9"):
        waiting = [Client(route, image, "w=8") for _ in range(2 * FILE_THREADS)]
        await asyncio.sleep(0.2)
        master = Client(route, image, "")
        await asyncio.wait_for(master.task, PATIENCE)
        assert not any(client.task.done() for client in waiting)
    await asyncio.wait_for(asyncio.gather(*(client.task for client in waiting)), PATIENCE)
    assert {client.status for client in (master, *waiting)} == {200}


@pytest.mark.anyio
@pytest.mark.parametrize("cancel", [False, True])
async def test_a_request_leaves_the_queue_when_its_client_disconnects_or_it_is_cancelled(
    host: ImageHost, image: Image, route: DeliveryRoute, cancel: bool
) -> None:
    with busy_workers(host, image, "w=9"):
        client = Client(route, image, "w=8")
        await asyncio.sleep(0.2)
        if cancel:
            client.task.cancel()
        else:
            client.disconnected.set()
        await asyncio.wait([client.task], timeout=PATIENCE)
        assert client.task.done()
        assert client.status == 0
    assert host.render(image.id, "w=7").width == 7
    assert host.delivery.read_nowait(host.delivery.resolve(image.id, "w=8")) is None, "it was rendered"


@pytest.mark.anyio
async def test_a_request_in_the_queue_is_rejected_at_its_deadline() -> None:
    with ImageHost.open(":memory:", settings=evolve(SETTINGS, rendering=HASTY)) as host:
        image, route = host.upload(make_image(64, 48), owner="admin"), DeliveryRoute(host, Executors(HASTY))
        begin = time.monotonic()
        with busy_workers(host, image, "w=9"):
            clients = [Client(route, image, query) for query in ("w=9", "w=8")]
            await asyncio.wait_for(asyncio.gather(*(client.task for client in clients)), PATIENCE)
        assert [client.status for client in clients] == [503, 503]
        assert HASTY.render_timeout_seconds <= time.monotonic() - begin < PATIENCE / 2
