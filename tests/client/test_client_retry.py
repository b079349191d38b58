"""Retries: conditions, delays and limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from imagehost_client._retry import (
    FailureKind,
    RetryPolicy,
    parse_retry_after,
    parse_timestamp,
    retry_delay,
    should_retry,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SHARES = st.floats(0, 1, exclude_max=True)
SECONDS = st.floats(0, 1e6)


@given(st.integers(1, 10_000), SHARES, SECONDS, SECONDS, st.integers(0, 20))
def test_a_delay_without_retry_after_is_between_0_and_the_exponential_bound(
    retry: int, share: float, base: float, cap: float, retries: int
) -> None:
    policy = RetryPolicy(max_retries=retries, base=base, cap=cap)
    seconds = retry_delay(policy, retry, retry_after=None, random=lambda: share)
    if retry > retries:
        assert seconds is None
    else:
        assert seconds is not None
        assert 0 <= seconds <= min(cap, base * 2 ** (retry - 1))


@given(SECONDS, SHARES)
@example(30.0, 0.5)
@example(60.0, 0.5)
def test_retry_after_is_honoured_up_to_a_minute(retry_after: float, share: float) -> None:
    seconds = retry_delay(RetryPolicy(), 1, retry_after=retry_after, random=lambda: share)
    if retry_after > 60:
        assert seconds is None
    else:
        assert seconds is not None
        assert retry_after <= seconds <= retry_after + RetryPolicy().base


@given(st.integers(0, 10**400))
def test_retry_after_in_seconds_is_read_however_large(seconds: int) -> None:
    retry_after = parse_retry_after({"retry-after": f" {seconds} "}, 503, NOW)
    assert retry_after is not None
    assert retry_after >= 0
    assert (retry_after > 60) == (seconds > 60)


@given(st.datetimes(datetime(1971, 1, 1), datetime(9998, 1, 1)))
def test_retry_after_as_a_date_is_a_delay_of_at_least_0(date: datetime) -> None:
    date = date.replace(microsecond=0, tzinfo=UTC)
    retry_after = parse_retry_after({"retry-after": format_datetime(date, usegmt=True)}, 503, NOW)
    assert retry_after == max(0.0, (date - NOW).total_seconds())


def test_a_date_without_an_offset_is_utc() -> None:
    assert parse_retry_after({"retry-after": "Sat, 21 Nov 2026 12:00:30 -0000"}, 503, NOW) == 30


@given(st.text(max_size=40), st.integers(100, 599))
def test_an_arbitrary_retry_after_is_none_or_not_negative(text: str, status: int) -> None:
    retry_after = parse_retry_after({"retry-after": text}, status, NOW)
    assert retry_after is None or retry_after >= 0


def test_a_429_without_retry_after_uses_the_rate_limit_reset() -> None:
    reset = str(int((NOW + timedelta(seconds=20)).timestamp()))
    assert parse_retry_after({"x-ratelimit-reset": reset}, 429, NOW) == 20
    assert parse_retry_after({"x-ratelimit-reset": reset}, 503, NOW) is None
    assert parse_retry_after({"x-ratelimit-reset": reset, "retry-after": "3"}, 429, NOW) == 3
    assert parse_retry_after({}, 429, NOW) is None


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "٣", "9" * 13, "999999999999"])
def test_an_invalid_timestamp_is_none(text: str) -> None:
    assert parse_timestamp(text) is None


@pytest.mark.parametrize(
    ("cause", "idempotent", "retry_after", "retried"),
    [
        (FailureKind.NOT_SENT, False, None, True),
        (FailureKind.NO_TLS, True, None, False),
        (FailureKind.UNKNOWN, False, None, False),
        (FailureKind.UNKNOWN, True, None, True),
        (429, False, None, True),
        (503, False, None, True),
        (502, False, None, False),
        (502, True, None, True),
        (504, False, None, False),
        (504, True, None, True),
        (409, True, None, False),
        (409, True, 1.0, True),
        (409, False, 1.0, False),
        (500, True, None, False),
        (400, True, None, False),
        (404, True, None, False),
        (200, True, None, False),
    ],
)
def test_a_request_is_retried_only_if_it_is_useful_and_safe(
    cause: FailureKind | int, idempotent: bool, retry_after: float | None, retried: bool
) -> None:
    assert should_retry(cause, idempotent=idempotent, retry_after=retry_after) is retried
