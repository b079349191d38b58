"""Rate limits, counted across processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.open_host import open_host

from imagehost_core import ImageHost, InsufficientStorageError, Settings
from imagehost_core.coordination.counter_table import COUNTERS, INITIAL_CAPACITY, CounterTable
from imagehost_core.coordination.locks import LockManager
from imagehost_core.coordination.rate_limits import RateLimitStore, _counter_id
from imagehost_core.limits import MAX_SIGN_IN_DELAY, Window
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.testing import DEFAULT_NOW, FrozenClock, make_image

POLICY = (Window("minute", 60, 3), Window("hour", 3_600, 5))


def test_a_refused_request_does_not_count(host: ImageHost, clock: FrozenClock) -> None:
    account = host.accounts.get("admin")
    admitted = [host.rate_limiter.admit(account).admitted for _ in range(20)]
    assert admitted == [True] * 5 + [False] * 15
    assert {window.name: window.remaining for window in host.rate_limiter.windows(account)} == {
        "api_per_minute": 0,
        "api_per_hour": 15,
        "api_per_day": 9_995,
        "uploads_per_minute": 2,
        "bulk_ids_per_minute": 1_000,
    }
    clock.advance(minutes=1)
    assert host.rate_limiter.admit(account).admitted


def test_an_upload_counts_in_all_its_windows_or_in_none(host: ImageHost) -> None:
    account = host.accounts.get("admin")
    assert [host.rate_limiter.admit(account, upload=True).admitted for _ in range(3)] == [True, True, False]
    assert host.rate_limiter.admit(account).remaining == 2


def test_the_ids_of_a_bulk_request_count_in_a_window_of_their_own(
    host: ImageHost, clock: FrozenClock
) -> None:
    account = host.accounts.update("admin", bulk_ids_per_minute=150)
    assert [host.rate_limiter.admit_bulk(account, ids).admitted for ids in (100, 100, 50, 1)] == [
        True,
        False,
        True,
        False,
    ]
    windows = {window.name: window.remaining for window in host.rate_limiter.windows(account)}
    assert (windows["bulk_ids_per_minute"], windows["api_per_minute"]) == (0, 5)
    clock.advance(minutes=1)
    assert host.rate_limiter.admit_bulk(account, 100).remaining == 50
    unlimited = host.accounts.update("admin", bulk_ids_per_minute=0)
    assert all(host.rate_limiter.admit_bulk(unlimited, 100).admitted for _ in range(20))


def test_accounts_and_ip_addresses_have_separate_limits(host: ImageHost) -> None:
    one, other = host.accounts.get("admin"), host.accounts.create("ann")
    for _ in range(5):
        assert host.rate_limiter.admit(one).admitted
    assert not host.rate_limiter.admit(one).admitted
    assert host.rate_limiter.admit(other).admitted
    assert host.rate_limiter.admit_unauthenticated("192.0.2.1").admitted


def test_an_account_can_have_its_own_limits(host: ImageHost) -> None:
    account = host.accounts.update("admin", api_per_minute=1, api_per_hour=0)
    assert [host.rate_limiter.admit(account).admitted for _ in range(2)] == [True, False]
    assert host.rate_limiter.limits_of(account).api_per_hour == 0
    assert host.rate_limiter.limits_of(account).api_per_day == 10_000


def test_an_accounts_limit_of_0_is_unlimited_though_the_host_has_one(host: ImageHost) -> None:
    account = host.accounts.update("admin", api_per_minute=0, uploads_per_minute=0)
    assert all(host.rate_limiter.admit(account, upload=True).admitted for _ in range(20))
    assert {window.name: window.remaining for window in host.rate_limiter.windows(account)} == {
        "api_per_hour": 0,
        "api_per_day": 9_980,
        "bulk_ids_per_minute": 1_000,
    }
    assert not host.rate_limiter.admit(account).admitted


def test_an_accounts_quota_of_0_is_unlimited_though_the_host_has_one() -> None:
    limits = LimitSettings(quota_bytes=1)
    with open_host(settings=Settings(limits=limits, rendering=RenderingSettings(processes=1))) as host:
        with pytest.raises(InsufficientStorageError):
            host.upload(make_image(4, 3), owner="admin")
        host.accounts.update("admin", quota_bytes=0)
        assert host.upload(make_image(4, 3), owner="admin").size > 1


def test_signing_in_is_refused_by_ip_address_and_delayed_by_account(host: ImageHost) -> None:
    delays = [host.rate_limiter.admit_sign_in("ann", f"192.0.2.{n}").delay_seconds for n in range(10)]
    assert delays == [0.0] * 3 + [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]
    attempts = [host.rate_limiter.admit_sign_in(f"user{n}", "198.51.100.1") for n in range(4)]
    assert [attempt.decision.admitted for attempt in attempts] == [True] * 3 + [False]
    assert {attempt.delay_seconds for attempt in attempts} == {0.0}
    assert [attempt.is_first for attempt in attempts[:3]] == [True, False, False]


@pytest.fixture(scope="module")
def host_and_clock() -> Iterator[tuple[ImageHost, FrozenClock]]:
    """A host with 3 sign-in attempts a minute, and its clock."""
    clock, limits = FrozenClock(), LimitSettings(sign_ins_per_minute=3)
    options = Settings(limits=limits, rendering=RenderingSettings(processes=1))
    with open_host(settings=options, clock=clock) as host:
        yield host, clock


ADDRESSES = st.one_of(
    st.integers(1, 200).map("192.0.2.{}".format), st.integers(0, 9).map("2001:db8::{}:0:0:0:1".format)
)
SIGN_INS = st.lists(
    st.tuples(st.sampled_from(["ann", "ANN", "Ann", "bob", "x" * 70]), ADDRESSES), max_size=60
)


@given(SIGN_INS, st.integers(0, 90))
def test_an_attempt_from_an_ip_address_that_sent_none_is_admitted_whatever_others_sent(
    host_and_clock: tuple[ImageHost, FrozenClock], attempts: list[tuple[str, str]], pause: int
) -> None:
    host, clock = host_and_clock
    clock.advance(minutes=2)
    for name, address in attempts:
        host.rate_limiter.admit_sign_in(name, address)
    clock.advance(seconds=pause)
    for address in ("203.0.113.1", "2001:db8:1::1"):
        attempt = host.rate_limiter.admit_sign_in("ann", address)
        assert attempt.decision.admitted
        assert attempt.delay_seconds <= MAX_SIGN_IN_DELAY


@given(st.lists(st.integers(0, 90), min_size=1, max_size=60))
def test_no_window_ever_admits_more_than_its_limit(tmp_path_factory: object, gaps: list[int]) -> None:
    assert hasattr(tmp_path_factory, "mktemp")
    folder: Path = tmp_path_factory.mktemp("counters")
    clock = FrozenClock()
    counters = RateLimitStore(folder / "rate_limits", LockManager(folder / "locks"), clock)
    admitted: list[int] = []
    for gap in gaps:
        clock.now += timedelta(seconds=gap)
        if counters.admit("bucket", POLICY).admitted:
            admitted.append(int(clock().timestamp()))
        else:
            now = int(clock().timestamp())
            assert any(
                sum(second // window.seconds == now // window.seconds for second in admitted) == window.limit
                for window in POLICY
            ), "a request was refused though every window had capacity"
    for window in POLICY:
        periods = [second // window.seconds for second in admitted]
        assert all(periods.count(period) <= window.limit for period in periods)
    counters.close()


def test_threads_together_are_admitted_exactly_the_limit(tmp_path: Path) -> None:
    counters = RateLimitStore(tmp_path / "rate_limits", LockManager(tmp_path / "locks"), FrozenClock())
    policy = (Window("minute", 60, 37),)
    with ThreadPoolExecutor(8) as threads:
        decisions = list(threads.map(lambda _: counters.admit("bucket", policy).admitted, range(200)))
    assert sum(decisions) == 37
    counters.close()


_BURST = """
import json, sys
from pathlib import Path
from imagehost_core.coordination.rate_limits import RateLimitStore
from imagehost_core._util.clock import utc_now
from imagehost_core.limits import Window
from imagehost_core.limits import MAX_SIGN_IN_DELAY
from imagehost_core.coordination.locks import LockManager

folder = Path(sys.argv[1])
counters = RateLimitStore(folder / "rate_limits", LockManager(folder / "locks"), utc_now)
policy = (Window("second", 1, 25),)
sys.stdin.readline()
print(json.dumps([d.reset for d in (counters.admit("bucket", policy) for _ in range(1500)) if d.admitted]))
"""


def test_bursts_of_four_processes_across_window_boundaries_are_admitted_exactly_the_limit(
    tmp_path: Path,
) -> None:
    """Windows of a second in place of a minute: boundaries come sixty times as often."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _BURST, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    admitted = [reset for process in processes for reset in json.loads(process.communicate()[0])]
    windows = sorted(set(admitted))
    counts = [admitted.count(window) for window in windows]
    assert max(counts) <= 25
    # In every window but the first and last the four sent far more requests than the limit.
    assert all(count == 25 for count in counts[1:-1])


def test_counts_survive_the_process(tmp_path: Path) -> None:
    for expected in (2, 1):
        counters = RateLimitStore(tmp_path / "rate_limits", LockManager(tmp_path / "locks"), FrozenClock())
        assert counters.admit("bucket", POLICY).remaining == expected
        counters.close()


def test_policies_with_a_window_in_common_count_beside_each_other(tmp_path: Path) -> None:
    clock = FrozenClock()
    counters = RateLimitStore(tmp_path / "rate_limits", LockManager(tmp_path / "locks"), clock)
    uploads = (Window("uploads", 60, 9), *POLICY)
    for policy in (POLICY, uploads, POLICY, uploads):
        counters.admit("bucket", policy)
        clock.advance(minutes=1)
    clock.advance(minutes=-1)
    assert counters.peek("bucket", uploads) == {"minute": 1, "hour": 4, "uploads": 1}
    clock.advance(minutes=-2)
    assert counters.peek("bucket", uploads) == {"minute": 1, "hour": 4, "uploads": 1}
    counters.close()


def test_unused_keys_are_removed(tmp_path: Path) -> None:
    clock = FrozenClock()
    counters = RateLimitStore(tmp_path / "rate_limits", LockManager(tmp_path / "locks"), clock)
    for number in range(INITIAL_CAPACITY // 2):
        counters.admit(f"address:{number}", POLICY)
    clock.advance(days=2)
    counters.admit("address:new", POLICY)
    with closing(CounterTable(tmp_path / "rate_limits")) as table:
        assert len(table) == 1
    assert counters.peek("address:new", POLICY) == {"minute": 1, "hour": 1}
    assert clock() > DEFAULT_NOW
    counters.close()


def test_counting_without_waiting_gives_up_while_another_process_counts(tmp_path: Path) -> None:
    locks = LockManager(tmp_path / "locks")
    counters = RateLimitStore(tmp_path / "rate_limits", locks, FrozenClock())
    other = locks.named_lock("rate-limits")
    with other:
        assert counters.try_admit("bucket", POLICY) is None
    decisions = [counters.try_admit("bucket", POLICY) for _ in range(4)]
    assert [decision and decision.admitted for decision in decisions] == [True, True, True, False]
    other.close()
    counters.close()


def test_counting_without_waiting_gives_up_where_a_new_key_makes_the_table_grow(tmp_path: Path) -> None:
    counters = RateLimitStore(tmp_path / "rate_limits", LockManager(tmp_path / "locks"), FrozenClock())
    for number in range(INITIAL_CAPACITY // 2):
        assert counters.try_admit(f"address:{number}", POLICY) is not None
    assert counters.try_admit("address:new", POLICY) is None
    assert counters.try_admit("address:0", POLICY) is not None
    assert counters.admit("address:new", POLICY).remaining == 2
    assert counters.try_admit("address:newer", POLICY) is not None
    counters.close()


def test_the_windows_of_a_key_have_different_counters() -> None:
    limits = LimitSettings()
    windows = (*limits.uploads, *limits.bulk_ids, *limits.sign_ins, *limits.unauthenticated)
    assert len({_counter_id(window.name) for window in windows}) == len(windows) <= COUNTERS


def test_an_attempt_refused_by_ip_address_does_not_count_for_the_account(host: ImageHost) -> None:
    for number in range(3):
        assert host.rate_limiter.admit_sign_in(f"user{number}", "192.0.2.7").decision.admitted
    for _ in range(5):
        assert not host.rate_limiter.admit_sign_in("ann", "192.0.2.7").decision.admitted
    assert host.rate_limiter.admit_sign_in("ann", "192.0.2.8").delay_seconds == 0


def test_sign_ins_without_a_limit_are_not_delayed() -> None:
    limits = LimitSettings(sign_ins_per_minute=0)
    with open_host(settings=Settings(limits=limits, rendering=RenderingSettings(processes=1))) as host:
        attempts = [host.rate_limiter.admit_sign_in("ann", "192.0.2.7") for _ in range(30)]
    assert all(attempt.decision.admitted and not attempt.delay_seconds for attempt in attempts)
