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
    """A server with a clock that is not the host's, and a slow network to it.

    Attributes:
        delay: The seconds that a reading takes.
        share: The share of them until the clock is read.
    """

    def __init__(self, offset: timedelta) -> None:
        self.offset, self.elapsed, self.delay, self.share = offset, 0.0, 0.0, 0.5

    def seconds(self) -> float:
        return self.elapsed

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + self.offset + timedelta(seconds=self.elapsed)

    def read(self) -> datetime:
        self.elapsed += self.delay * self.share
        now = self.now()
        self.elapsed += self.delay * (1 - self.share)
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


READINGS = st.tuples(st.floats(0, 3), st.sampled_from([0.0, 0.5, 1.0]))
"""The seconds that a reading takes, and the share of them until the clock is read."""


@given(READINGS, st.lists(READINGS, max_size=5))
def test_the_error_of_a_synchronized_clock_is_that_of_its_quickest_reading(
    first: tuple[float, float], others: list[tuple[float, float]]
) -> None:
    server = Server(timedelta())
    server.delay, server.share = first
    clock = SynchronizedClock(server.read, server.seconds)
    for server.delay, server.share in others:
        clock.synchronize(server.read)
    quickest = min(delay for delay, _ in [first, *others])
    # Elapsed time may drift from the server's by 15 microseconds in a second, of which there are 30 at most.
    assert abs(clock() - server.now()) <= timedelta(seconds=quickest / 2 + 30 * 15e-6)


def test_a_synchronized_clock_is_read_again_at_the_start_until_a_reading_is_quick() -> None:
    server = Server(timedelta())
    delays = [0.2, 0.1, 0.0004, 0.0, 0.0]
    server.share = 1.0

    def read() -> datetime:
        server.delay = delays.pop(0)
        return server.read()

    clock = SynchronizedClock(read, server.seconds)
    assert len(delays) == 2
    assert abs(clock() - server.now()) < timedelta(milliseconds=1)


@given(st.floats(0, 3), st.timedeltas(timedelta(seconds=4), timedelta(days=1)), st.sampled_from([-1, 1]))
def test_a_synchronized_clock_follows_a_server_whose_clock_was_set(
    delay: float, step: timedelta, sign: int
) -> None:
    server = Server(timedelta())
    clock = SynchronizedClock(server.read, server.seconds)
    server.offset, server.delay = sign * step, delay
    clock.synchronize(server.read)
    assert abs(clock() - server.now()) <= timedelta(seconds=delay / 2, milliseconds=1)
