"""Rooms of threads: no kind of work waits for another, and none waits without bound."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import httpx2
import pytest

from imagehost_core import ImageHost
from imagehost_core.errors import UnavailableError
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.testing import make_image
from imagehost_server._executors import RETRY_AFTER_SECONDS, Executors, ThreadLimiter
from imagehost_server.app import DELIVERY_PREFIXES, Dispatcher, create_api
from imagehost_server.auth.identity import IdentityMiddleware
from imagehost_server.delivery.route import DeliveryRoute
from imagehost_server.middleware.security import SecurityMiddleware
from imagehost_server.settings import ServerSettings

SETTINGS = ServerSettings(
    rendering=RenderingSettings(processes=1, queue=1),
    limits=LimitSettings(unauthenticated_per_minute=0, sign_ins_per_minute=10),
)
PATIENCE = 30.0


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with ImageHost.open(settings=SETTINGS) as opened:
        yield opened


@asynccontextmanager
async def filled(room: ThreadLimiter) -> AsyncIterator[None]:
    """Fill a room with work that ends with the block, until it takes no more."""
    ended, refused = threading.Event(), anyio.Event()

    async def ask() -> None:
        try:
            await room.run(ended.wait, PATIENCE)
        except UnavailableError:
            refused.set()

    async with anyio.create_task_group() as tasks:
        try:
            with anyio.fail_after(PATIENCE):
                while not refused.is_set():
                    tasks.start_soon(ask)
                    await anyio.lowlevel.checkpoint()
            yield
        finally:
            ended.set()


@pytest.mark.anyio
async def test_a_full_room_refuses_what_is_too_much_and_says_when_to_come_again() -> None:
    room = ThreadLimiter(2, 3)
    async with filled(room):
        with pytest.raises(UnavailableError) as refused:
            await room.run(int)
    assert refused.value.retry_after == RETRY_AFTER_SECONDS
    assert await room.run(int) == 0


@pytest.mark.anyio
async def test_a_full_room_has_all_its_threads_at_work_and_all_its_places_taken() -> None:
    room, ran, ended = ThreadLimiter(2, 3), list[int](), threading.Event()

    def work(number: int) -> None:
        ran.append(number)
        ended.wait(PATIENCE)

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(room.run, work, number)
            await anyio.sleep(0.01)
        with pytest.raises(UnavailableError):
            await room.run(int)
        assert len(ran) == 2
        ended.set()
    assert sorted(ran) == [0, 1, 2, 3, 4]


def client_of(host: ImageHost, rooms: Executors) -> httpx2.AsyncClient:
    """Return a client of the application, which works in these rooms."""
    callers = IdentityMiddleware(create_api(host, SETTINGS, rooms), host, rooms)
    app = SecurityMiddleware(Dispatcher(callers, DeliveryRoute(host, rooms), DELIVERY_PREFIXES))
    transport = httpx2.ASGITransport(app=app, client=("127.0.0.1", 9))  # type: ignore[arg-type]
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")


@pytest.mark.anyio
async def test_an_upload_is_stored_while_more_variants_are_asked_for_than_may_wait(host: ImageHost) -> None:
    rooms = Executors(SETTINGS.rendering)
    image = host.upload(make_image(64, 48), owner="admin")
    headers = {"Authorization": f"Bearer {host.keys.create(owner='admin').token}"}
    async with client_of(host, rooms) as client:
        async with filled(rooms.variants):
            refused = await client.get(f"/img/{image.id}?w=9")
            stored = await client.post("/v1/upload", headers=headers, files={"image": make_image()})
            whole = await client.get(f"/img/{image.id}")
        later = await client.get(f"/img/{image.id}?w=9")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert refused.headers["retry-after"] == str(RETRY_AFTER_SECONDS)
    assert refused.headers["cache-control"] == "no-store"
    assert [stored.status_code, whole.status_code, later.status_code] == [200, 200, 200]


@pytest.mark.anyio
async def test_a_name_that_no_account_can_have_costs_neither_a_hash_nor_an_attempt(host: ImageHost) -> None:
    rooms = Executors(SETTINGS.rendering)
    impossible = (
        "",
        "x" * 65,
        "x" * 100_000,
        "-x",
        "a b",
        "\0",
        "ä",
        "a/b",
        "admin\n",
        "' OR 1=1 --",
    )

    async with client_of(host, rooms) as client, filled(rooms.passwords):

        async def sign_in(name: str) -> httpx2.Response:
            body = json.dumps({"username": name, "password": "x"})
            headers = {"content-type": "application/json"}
            return await client.post("/v1/session", content=body, headers=headers)

        for name in impossible:
            refused = await sign_in(name)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "UNAUTHORIZED"), name
        # One that it can have costs a hash, whether there is such an account or not.
        assert [(await sign_in(name)).status_code for name in ("admin", "nobody")] == [503, 503]


@pytest.mark.anyio
async def test_every_room_in_which_anybody_can_ask_for_much_work_is_bounded() -> None:
    """Variants and sign-ins need no token."""
    rooms = Executors(SETTINGS.rendering)
    for room in (rooms.variants, rooms.uploads, rooms.passwords):
        async with filled(room):
            with pytest.raises(UnavailableError):
                await room.run(int)
