"""Thread limiters: no kind of work waits for another, and every queue is limited."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.open_host import open_host
from tests.server.conftest import hash_quickly
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.errors import UnavailableError
from imagehost_core.limits import sign_in_keys
from imagehost_core.services.rate_limiter import RateLimiter, SignInAttempt
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.testing import FrozenClock, make_image
from imagehost_server._executors import (
    DATABASE_THREADS,
    MASTER_THREADS,
    MAX_WAITING_PASSWORDS,
    MEAN_OF_READS,
    PASSWORD_THREADS,
    SLOW_READ_SECONDS,
    THREADS_AFTER_SLOW_READS_SECONDS,
    THREADS_RETRY_SECONDS,
    DelayQueue,
    Executors,
    FairQueue,
    FairThreadLimiter,
    LoopExecutor,
    SharedThreadLimiter,
    Standing,
    ThreadLimiter,
)
from imagehost_server.app import DELIVERY_PREFIXES, Dispatcher, create_api
from imagehost_server.auth.identity import IdentityMiddleware
from imagehost_server.delivery.route import DeliveryRoute
from imagehost_server.middleware.cors import CorsPolicy
from imagehost_server.middleware.requests import RequestMiddleware
from imagehost_server.settings import ServerSettings

SETTINGS = ServerSettings(
    rendering=RenderingSettings(processes=1, queue=1),
    limits=LimitSettings(unauthenticated_per_minute=0, sign_ins_per_minute=10),
)


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with open_host(settings=SETTINGS) as opened:
        yield opened


@asynccontextmanager
async def saturated(limiter: ThreadLimiter) -> AsyncIterator[None]:
    """Fill a limiter and its queue with calls that return at the end of the block."""
    ended, rejected = threading.Event(), anyio.Event()

    async def wait() -> None:
        try:
            await limiter.run(ended.wait, PATIENCE)
        except UnavailableError:
            rejected.set()

    async with anyio.create_task_group() as tasks:
        try:
            with anyio.fail_after(PATIENCE):
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
    assert rejected.value.retry_after == THREADS_RETRY_SECONDS
    assert await limiter.run(int) == 0


@pytest.mark.anyio
async def test_a_limiter_rejects_only_when_all_threads_and_the_queue_are_full() -> None:
    limiter, ran, ended = ThreadLimiter(2, 3), list[int](), threading.Event()

    def work(number: int) -> None:
        ran.append(number)
        ended.wait(PATIENCE)

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(limiter.run, work, number)
            await anyio.sleep(0.01)
        with pytest.raises(UnavailableError):
            await limiter.run(int)
        assert len(ran) == 2
        ended.set()
    assert sorted(ran) == [0, 1, 2, 3, 4]


@pytest.mark.anyio
async def test_a_call_that_finds_no_free_thread_in_time_is_rejected_and_takes_none() -> None:
    limiter, ended = ThreadLimiter(1, max_wait_seconds=0.01), threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limiter.run, ended.wait, PATIENCE)
        await anyio.lowlevel.checkpoint()
        for _ in range(2):
            with pytest.raises(UnavailableError) as rejected:
                await limiter.run(int)
            assert rejected.value.retry_after == THREADS_RETRY_SECONDS
        ended.set()
    assert await limiter.run(int) == 0


@pytest.mark.anyio
@pytest.mark.parametrize("is_local", [True, False])
async def test_only_reads_of_a_local_database_run_on_the_event_loop(is_local: bool) -> None:
    executors = Executors(SETTINGS.rendering, is_database_local=is_local)
    for _ in range(2 * MEAN_OF_READS):
        assert (await executors.reads.run(threading.get_ident) == threading.get_ident()) is is_local


@pytest.mark.anyio
async def test_an_object_store_that_does_not_respond_delays_no_response_from_the_disk() -> None:
    executors, ended = Executors(SETTINGS.rendering), threading.Event()
    async with anyio.create_task_group() as tasks:
        for _ in range(MASTER_THREADS):
            tasks.start_soon(executors.masters.run, ended.wait, PATIENCE)
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(PATIENCE / 2):
            assert await executors.files.run(int) == 0
        ended.set()


def client_of(
    host: ImageHost, executors: Executors, settings: ServerSettings = SETTINGS
) -> httpx2.AsyncClient:
    """Return a client of an application with these executors."""
    identity = IdentityMiddleware(create_api(host, settings, executors), host, executors)
    app = RequestMiddleware(
        Dispatcher(identity, DeliveryRoute(host, executors), DELIVERY_PREFIXES, CorsPolicy(()))
    )
    transport = httpx2.ASGITransport(app=app, client=("127.0.0.1", 9))  # type: ignore[arg-type]
    return httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1")


@pytest.mark.anyio
async def test_requests_for_masters_do_not_wait_for_renderings(host: ImageHost) -> None:
    executors, ended = Executors(SETTINGS.rendering), threading.Event()
    image = host.upload(make_image(64, 48), owner="admin")
    headers = {"Authorization": f"Bearer {host.keys.create(owner='admin').token}"}
    async with client_of(host, executors) as client, anyio.create_task_group() as tasks:
        for _ in range(9):
            tasks.start_soon(executors.variants.run, ended.wait, PATIENCE)
        await anyio.lowlevel.checkpoint()
        uploaded = await client.post("/v1/upload", headers=headers, files={"image": make_image()})
        master = await client.get(f"/img/{image.id}")
        ended.set()
        later = await client.get(f"/img/{image.id}?w=9")
    assert [uploaded.status_code, master.status_code, later.status_code] == [200, 200, 200]


@pytest.mark.anyio
async def test_signing_in_with_an_invalid_name_costs_neither_a_hash_nor_an_attempt(host: ImageHost) -> None:
    executors, ended = Executors(SETTINGS.rendering), threading.Event()
    executors.passwords = FairThreadLimiter(1, 0)
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

    async with client_of(host, executors) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(executors.passwords.run, Standing.NEW, ("", ""), ended.wait, PATIENCE)
        await anyio.lowlevel.checkpoint()

        async def sign_in(name: str) -> httpx2.Response:
            body = json.dumps({"username": name, "password": "x"})
            headers = {"content-type": "application/json"}
            return await client.post("/v1/session", content=body, headers=headers)

        for name in invalid_names:
            rejected = await sign_in(name)
            assert (rejected.status_code, rejected.json()["error"]["code"]) == (401, "UNAUTHORIZED"), name
        # A valid name costs a hash, whether the account exists or not.
        assert [(await sign_in(name)).status_code for name in ("admin", "unknown")] == [503, 503]
        ended.set()


@asynccontextmanager
async def held(limiter: SharedThreadLimiter, *owners: int) -> AsyncIterator[list[int]]:
    """Let owners hold as many threads as they get until the end of the block; yield their numbers.

    The owners take one in turn, in their order.
    """
    ended, counts, refused = threading.Event(), [0] * len(owners), set[int]()

    async def hold(index: int) -> None:
        try:
            counts[index] += 1
            await limiter.run(owners[index], ended.wait, PATIENCE)
        except UnavailableError:
            counts[index] -= 1
            refused.add(index)

    async with anyio.create_task_group() as tasks:
        try:
            with anyio.fail_after(PATIENCE):
                while len(refused) < len(owners):
                    for index in range(len(owners)):
                        if index not in refused:
                            tasks.start_soon(hold, index)
                            await anyio.lowlevel.checkpoint()
            yield counts
        finally:
            ended.set()


@pytest.mark.anyio
@pytest.mark.parametrize(("threads", "owners", "counts"), [(8, 1, [4]), (9, 2, [3, 3]), (12, 3, [3, 3, 3])])
async def test_owners_of_threads_leave_as_many_free_as_each_of_them_holds(
    threads: int, owners: int, counts: list[int]
) -> None:
    limiter = SharedThreadLimiter(threads)
    async with held(limiter, *range(owners)) as numbers:
        assert numbers == counts
        with pytest.raises(UnavailableError) as refused:
            await limiter.run(0, int)
        assert refused.value.retry_after == THREADS_RETRY_SECONDS
        assert await limiter.run(99, int) == 0
    assert await limiter.run(0, int) == 0


@given(threads=st.integers(1, 9), owners=st.lists(st.integers(0, 5), min_size=1, max_size=20))
def test_an_owner_of_threads_gets_another_one_exactly_if_more_are_free_than_it_holds(
    threads: int, owners: list[int]
) -> None:
    async def check() -> None:
        limiter, counts, ended = SharedThreadLimiter(threads), Counter[int](), threading.Event()

        async def hold(owner: int) -> None:
            counts[owner] += 1
            try:
                await limiter.run(owner, ended.wait, PATIENCE)
            except UnavailableError:
                counts[owner] -= 1

        async with anyio.create_task_group() as tasks:
            for owner in owners:
                before, free = counts[owner], threads - counts.total()
                tasks.start_soon(hold, owner)
                await anyio.lowlevel.checkpoint()
                assert counts[owner] == before + (before < free)
            ended.set()

    anyio.run(check)


@pytest.mark.anyio
async def test_uploads_of_an_account_that_holds_its_share_of_threads_get_503_and_those_of_others_succeed(
    host: ImageHost,
) -> None:
    executors, other = Executors(SETTINGS.rendering), host.accounts.create("other")
    admin = host.accounts.get("admin")
    tokens = [host.keys.create(owner=account).token for account in (admin, other)]
    async with client_of(host, executors) as client, held(executors.uploads, admin.id):
        responses = [
            await client.post(
                "/v1/upload", headers={"Authorization": f"Bearer {token}"}, files={"image": make_image()}
            )
            for token in tokens
        ]
    assert [response.status_code for response in responses] == [503, 200]
    assert responses[0].headers["retry-after"] == str(THREADS_RETRY_SECONDS)


UNLIMITED = ServerSettings(
    rendering=SETTINGS.rendering, limits=LimitSettings(api_per_minute=0, uploads_per_minute=0)
)


@pytest.mark.anyio
@pytest.mark.parametrize("path", ["/v1/upload", "/v1/albums"])
async def test_requests_that_wait_for_another_one_with_their_idempotency_key_hold_no_threads(
    path: str,
) -> None:
    """They are more than the threads, and the first request ends after that of another account."""
    statuses = Counter[int]()

    async def post(client: httpx2.AsyncClient, headers: dict[str, str]) -> None:
        body: Any = {"json": {"name": "x"}} if "albums" in path else {"files": {"image": make_image()}}
        statuses[(await client.post(path, headers=headers, **body)).status_code] += 1

    with open_host(settings=UNLIMITED) as host:
        owners = [host.accounts.get("admin"), host.accounts.create("other")]
        first, second = (
            {"Authorization": f"Bearer {host.keys.create(owner=owner).token}"} for owner in owners
        )
        async with (
            client_of(host, Executors(UNLIMITED.rendering), UNLIMITED) as client,
            anyio.create_task_group() as tasks,
        ):
            with host.idempotency.begin(owners[0], "once", "another request"):
                for _ in range(DATABASE_THREADS + 1):
                    tasks.start_soon(post, client, {**first, "Idempotency-Key": "once"})
                    await anyio.sleep(0.001)
                with anyio.fail_after(PATIENCE):
                    await post(client, second)
                assert statuses == {201 if "albums" in path else 200: 1}
    assert statuses[409] == DATABASE_THREADS + 1


@given(
    places=st.integers(0, 30),
    keys=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=60),
)
def test_a_client_gets_a_place_exactly_if_its_owner_leaves_more_free_than_the_client_holds(
    places: int, keys: list[tuple[str, str]]
) -> None:
    queue, held = FairQueue[int](places), Counter[tuple[str, str]]()
    for number, (owner, client) in enumerate(keys):
        of_owner = sum(count for key, count in held.items() if key[0] == owner)
        has_place = held[owner, client] < places - held.total() - of_owner
        assert queue.add(owner, client, number) is has_place
        held[owner, client] += has_place
    taken = 0
    while queue.next() is not None:
        taken += 1
    assert taken == held.total()


@given(
    others=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("wxyz")), max_size=60),
    served=st.integers(0, 20),
)
def test_a_client_waits_for_one_turn_of_each_other_client_of_its_owner_and_of_each_other_owner(
    others: list[tuple[str, str]], served: int
) -> None:
    queue = FairQueue[str](1_000)
    for owner, client in others:
        queue.add(owner, client, f"{owner}{client}")
    for _ in range(served):
        queue.next()
    queue.add("a", "new", "own")
    queue.add("new", "x", "other")
    order = [*iter(queue.next, None)]
    assert order.index("other") <= 3
    before = order[: order.index("own")]
    assert len({*before}) <= 4 + 4 + 5 + 1
    assert max(Counter(item for item in before if item[0] == "a").values(), default=0) <= 1


@given(numbers=st.permutations(range(8)))
def test_an_item_that_waits_no_longer_frees_its_place(numbers: list[int]) -> None:
    queue, keys = FairQueue[int](100), [("ab"[number % 2], "xy"[number // 4]) for number in range(8)]
    for number, key in enumerate(keys):
        assert queue.add(*key, number)
    for number in numbers:
        queue.remove(*keys[number], number)
    assert queue.next() is None
    assert all(queue.add("a", "x", number) is (number < 34) for number in range(40))


@pytest.mark.anyio
async def test_attempts_for_one_name_that_fill_their_half_of_the_queue_refuse_no_other_account_and_no_session(
    host: ImageHost,
) -> None:
    executors, turns, statuses = Executors(SETTINGS.rendering), threading.Semaphore(0), dict[str, int]()
    token = host.sessions.create(host.accounts.get("admin")).token

    async def flood(number: int) -> None:
        while len(statuses) < 3:
            with suppress(UnavailableError):
                keys = sign_in_keys("Admin", f"2001:db8:0:{number:x}::1")
                await executors.passwords.run(Standing.NEW, keys, turns.acquire, True, PATIENCE)
            await anyio.lowlevel.checkpoint()

    async with client_of(host, executors) as client, anyio.create_task_group() as tasks:

        async def post(path: str, body: dict[str, str], token: str = "") -> None:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            response = await client.post(path, json=body, headers=headers)
            statuses[body.get("username", path)] = response.status_code

        for number in range(PASSWORD_THREADS + MAX_WAITING_PASSWORDS // 2):
            tasks.start_soon(flood, number)
        await anyio.lowlevel.checkpoint()
        await post("/v1/session", {"username": "admin", "password": "wrong"})
        tasks.start_soon(post, "/v1/session", {"username": "other", "password": "wrong"})
        passwords = {"current_password": "wrong", "new_password": "another password"}
        tasks.start_soon(post, "/v1/account/password", passwords, token)
        with anyio.fail_after(PATIENCE):
            while len(statuses) < 3:
                turns.release()
                await anyio.sleep(0.001)
        turns.release(2 * MAX_WAITING_PASSWORDS)
    assert statuses == {"admin": 503, "other": 401, "/v1/account/password": 422}


@pytest.mark.anyio
async def test_known_clients_do_not_wait_for_new_ones_nor_these_for_those_that_failed() -> None:
    limiter, ended, order = FairThreadLimiter(1, 9), threading.Event(), list[Standing]()
    arrivals = (Standing.FAILED, Standing.NEW, Standing.KNOWN, Standing.FAILED, Standing.NEW, Standing.KNOWN)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(limiter.run, Standing.FAILED, ("", ""), ended.wait, PATIENCE)
        await anyio.lowlevel.checkpoint()
        for number, standing in enumerate(arrivals):
            tasks.start_soon(limiter.run, standing, ("name", f"{number}"), order.append, standing)
        await anyio.wait_all_tasks_blocked()
        ended.set()
    assert order == sorted(arrivals)


@pytest.mark.anyio
async def test_attempts_for_which_the_queue_has_no_place_are_not_counted(host: ImageHost) -> None:
    executors, ended = Executors(SETTINGS.rendering), threading.Event()
    executors.passwords = FairThreadLimiter(1, 0)
    body = {"username": "uncounted", "password": "wrong"}
    async with client_of(host, executors) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(executors.passwords.run, Standing.NEW, ("", ""), ended.wait, PATIENCE)
        await anyio.lowlevel.checkpoint()
        refused = [
            await client.post("/v1/session", json=body)
            for _ in range(SETTINGS.limits.sign_ins_per_minute + 1)
        ]
        ended.set()
    assert {response.status_code for response in refused} == {503}
    assert {"retry-after" in response.headers for response in refused} == {True}
    assert len({response.headers["x-ratelimit-remaining"] for response in refused}) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("password", ["right password", "wrong password"])
async def test_attempts_at_the_same_time_from_one_ip_address_wait_instead_of_being_refused(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No password is verified before all attempts have been judged once, so that they are in progress."""
    executors, names = Executors(SETTINGS.rendering), [f"pupil{number}" for number in range(5)]
    limits = LimitSettings(unauthenticated_per_minute=0, sign_ins_per_minute=2)
    verify, admit = executors.passwords.run, RateLimiter.admit_sign_in
    judged, all_judged = list[str](), threading.Event()

    def admit_sign_in(limiter: RateLimiter, name: str, ip_address: str) -> SignInAttempt:
        attempt = admit(limiter, name, ip_address)
        judged.append(name)
        if len(judged) == len(names):
            all_judged.set()
        return attempt

    async def run(standing: Standing, *args: Any) -> Any:
        await anyio.to_thread.run_sync(all_judged.wait, PATIENCE)
        return await verify(standing, *args)

    monkeypatch.setattr(RateLimiter, "admit_sign_in", admit_sign_in)
    monkeypatch.setattr(executors.passwords, "run", run)
    statuses = Counter[int]()
    with open_host(settings=attrs.evolve(SETTINGS, limits=limits), clock=FrozenClock()) as host:
        for name in names:
            host.accounts.create(name, password_hash=hash_quickly("right password"))
        async with client_of(host, executors) as client, anyio.create_task_group() as tasks:

            async def sign_in(name: str) -> None:
                body = {"username": name, "password": password}
                statuses[(await client.post("/v1/session", json=body)).status_code] += 1

            for name in names:
                tasks.start_soon(sign_in, name)
    assert statuses == ({201: 5} if password == "right password" else {401: 2, 429: 3})


@pytest.mark.anyio
async def test_a_client_is_known_by_a_session_and_fails_by_a_wrong_password_for_any_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executors, standings = Executors(SETTINGS.rendering), list[Standing]()
    verify = executors.passwords.run

    async def run(standing: Standing, *args: Any) -> Any:
        standings.append(standing)
        return await verify(standing, *args)

    monkeypatch.setattr(executors.passwords, "run", run)
    with open_host(settings=SETTINGS, clock=FrozenClock()) as host:
        for name in ("known", "other"):
            host.accounts.create(name, password_hash=hash_quickly("right password"))
        host.sessions.create(host.accounts.get("known"), ip_address="127.0.0.1")
        async with client_of(host, executors) as client:
            for name, password in (
                ("other", "wrong password"),
                ("missing", "right password"),
                ("known", "right password"),
                ("other", "right password"),
                ("other", "right password"),
            ):
                await client.post("/v1/session", json={"username": name, "password": password})
    failed = Standing.FAILED
    assert standings == [Standing.NEW, failed, Standing.KNOWN, failed, Standing.KNOWN]


@pytest.mark.anyio
async def test_the_queue_of_password_checks_is_limited_and_half_of_it_for_an_account_name() -> None:
    limiter, ended, results = Executors(SETTINGS.rendering).passwords, threading.Event(), Counter[bool]()

    async def attempt(number: int) -> None:
        try:
            results[await limiter.run(Standing.NEW, ("name", f"{number}"), ended.wait, PATIENCE)] += 1
        except UnavailableError:
            results[False] += 1

    async with anyio.create_task_group() as tasks:
        for number in range(PASSWORD_THREADS + MAX_WAITING_PASSWORDS):
            tasks.start_soon(attempt, number)
        await anyio.lowlevel.checkpoint()
        ended.set()
    half = MAX_WAITING_PASSWORDS // 2
    assert results == {True: PASSWORD_THREADS + half, False: half}


@pytest.mark.parametrize("has_turn", [False, True])
def test_a_cancelled_password_check_leaves_its_turn_to_the_next(has_turn: bool) -> None:
    async def check() -> None:
        limiter, ended = FairThreadLimiter(1, 9), threading.Event()

        async def run() -> None:
            await limiter.run(Standing.NEW, ("a", "x"), ended.wait, PATIENCE)
            if has_turn:
                # In the step of the event loop in which the turn begins, before the task of the next runs.
                waiting.cancel()

        first = asyncio.create_task(run())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(limiter.run(Standing.NEW, ("a", "y"), int))
        await asyncio.sleep(0)
        if not has_turn:
            waiting.cancel()
            await asyncio.sleep(0)
        ended.set()
        await first
        await asyncio.wait([waiting])
        async with asyncio.timeout(PATIENCE):
            assert await limiter.run(Standing.NEW, ("b", "z"), int) == 0

    asyncio.run(check())


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


@pytest.mark.anyio
async def test_a_delay_holds_one_of_a_limited_number_of_places_and_refuses_nothing() -> None:
    delayed, release, passed = list[float](), anyio.Event(), list[int]()

    async def sleep(seconds: float) -> None:
        delayed.append(seconds)
        await release.wait()

    queue = DelayQueue(3, sleep)

    async def attempt(number: int) -> None:
        await queue.wait(0.25 * number)
        passed.append(number)

    async with anyio.create_task_group() as tasks:
        for number in range(6):
            tasks.start_soon(attempt, number)
        while len(passed) < 3:
            await anyio.lowlevel.checkpoint()
        # The first has no delay, and the last two find no place.
        assert (sorted(passed), sorted(delayed)) == ([0, 4, 5], [0.25, 0.5, 0.75])
        release.set()
    assert sorted(passed) == list(range(6))
    await queue.wait(1.0)
    assert delayed[-1] == 1.0


@pytest.mark.anyio
async def test_a_call_of_a_fair_limiter_waits_no_longer_than_its_limit_and_leaves_the_queue() -> None:
    limiter, ended = FairThreadLimiter(1, 9, max_wait_seconds=0.01), threading.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(limiter.run, Standing.NEW, ("a", "1"), ended.wait)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(UnavailableError) as caught:
            await limiter.run(Standing.NEW, ("b", "1"), ended.wait)
        assert caught.value.retry_after > 0
        ended.set()
    assert await limiter.run(Standing.NEW, ("b", "1"), int) == 0
