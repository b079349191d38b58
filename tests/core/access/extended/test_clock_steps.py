"""Rate limit windows and retries of webhooks while the clock of the host is set back and forth."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.postgres import PostgresServer

from imagehost_core import ImageHost, Settings
from imagehost_core.db.repositories.leases import LeasedDelivery
from imagehost_core.limits import Window
from imagehost_core.models import Account
from imagehost_core.settings import SQLITE, LimitSettings, RenderingSettings, WebhookSettings
from imagehost_core.testing import DEFAULT_NOW, FrozenClock
from imagehost_core.webhooks import JITTER, RETRY_SCHEDULE, Attempt

EACH_ENGINE = True

MINUTE, HOUR, DAY, YEAR = 60, 3_600, 86_400, 365 * 86_400
LIMITS = {MINUTE: 5, HOUR: 12, DAY: 20}
STEPS = st.sampled_from([-YEAR, -DAY, -HOUR, -MINUTE, 0, MINUTE, HOUR, DAY, YEAR])
REQUESTS = st.integers(0, 7)
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest, clock: FrozenClock, engine: str) -> Iterator[ImageHost]:
    limits = LimitSettings(
        api_per_minute=LIMITS[MINUTE],
        api_per_hour=LIMITS[HOUR],
        api_per_day=LIMITS[DAY],
        sign_ins_per_minute=3,
    )
    with ExitStack() as stack:
        database = SQLITE
        if engine != SQLITE:
            server: PostgresServer = request.getfixturevalue("postgres_server")
            database = stack.enter_context(server.empty_database())
        options = Settings(
            base_url="https://img.example/v1",
            database=database,
            limits=limits,
            rendering=RenderingSettings(processes=1),
            webhooks=WebhookSettings(allow_loopback=True),
        )
        yield stack.enter_context(ImageHost.open(":memory:", settings=options, clock=clock))


def new_account(host: ImageHost, clock: FrozenClock) -> Account:
    clock.now = DEFAULT_NOW
    return host.accounts.create(f"user{next(_numbers)}")


def send(host: ImageHost, account: Account, requests: int) -> int:
    """Send requests; return how many are admitted."""
    return sum(host.rate_limiter.admit(account).admitted for _ in range(requests))


def set_clock(clock: FrozenClock, right: datetime, offset: int) -> None:
    clock.now = right + timedelta(seconds=offset)


def test_an_exhausted_minute_stays_exhausted_while_the_clock_is_an_hour_wrong_and_right_again(
    host: ImageHost, clock: FrozenClock
) -> None:
    account = new_account(host, clock)
    admitted = []
    for offset in (0, -HOUR, HOUR, 0, -HOUR, HOUR, 0):
        set_clock(clock, DEFAULT_NOW, offset)
        admitted.append(send(host, account, 9))
    assert admitted == [5, 0, 5, 0, 0, 0, 0]
    assert host.rate_limiter.windows(account)[0].remaining == 0
    clock.advance(minutes=1)
    assert send(host, account, 9) == 5


def test_attempts_with_the_right_password_are_refunded_down_to_0_also_below_a_limit_that_was_lowered(
    host: ImageHost, clock: FrozenClock
) -> None:
    clock.advance(minutes=1)
    store, key = host._context.rate_limits, f"refund/{next(_numbers)}"
    high, low = (Window("sign_ins_per_minute", MINUTE, limit) for limit in (9, 3))
    for _ in range(8):
        store.admit(key, (high,))
    counts = []
    for _ in range(10):
        store.refund(key, (low,))
        counts.append(store.peek(key, (low,))[low.name])
    assert counts == [7, 6, 5, 4, 3, 2, 1, 0, 0, 0]
    store.refund(f"{key}/unknown", (low,))
    store.admit(key, (low,))
    clock.advance(minutes=1)
    store.refund(key, (low,))
    assert store.peek(key, (low,)) == {low.name: 0}


def test_requests_beside_refunds_leave_the_exact_count(host: ImageHost, clock: FrozenClock) -> None:
    clock.advance(minutes=1)
    store, key = host._context.rate_limits, f"refund/{next(_numbers)}"
    policy = (Window("sign_ins_per_minute", MINUTE, 1_000),)

    def sign_in(_: int) -> None:
        store.admit(key, policy)
        store.refund(key, policy)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(sign_in, range(200)))
    assert store.peek(key, policy) == {"sign_ins_per_minute": 0}


def remaining(host: ImageHost, account: Account) -> dict[int, int]:
    """Return the requests left in the window of each length."""
    windows = host.rate_limiter.windows(account)[:3]
    return {seconds: window.remaining for seconds, window in zip(LIMITS, windows, strict=True)}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([-HOUR, 0, HOUR]), REQUESTS), max_size=20))
def test_no_window_admits_more_than_its_limit_however_the_clock_is_set_among_three_times(
    host: ImageHost, clock: FrozenClock, steps: list[tuple[int, int]]
) -> None:
    account, admitted = new_account(host, clock), Counter[tuple[int, int]]()
    for offset, count in steps:
        set_clock(clock, DEFAULT_NOW, offset)
        expected = min(count, *remaining(host, account).values())
        assert send(host, account, count) == expected
        for window in LIMITS:
            admitted[window, int(clock.now.timestamp()) // window] += expected
    assert all(count <= LIMITS[window] for (window, _), count in admitted.items())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(STEPS, REQUESTS), max_size=30))
def test_after_a_step_back_a_window_has_what_was_left_in_it_or_in_the_window_before_the_step(
    host: ImageHost, clock: FrozenClock, steps: list[tuple[int, int]]
) -> None:
    account = new_account(host, clock)
    left, last, seen = dict(LIMITS), dict(LIMITS), dict[tuple[int, int], int]()
    for step, count in steps:
        clock.now += timedelta(seconds=step)
        now = int(clock.now.timestamp())
        for window, requests in remaining(host, account).items():
            possible = {left[window], last[window], seen.get((window, now // window), left[window])}
            assert requests in possible or (step >= 0 and requests == LIMITS[window])
        send(host, account, count or 1)
        left = remaining(host, account)
        # A window that admitted nothing, because of another one, need not be remembered.
        last |= {window: requests for window, requests in left.items() if requests < LIMITS[window]}
        seen |= {(window, now // window): requests for window, requests in left.items()}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(STEPS, REQUESTS), max_size=20), REQUESTS)
def test_no_account_is_locked_out_of_a_window_that_begins_after_the_clock_is_right_again(
    host: ImageHost, clock: FrozenClock, steps: list[tuple[int, int]], requests: int
) -> None:
    account, used = new_account(host, clock), Counter[tuple[int, int]]()
    for offset, count in (*steps, (0, requests + 1)):
        set_clock(clock, DEFAULT_NOW, offset)
        send(host, account, count)
        now = int(clock.now.timestamp())
        used |= {(each, now // each): LIMITS[each] - left for each, left in remaining(host, account).items()}
    for window in LIMITS:
        set_clock(clock, DEFAULT_NOW, window)
        start = int(clock.now.timestamp()) // window
        assert remaining(host, account)[window] >= LIMITS[window] - used[window, start]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([-DAY, -HOUR, 0, HOUR, DAY, YEAR]), max_size=8))
def test_no_retry_waits_longer_than_its_schedule_after_the_clock_is_right_again(
    host: ImageHost, clock: FrozenClock, offsets: list[int]
) -> None:
    """Each attempt begins before a step of the clock, and is reported after it."""
    account = new_account(host, clock)
    webhook = host.webhooks.create(owner=account, url="http://127.0.0.1:9/")
    attempts: list[tuple[LeasedDelivery, Attempt]] = []
    for offset in (*offsets, 0):
        before = clock.now
        set_clock(clock, DEFAULT_NOW, offset)
        if clock.now < before:
            host.webhooks.recover_from_clock_step()
        host.webhooks.report(attempts)
        host.webhooks.test(webhook, owner=account)
        now = clock.now
        attempts = [
            (leased, Attempt(at=now, status=500, duration_ms=1, response=""))
            for leased in host.webhooks.lease(100)
        ]
    host.webhooks.report(attempts)
    for delivery in host.webhooks.deliveries(webhook, owner=account):
        wait = RETRY_SCHEDULE[delivery.attempts] - RETRY_SCHEDULE[max(0, delivery.attempts - 1)]
        assert delivery.next_attempt_at is not None
        assert delivery.next_attempt_at <= clock.now + wait * (1 + JITTER)
    host.webhooks.delete(webhook, owner=account)
