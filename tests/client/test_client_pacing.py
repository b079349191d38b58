"""Client-side pacing of the rate limit."""

from __future__ import annotations

import gc
import threading
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from imagehost_client import AsyncClient, Client, RateLimit
from imagehost_client._pacing import RateLimitPacer, shared_pacer
from imagehost_client._redact import Secret

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
COUNTS = st.integers(0, 20)


def pacer_with(limit: int, remaining: int, seconds: float = 30.0) -> RateLimitPacer:
    pacer = RateLimitPacer()
    pacer.update(RateLimit(limit, remaining, NOW + timedelta(seconds=seconds)), upload=False)
    return pacer


def acquire_times(pacer: RateLimitPacer, times: int, now: datetime = NOW) -> list[float]:
    return [pacer.acquire(now, upload=False, max_wait=60.0) for _ in range(times)]


@given(COUNTS, COUNTS)
def test_requests_beyond_the_remaining_ones_wait_for_the_end_of_the_window(remaining: int, more: int) -> None:
    assert acquire_times(pacer_with(60, remaining), remaining + more) == [0.0] * remaining + [30.0] * more


@given(st.lists(COUNTS, min_size=1))
def test_the_smallest_remaining_number_of_all_responses_is_kept(remaining: list[int]) -> None:
    pacer = pacer_with(60, remaining[0])
    for number in remaining[1:]:
        pacer.update(RateLimit(60, number, NOW + timedelta(seconds=30)), upload=False)
    assert acquire_times(pacer, min(remaining) + 1).count(0.0) == min(remaining)


def test_a_new_window_replaces_the_previous_one() -> None:
    pacer = pacer_with(60, 0)
    pacer.update(RateLimit(60, 5, NOW + timedelta(seconds=90)), upload=False)
    assert acquire_times(pacer, 1) == [0.0]
    pacer.update(RateLimit(1000, 0, NOW + timedelta(seconds=20)), upload=False)
    assert acquire_times(pacer, 1) == [20.0]


def test_after_its_end_a_window_starts_anew() -> None:
    later = NOW + timedelta(seconds=31)
    assert acquire_times(pacer_with(3, 0), 5, later) == [0.0, 0.0, 0.0, 60.0, 60.0]


def test_a_wait_longer_than_the_maximum_is_skipped() -> None:
    assert acquire_times(pacer_with(60, 0, 60.0), 1) == [60.0]
    assert acquire_times(pacer_with(60, 0, 61.0), 1) == [0.0]


def test_a_client_without_state_does_not_wait() -> None:
    assert acquire_times(RateLimitPacer(), 3) == [0.0] * 3
    pacer = pacer_with(60, 0)
    assert pacer.acquire(NOW, upload=True, max_wait=60.0) == 0.0


def test_each_remaining_request_is_used_by_one_thread() -> None:
    pacer, waits = pacer_with(600, 100), []

    def work() -> None:
        waits.extend(acquire_times(pacer, 50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(waits), waits.count(0.0)) == (200, 100)


def test_all_clients_of_a_host_and_a_token_share_their_count() -> None:
    url = "https://pacing.example.com/v1"
    client = Client(url, "token")
    pacer = client.environment.pacer
    assert client.with_options(pace=True).environment.pacer is pacer
    assert Client(url, "token").environment.pacer is pacer
    assert AsyncClient(f"{url}/", "token").environment.pacer is pacer
    others = [Client(url, "other"), Client(url), Client("https://h.example.com/v1", "token")]
    assert len({id(other.environment.pacer) for other in [client, *others]}) == 4


def test_the_count_of_a_host_ends_with_its_last_client() -> None:
    def update() -> None:
        pacer = shared_pacer("https://ends.example.com/v1", Secret("token"))
        pacer.update(RateLimit(60, 0, NOW + timedelta(seconds=30)), upload=False)
        assert acquire_times(pacer, 1) == [30.0]

    update()
    gc.collect()
    assert acquire_times(shared_pacer("https://ends.example.com/v1", Secret("token")), 1) == [0.0]


def test_the_shared_count_keeps_no_token() -> None:
    from imagehost_client import _pacing

    pacer = shared_pacer("https://h.example.com/v1", Secret("ihk_secret"))
    assert pacer in _pacing._shared.values()
    assert "ihk_secret" not in repr(dict(_pacing._shared))
