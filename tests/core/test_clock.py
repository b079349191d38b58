"""Timestamps are converted to integers and text without loss, and sort alike in each form."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core._util.clock import SynchronizedClock, from_micros, to_micros, to_rfc3339, utc_now

ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMESTAMPS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONES)


def test_now_is_in_utc() -> None:
    assert utc_now().tzinfo is UTC
    assert abs(utc_now() - datetime.now(UTC)) < timedelta(hours=1)


@given(TIMESTAMPS)
def test_a_timestamp_survives_as_microseconds(timestamp: datetime) -> None:
    back = from_micros(to_micros(timestamp))
    assert back == timestamp
    assert back.tzinfo is UTC


@given(st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999))
def test_microseconds_survive_as_a_timestamp(micros: int) -> None:
    assert to_micros(from_micros(micros)) == micros


@given(TIMESTAMPS)
def test_a_timestamp_is_written_in_rfc_3339_in_utc_with_z_and_microseconds(timestamp: datetime) -> None:
    text = to_rfc3339(timestamp)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", text, re.ASCII)
    assert datetime.fromisoformat(text) == timestamp


@given(TIMESTAMPS, TIMESTAMPS)
def test_text_order_is_time_order(one: datetime, other: datetime) -> None:
    assert (to_rfc3339(one) < to_rfc3339(other)) is (one < other)


def test_a_whole_second_is_written_with_its_zeros() -> None:
    assert to_rfc3339(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)) == "2026-01-02T03:04:05.000000Z"


def test_another_zone_is_converted() -> None:
    summer = timezone(timedelta(hours=2))
    assert to_rfc3339(datetime(2026, 7, 1, 1, 0, tzinfo=summer)) == "2026-06-30T23:00:00.000000Z"


def test_the_epoch_is_zero_and_the_microsecond_before_it_is_minus_one() -> None:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert to_micros(epoch) == 0
    assert to_micros(epoch - timedelta(microseconds=1)) == -1


def test_a_timestamp_without_a_time_zone_is_rejected() -> None:
    with pytest.raises(TypeError):
        to_micros(datetime(2026, 1, 1))
    with pytest.raises(TypeError):
        to_rfc3339(datetime(2026, 1, 1))


class Server:
    """A server with a clock that is not the host's, and a slow network to it."""

    def __init__(self, offset: timedelta) -> None:
        self.offset, self.elapsed, self.delay = offset, 0.0, 0.0

    def seconds(self) -> float:
        return self.elapsed

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + self.offset + timedelta(seconds=self.elapsed)

    def read(self) -> datetime:
        """Read the clock in the middle of a request."""
        self.elapsed += self.delay / 2
        now = self.now()
        self.elapsed += self.delay / 2
        return now


@given(st.timedeltas(-timedelta(days=1), timedelta(days=1)), st.floats(0, 10), st.floats(0, 10**6))
def test_a_synchronized_clock_goes_by_that_of_the_server(
    offset: timedelta, delay: float, seconds: float
) -> None:
    server = Server(offset)
    server.delay = delay
    clock = SynchronizedClock(server.read, server.seconds)
    server.elapsed += seconds
    assert abs(clock() - server.now()) < timedelta(milliseconds=1)


def test_a_synchronized_clock_follows_the_server_but_no_slow_reading() -> None:
    server = Server(timedelta())
    clock = SynchronizedClock(server.read, server.seconds)
    server.offset = timedelta(hours=1)
    server.delay = 3
    clock.synchronize(server.read)
    assert abs(clock() - server.now()) > timedelta(minutes=59)
    server.delay = 0.1
    clock.synchronize(server.read)
    assert abs(clock() - server.now()) < timedelta(milliseconds=1)
