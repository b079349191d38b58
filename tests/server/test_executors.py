"""Thread limiters: no kind of work waits for another, and every queue is limited."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import httpx2
import pytest

from imagehost_core import ImageHost
from imagehost_core.errors import UnavailableError
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.testing import make_image
from imagehost_server._executors import (
    MEAN_OF_READS,
    RETRY_AFTER_SECONDS,
    SLOW_READ_SECONDS,
    THREADS_AFTER_SLOW_READS_SECONDS,
    Executors,
    LoopExecutor,
    ThreadLimiter,
)
from imagehost_server.app import DELIVERY_PREFIXES, Dispatcher, create_api
from imagehost_server.auth.identity import IdentityMiddleware
from imagehost_server.delivery.route import DeliveryRoute
from imagehost_server.middleware.security import SecurityMiddleware
from imagehost_server.settings import ServerSettings

SETTINGS = ServerSettings(
    rendering=RenderingSettings(processes=1, queue=1),
    limits=LimitSettings(unauthenticated_per_minute=0, sign_ins_per_minute=10),
)
TIMEOUT = 30.0


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with ImageHost.open(settings=SETTINGS) as opened:
        yield opened


@asynccontextmanager
async def saturated(limiter: ThreadLimiter) -> AsyncIterator[None]:
    """Fill a limiter and its queue with calls that return at the end of the block."""
    ended, rejected = threading.Event(), anyio.Event()

    async def wait() -> None:
        try:
            await limiter.run(ended.wait, TIMEOUT)
        except UnavailableError:
            rejected.set()

    async with anyio.create_task_group() as tasks:
        try:
            with anyio.fail_after(TIMEOUT):
                while not rejected.is_set():
                    tasks.start_soon(wait)
                    await anyio.lowlevel.checkpoint()
            yield
        finally:
            ended.set()


@pytest.mark.anyio
async def test_a_full_limiter_rejects_calls_with_retry_after() -> None:
    limiter = ThreadLimiter(2, 3)
    async with saturated(limiter):
        with pytest.raises(UnavailableError) as rejected:
            await limiter.run(int)
    assert rejected.value.retry_after == RETRY_AFTER_SECONDS
    assert await limiter.run(int) == 0


@pytest.mark.anyio
async def test_a_limiter_rejects_only_when_all_threads_and_the_queue_are_full() -> None:
    limiter, ran, ended = ThreadLimiter(2, 3), list[int](), threading.Event()

    def work(number: int) -> None:
        ran.append(number)
        ended.wait(TIMEOUT)

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(limiter.run, work, number)
            await anyio.sleep(0.01)
        with pytest.raises(UnavailableError):
            await limiter.run(int)
        assert len(ran) == 2
        ended.set()
    assert sorted(ran) == [0, 1, 2, 3, 4]


def client_of(host: ImageHost, executors: Executors) -> httpx2.AsyncClient:
    """Return a client of an application with these executors."""
    identity = IdentityMiddleware(create_api(host, SETTINGS, executors), host, executors)
    app = SecurityMiddleware(Dispatcher(identity, DeliveryRoute(host, executors), DELIVERY_PREFIXES))
    transport = httpx2.ASGITransport(app=app, client=("127.0.0.1", 9))  # type: ignore[arg-type]
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")


@pytest.mark.anyio
async def test_requests_for_masters_do_not_wait_for_renderings(host: ImageHost) -> None:
    executors, ended = Executors(SETTINGS.rendering), threading.Event()
    image = host.upload(make_image(64, 48), owner="admin")
    headers = {"Authorization": f"Bearer {host.keys.create(owner='admin').token}"}
    async with client_of(host, executors) as client, anyio.create_task_group() as tasks:
        for _ in range(9):
            tasks.start_soon(executors.variants.run, ended.wait, TIMEOUT)
        await anyio.lowlevel.checkpoint()
        uploaded = await client.post("/v1/upload", headers=headers, files={"image": make_image()})
        master = await client.get(f"/img/{image.id}")
        ended.set()
        later = await client.get(f"/img/{image.id}?w=9")
    assert [uploaded.status_code, master.status_code, later.status_code] == [200, 200, 200]


@pytest.mark.anyio
async def test_signing_in_with_an_invalid_name_costs_neither_a_hash_nor_an_attempt(host: ImageHost) -> None:
    executors = Executors(SETTINGS.rendering)
    invalid_names = (
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

    async with client_of(host, executors) as client, saturated(executors.passwords):

        async def sign_in(name: str) -> httpx2.Response:
            body = json.dumps({"username": name, "password": "x"})
            headers = {"content-type": "application/json"}
            return await client.post("/v1/session", content=body, headers=headers)

        for name in invalid_names:
            rejected = await sign_in(name)
            assert (rejected.status_code, rejected.json()["error"]["code"]) == (401, "UNAUTHORIZED"), name
        # A valid name costs a hash, whether the account exists or not.
        assert [(await sign_in(name)).status_code for name in ("admin", "unknown")] == [503, 503]


@pytest.mark.anyio
async def test_the_queues_of_expensive_work_are_limited() -> None:
    executors = Executors(SETTINGS.rendering)
    for limiter in (executors.uploads, executors.passwords):
        async with saturated(limiter):
            with pytest.raises(UnavailableError):
                await limiter.run(int)


@pytest.mark.anyio
@pytest.mark.parametrize("fails", [False, True])
async def test_slow_reads_on_the_event_loop_make_the_next_ones_use_threads_for_a_second(fails: bool) -> None:
    now = 10.0
    executor = LoopExecutor(ThreadLimiter(1), lambda: now)

    def read(seconds: float = 0.0) -> int:
        nonlocal now
        now += seconds
        if fails and seconds:
            raise UnavailableError("slow")
        return threading.get_ident()

    loop_thread = threading.get_ident()
    for _ in range(3):
        with suppress(UnavailableError):
            await executor.run(read, 2 * SLOW_READ_SECONDS)
        assert await executor.run(read) == loop_thread
    for _ in range(MEAN_OF_READS):
        with suppress(UnavailableError):
            await executor.run(read, 2 * SLOW_READ_SECONDS)
    assert await executor.run(read) != loop_thread
    now += THREADS_AFTER_SLOW_READS_SECONDS
    assert await executor.run(read) == loop_thread
