"""The latest errors: bounded, of all processes, and without anything that a client has sent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_server.metrics import MetricTable, Recorder, create_table_file
from imagehost_server.metrics.recent_errors import KEPT, RINGS_BYTES, RecentErrors


def ids(table: MetricTable) -> list[str]:
    return [error.request_id for error in table.recent_errors(1_000)]


def test_an_error_has_its_time_status_route_and_request_id() -> None:
    table = MetricTable()
    Recorder(table).error("BREW", "/v1/images/{image_id}", 503, "a1b2")
    (error,) = table.recent_errors(10)
    assert (error.status, error.method, error.route) == (503, "other", "/v1/images/{image_id}")
    assert error.request_id == "a1b2"
    assert timedelta() <= datetime.now(UTC) - error.at < timedelta(minutes=10)


@given(st.lists(st.sampled_from([500, 503, 507]), max_size=5 * KEPT))
def test_the_latest_errors_of_each_kind_are_kept(statuses: list[int]) -> None:
    errors = RecentErrors(memoryview(bytearray(RINGS_BYTES)))
    for number, status in enumerate(statuses):
        errors.add(status, "GET", "/x", str(number))
    failed = [str(number) for number, status in enumerate(statuses) if status == 500]
    refused = [str(number) for number, status in enumerate(statuses) if status != 500]
    assert {error.request_id for error in errors} == {*failed[-KEPT:], *refused[-KEPT:]}


def test_refused_requests_do_not_push_out_failures() -> None:
    table = MetricTable()
    table.errors.add(500, "GET", "/x", "failure")
    for number in range(10 * KEPT):
        table.errors.add(503, "GET", "/x", str(number))
    assert "failure" in ids(table)
    assert len(ids(table)) == KEPT + 1
    assert table.recent_errors(1)[0].request_id == str(10 * KEPT - 1)


@given(st.integers(0, RINGS_BYTES - 1), st.binary(min_size=1, max_size=30), st.text(max_size=200))
def test_an_entry_that_is_half_written_is_left_out(position: int, change: bytes, route: str) -> None:
    buffer = bytearray(RINGS_BYTES)
    errors = RecentErrors(memoryview(buffer))
    for number in range(2 * KEPT):
        errors.add(500 + number % 2, "GET", route, f"{number:032}")
    change = change[: RINGS_BYTES - position]
    buffer[position : position + len(change)] = change
    assert {error.request_id for error in errors} <= {f"{number:032}" for number in range(2 * KEPT)}
    assert all(len(error.route.encode()) <= 3 * 96 for error in errors)


OTHER_PROCESS = """
import os, sys
from imagehost_server.metrics import MetricTable, Recorder

Recorder(MetricTable(int(sys.argv[1]))).error("GET", "/other", 500, sys.argv[2])
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def descriptor() -> Iterator[int]:
    """The descriptor of a table for three processes."""
    number = create_table_file(3)
    yield number
    os.close(number)


@pytest.mark.skipif(sys.platform == "win32", reason="there, one process serves")
def test_errors_of_all_processes_are_listed_also_of_killed_ones(descriptor: int) -> None:
    own = Recorder(MetricTable(descriptor))
    own.error("GET", "/own", 500, "own")
    for request_id in ("first", "second"):
        command = [sys.executable, "-c", OTHER_PROCESS, str(descriptor), request_id]
        assert subprocess.run(command, pass_fds=(descriptor,), check=False).returncode == -9
    assert ids(own.table) == ["second", "first", "own"]
    own.request("GET", "/x", 200, 0.1, 0, 0)
    assert len(ids(MetricTable(descriptor))) == 3
