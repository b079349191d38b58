"""Rate limit windows, file size, file count and quota."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import (
    BadRequestError,
    InsufficientStorageError,
    PayloadTooLargeError,
    RateLimitError,
)
from imagehost_core.limits import (
    DAY,
    HOUR,
    MAX_FILE_BYTES,
    MAX_FILES_PER_REQUEST,
    MINUTE,
    Decision,
    RateLimitPolicy,
    Window,
    decide,
    may_take,
    require_file_count,
    require_file_size,
    require_quota,
)

NOW = datetime(2026, 11, 21, 7, 26, 3, 120_000, UTC)
PER_MINUTE = Window("api_per_minute", MINUTE, 60)
PER_HOUR = Window("api_per_hour", HOUR, 1_000)
PER_DAY = Window("api_per_day", DAY, 10_000)
API: RateLimitPolicy = (PER_MINUTE, PER_HOUR, PER_DAY)

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(datetime(1969, 12, 1), datetime(2200, 1, 1), timezones=ZONES)
LIMITS = st.integers(0, 6)


def policy(*limits: int) -> RateLimitPolicy:
    """Return windows of a minute, an hour, a day and another minute, with the given limits."""
    periods = (("minute", MINUTE), ("hour", HOUR), ("day", DAY), ("uploads", MINUTE))
    return tuple(
        Window(name, seconds, limit) for (name, seconds), limit in zip(periods, limits, strict=False)
    )


POLICIES = st.lists(LIMITS, max_size=4).map(lambda limits: policy(*limits))


@given(TIMES)
def test_windows_are_aligned_to_utc(time: datetime) -> None:
    minute = time.astimezone(UTC).replace(second=0, microsecond=0)
    hour, day = minute.replace(minute=0), minute.replace(hour=0, minute=0)
    starts = [window.start(time) for window in API]
    assert starts == [int(start.timestamp()) for start in (minute, hour, day)]


@given(TIMES, st.sampled_from(API))
def test_a_window_contains_the_time_and_ends_where_the_next_begins(time: datetime, window: Window) -> None:
    start, reset = window.start(time), window.reset(time)
    assert reset - start == window.seconds
    assert start <= time.timestamp() < reset
    assert window.start(datetime.fromtimestamp(reset, UTC)) == reset
    assert window.start(datetime.fromtimestamp(reset, UTC) - timedelta(microseconds=1)) == start


def test_a_naive_datetime_raises_type_error() -> None:
    with pytest.raises(TypeError):
        PER_MINUTE.start(datetime(2026, 1, 1))


@given(POLICIES, st.lists(st.integers(0, 2 * HOUR), max_size=60))
def test_a_window_admits_exactly_its_limit(windows: RateLimitPolicy, seconds: list[int]) -> None:
    hits: Counter[tuple[str, int]] = Counter()
    for second in sorted(seconds):
        now = datetime(2026, 11, 21, 22, 59, 30, tzinfo=UTC) + timedelta(seconds=second)
        current = {window.name: hits[window.name, window.start(now)] for window in windows}
        decision = decide(windows, current, now)
        exhausted = [window for window in windows if window.limit and current[window.name] >= window.limit]
        assert decision.admitted is not bool(exhausted)
        if decision.admitted:
            hits.update((window.name, window.start(now)) for window in windows)
        else:
            assert decision.window in exhausted
    limits = {window.name: window.limit for window in windows}
    assert all(count <= limits[name] for (name, _), count in hits.items() if limits[name])


@given(POLICIES.filter(lambda windows: any(window.limit for window in windows)), st.data())
def test_the_decision_describes_the_window_that_is_exhausted_first(
    windows: RateLimitPolicy, data: st.DataObject
) -> None:
    hits = {window.name: data.draw(st.integers(0, 7), window.name) for window in windows}
    decision = decide(windows, hits, NOW)
    assert decision.window is not None
    assert (decision.limit, decision.reset) == (decision.window.limit, decision.window.reset(NOW))
    if not decision.admitted:
        assert decision.remaining == 0
        return
    for extra in range(1, decision.remaining + 1):
        assert decide(windows, {name: hit + extra for name, hit in hits.items()}, NOW).admitted
    rejected = decide(windows, {name: hit + decision.remaining + 1 for name, hit in hits.items()}, NOW)
    assert not rejected.admitted
    assert rejected.window == decision.window


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_remaining_counts_the_requests_left_after_this_one(limit: int, hits: int) -> None:
    window = Window("api", MINUTE, limit)
    decision = decide((window,), {"api": hits}, NOW)
    assert decision.admitted is (hits < limit)
    assert decision.remaining == max(0, limit - hits - 1)


@pytest.mark.parametrize(("hits", "admitted", "remaining"), [(0, True, 59), (58, True, 1), (59, True, 0)])
def test_the_60th_request_of_a_minute_is_the_last_admitted(hits: int, admitted: bool, remaining: int) -> None:
    decision = decide(API, {"api_per_minute": hits}, NOW)
    assert (decision.admitted, decision.remaining, decision.window) == (admitted, remaining, PER_MINUTE)
    assert not decide(API, {"api_per_minute": 60}, NOW).admitted


def test_the_window_with_the_fewest_requests_left_is_described() -> None:
    assert decide(API, {"api_per_hour": 990}, NOW).window == PER_HOUR
    assert decide(API, {"api_per_day": 9_999}, NOW).window == PER_DAY
    assert decide((*API, Window("uploads", MINUTE, 10)), {}, NOW).limit == 10


def test_of_exhausted_windows_the_one_that_ends_last_is_described() -> None:
    exhausted = {"api_per_minute": 60, "api_per_hour": 1_000}
    for windows in (API, API[::-1]):
        assert decide(windows, exhausted, NOW).window == PER_HOUR
        assert decide(windows, {**exhausted, "api_per_minute": 75}, NOW).window == PER_HOUR


def test_a_rejection_says_when_the_window_ends() -> None:
    decision = decide(API, {"api_per_minute": 60}, NOW)
    with pytest.raises(RateLimitError) as caught:
        decision.raise_if_refused(NOW)
    assert caught.value.retry_after == 57
    assert caught.value.details == (
        "expected at most 60 requests for api_per_minute but received one more; "
        "an operator raises the limit with the setting IMAGEHOST_LIMITS_API_PER_MINUTE"
    )
    assert decision.reset == datetime(2026, 11, 21, 7, 27, tzinfo=UTC).timestamp()


@given(TIMES, st.sampled_from(API))
def test_after_retry_after_seconds_a_new_window_has_begun(time: datetime, window: Window) -> None:
    with pytest.raises(RateLimitError) as caught:
        decide((window,), {window.name: window.limit}, time).raise_if_refused(time)
    retry_after = caught.value.retry_after
    assert 1 <= retry_after <= window.seconds
    assert window.start(time + timedelta(seconds=retry_after)) > window.start(time)


def test_retry_after_is_at_least_one_second() -> None:
    with pytest.raises(RateLimitError) as caught:
        decide(API, {"api_per_minute": 60}, NOW).raise_if_refused(NOW + timedelta(minutes=5))
    assert caught.value.retry_after == 1


def test_an_admitted_request_raises_nothing() -> None:
    decide(API, {}, NOW).raise_if_refused(NOW)


@pytest.mark.parametrize("windows", [(), policy(0), policy(0, 0, 0, 0)])
def test_without_limits_every_request_is_admitted_and_no_window_described(windows: RateLimitPolicy) -> None:
    decision = decide(windows, {"minute": 10**9}, NOW)
    assert decision == Decision(admitted=True, window=None, limit=0, remaining=0, reset=0)
    decision.raise_if_refused(NOW)


def test_an_unlimited_window_is_ignored() -> None:
    assert decide(policy(0, 5), {"minute": 10**9}, NOW).window == Window("hour", HOUR, 5)


@pytest.mark.parametrize("values", [(0, 1), (-1, 1), (60, -1)])
def test_a_window_with_invalid_values_raises_value_error(values: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=">="):
        Window("api", *values)


def test_a_file_of_exactly_50_mib_is_accepted() -> None:
    assert MAX_FILE_BYTES == 52_428_800
    require_file_size("cat.jpg", 52_428_800)
    require_file_size("cat.jpg", 0)


def test_a_larger_file_is_rejected_with_limit_and_size_in_the_details() -> None:
    with pytest.raises(PayloadTooLargeError) as caught:
        require_file_size("cat.jpg", 52_428_801)
    assert caught.value.details == "expected at most 52428800 bytes for cat.jpg but received 52428801 bytes"


@given(st.integers(0, 100), st.integers(0, 100))
def test_a_file_is_accepted_if_its_size_is_at_most_the_limit(size: int, limit: int) -> None:
    if size <= limit:
        require_file_size("a", size, limit)
    else:
        with pytest.raises(PayloadTooLargeError):
            require_file_size("a", size, limit)


@pytest.mark.parametrize("count", [1, 2, 20])
def test_a_request_may_have_1_to_20_files(count: int) -> None:
    assert MAX_FILES_PER_REQUEST == 20
    require_file_count(count)


@pytest.mark.parametrize("count", [0, 21, 1_000])
def test_a_request_with_another_number_of_files_is_rejected(count: int) -> None:
    with pytest.raises(BadRequestError) as caught:
        require_file_count(count)
    assert caught.value.details == f"expected 1 to 20 files for the form but received {count}"


@given(used=st.integers(0, 1_000), more=st.integers(0, 1_000), quota=st.integers(1, 1_500))
def test_a_quota_can_be_used_up_to_the_last_byte_only(used: int, more: int, quota: int) -> None:
    if used + more <= quota:
        require_quota(used, more, quota)
    else:
        with pytest.raises(InsufficientStorageError) as caught:
            require_quota(used, more, quota)
        expected = f"expected at most {max(0, quota - used)} bytes more"
        assert caught.value.details == f"{expected} for the account's quota but received {more} bytes"


def test_a_quota_of_0_is_unlimited() -> None:
    require_quota(10**18, 10**18, 0)


@given(st.integers(1, 2_000), st.integers(0, 2_500), st.integers(1, 2_500))
def test_a_request_of_several_counts_is_admitted_as_a_whole_or_not_at_all(
    limit: int, hits: int, cost: int
) -> None:
    decision = decide((Window("ids", MINUTE, limit, "ids"),), {"ids": hits}, NOW, cost)
    assert decision.admitted is (hits + cost <= limit)
    assert decision.remaining == max(0, limit - hits) - (cost if decision.admitted else 0)


def test_the_details_of_a_refused_request_of_several_counts_name_how_many_were_left() -> None:
    decision = decide((Window("ids_per_minute", MINUTE, 1_000, "ids"),), {"ids_per_minute": 950}, NOW, 100)
    with pytest.raises(RateLimitError, match="1000 ids for ids_per_minute but received 100 more when 50"):
        decision.raise_if_refused(NOW)


@given(st.integers(1, 60), st.integers(1, 4), st.lists(st.integers(0, 5), max_size=200))
def test_nobody_holds_more_than_others_leave_free_so_that_the_next_one_finds_a_place(
    places: int, share: int, takers: list[int]
) -> None:
    held = Counter[int]()
    for taker in takers:
        free = places - held.total()
        if may_take(held[taker], free, share):
            held[taker] += 1
            assert share * (held[taker] - 1) < free
    if len(held) < places / share:
        assert may_take(0, places - held.total(), share)
