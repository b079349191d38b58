"""The log format: one line per message, which input cannot forge."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from io import StringIO
from itertools import chain
from logging.config import dictConfig

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core import to_rfc3339
from imagehost_core.errors import InternalError, UnavailableError
from imagehost_server.logging_config import (
    ACCESS,
    BUFFER_SECONDS,
    FORMATTERS,
    REPEAT_SECONDS,
    WRITE_BYTES,
    JsonFormatter,
    LineFormatter,
    LogHandler,
    OutageFilter,
    flush,
    logging_config,
)
from imagehost_server.middleware.access_log import AccessLog
from imagehost_server.settings import LogFormat


def line(fields: dict[str, object], message: str = "request") -> str:
    record = logging.LogRecord("imagehost.access", logging.INFO, "", 0, message, (), None)
    record.fields = fields
    return LineFormatter().format(record)


def test_a_line_has_time_level_logger_message_and_fields() -> None:
    text = line({"method": "GET", "status": 200})
    assert re.fullmatch(r"[-\dT:.]{26}Z INFO imagehost.access request method=GET status=200", text)


@given(st.floats(0, 2**32))
def test_the_time_of_a_line_is_that_of_its_message_in_microseconds(created: float) -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "request", (), None)
    record.created = created
    assert LineFormatter().format(record).split(" ")[0] == to_rfc3339(datetime.fromtimestamp(created, UTC))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_value_is_one_word_or_quoted(value: str) -> None:
    text = line({"path": value, "status": 200})
    quoted = re.search(r'path=(\S+|".*") status=200$', text)
    assert len(text.splitlines()) == 1
    assert quoted is not None
    assert (json.loads(quoted[1]) if quoted[1].startswith('"') else quoted[1]) == value


def test_a_traceback_follows_its_line() -> None:
    try:
        raise OSError("disk on fire")
    except OSError as error:
        record = logging.LogRecord("x", 40, "", 0, "failed", (), (type(error), error, error.__traceback__))
    first, *rest = LineFormatter().format(record).splitlines()
    assert first.endswith(" ERROR x failed")
    assert rest[-1] == "OSError: disk on fire"


MEMBERS = st.dictionaries(st.text(), st.text(st.characters(exclude_categories=["Cs"])) | st.integers())


@given(MEMBERS, st.text(st.characters(exclude_categories=["Cs"])))
def test_a_json_message_is_one_line_with_the_fields_that_input_cannot_replace(
    fields: dict[str, object], message: str
) -> None:
    record = logging.LogRecord("imagehost.access", logging.INFO, "", 0, "%s", (message,), None)
    record.fields = fields
    text = JsonFormatter().format(record)
    members = json.loads(text)
    assert len(text.splitlines()) == 1
    assert (members["level"], members["logger"], members["event"]) == ("INFO", "imagehost.access", message)
    assert re.fullmatch(r"[-\dT:.]{26}Z", members["time"])
    assert {name: members[name] for name in fields if name not in ("time", "level", "logger", "event")} == {
        name: value for name, value in fields.items() if name not in ("time", "level", "logger", "event")
    }


def test_a_traceback_is_a_member_of_its_json_message() -> None:
    try:
        raise OSError("disk on fire")
    except OSError:
        record = logging.LogRecord("x", 40, "", 0, "failed", (), sys.exc_info())
    text = JsonFormatter().format(record)
    assert len(text.splitlines()) == 1
    assert json.loads(text)["exception"].endswith("OSError: disk on fire")


def test_a_line_break_in_a_message_cannot_forge_a_line() -> None:
    assert len(line({}, "one\n2026 INFO two").splitlines()) == 1


def test_every_value_of_the_setting_has_a_formatter() -> None:
    assert FORMATTERS.keys() == {each.value for each in LogFormat}
    config = logging_config("info", LogFormat.JSON)
    assert config["formatters"] == {"line": {"()": JsonFormatter}}


@given(
    st.lists(
        st.tuples(st.floats(0, 100), st.sampled_from(["lease query failed", "cleanup failed: %d"])),
        max_size=30,
    )
)
def test_the_consequences_of_an_outage_are_one_line_a_minute_for_each_event_without_a_traceback(
    failures: list[tuple[float, str]],
) -> None:
    now, logged_at = 0.0, dict[str, float]()
    outage = OutageFilter(lambda: now)
    for number, (seconds, event) in enumerate(failures):
        now += seconds
        error = UnavailableError("expected a response of the database but received none")
        arguments = (number,) if "%d" in event else ()
        info = (UnavailableError, error, None)
        record = logging.LogRecord("imagehost.x", logging.ERROR, "", 0, event, arguments, info)
        is_due = event not in logged_at or now >= logged_at[event] + REPEAT_SECONDS
        assert outage.filter(record) is is_due
        if is_due:
            logged_at[event] = now
            assert record.exc_info is None
            assert "received none" in LineFormatter().format(record)


def test_other_errors_keep_their_tracebacks() -> None:
    outage = OutageFilter(lambda: 0.0)
    error = InternalError("damaged")
    for _ in range(2):
        record = logging.LogRecord(
            "imagehost.x", logging.ERROR, "", 0, "failed", (), (InternalError, error, None)
        )
        assert outage.filter(record)
        assert record.exc_info is not None


class Writes(StringIO):
    """A stream that tells its writes apart."""

    def __init__(self) -> None:
        super().__init__()
        self.each: list[str] = []

    def write(self, text: str) -> int:
        if text:
            self.each.append(text)
        return len(text)

    def paths(self) -> list[list[str]]:
        return [re.findall(r"path=(\S+)", text) for text in self.each]


@contextmanager
def configured(*, is_buffered: bool = True) -> Iterator[Writes]:
    """Configure the log as a server process does, and yield what it writes; restore it afterwards."""
    root, access = logging.getLogger(), logging.getLogger(ACCESS)
    before = root.handlers[:], root.level, access.handlers[:], access.propagate
    levels = {name: logging.getLogger(name).level for name in ("uvicorn", "psycopg.pool")}
    dictConfig(logging_config("info", is_buffered=is_buffered))
    [handler] = root.handlers
    assert isinstance(handler, LogHandler)
    writes = Writes()
    handler.setStream(writes)
    yield writes
    handler.flush()
    root.handlers[:], root.level, access.handlers[:], access.propagate = before
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)
    root.setLevel(before[1])


def log_request(path: str) -> None:
    AccessLog(is_on=True).request("GET", path, "192.0.2.1", 200, "0" * 24, 0.001)


def test_lines_of_requests_are_written_together_before_the_next_message_of_another_kind() -> None:
    async def requests() -> None:
        log_request("/1")
        log_request("/2")
        assert writes.each == []
        logging.getLogger("imagehost.server").warning("other")
        log_request("/3")
        flush()
        log_request("/4")

    with configured() as writes:
        asyncio.run(requests())
    assert writes.paths() == [["/1", "/2"], ["/3"], ["/4"]]
    assert writes.each[0].endswith(" imagehost.server other\n")


def test_a_line_waits_for_others_no_longer_than_50_ms() -> None:
    async def request() -> None:
        log_request("/1")
        # The timers of a loop are called in the order of their times.
        await asyncio.sleep(BUFFER_SECONDS)
        await asyncio.sleep(0)
        assert writes.paths() == [["/1"]]

    with configured() as writes:
        asyncio.run(request())


def test_no_write_is_larger_than_what_a_pipe_keeps_together() -> None:
    async def requests() -> None:
        for number in range(100):
            log_request(f"/{number}")

    with configured() as writes:
        asyncio.run(requests())
    assert 1 < len(writes.each) < 10
    assert max(map(len, writes.each)) <= WRITE_BYTES
    assert list(chain(*writes.paths())) == [f"/{number}" for number in range(100)]


@pytest.mark.parametrize(("is_buffered", "in_loop"), [(True, False), (False, True), (False, False)])
def test_lines_of_requests_are_written_at_once_without_the_buffer_or_an_event_loop(
    is_buffered: bool, in_loop: bool
) -> None:
    async def requests() -> None:
        log_request("/1")
        log_request("/2")
        assert writes.paths() == [["/1"], ["/2"]]

    with configured(is_buffered=is_buffered) as writes:
        if in_loop:
            asyncio.run(requests())
        else:
            log_request("/1")
            assert writes.paths() == [["/1"]]


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_a_line_of_a_request_is_that_of_its_record(
    log_format: LogFormat, caplog: pytest.LogCaptureFixture
) -> None:
    """Programs that add handlers get records; the log of a server process writes lines without them."""
    formatter = FORMATTERS[log_format]()
    with configured() as writes:
        logging.getLogger().handlers[0].setFormatter(formatter)
        log_request('/a b"=')
    with caplog.at_level(logging.INFO, ACCESS):
        log_request('/a b"=')
    [record] = caplog.records
    [written] = writes.each
    time = r"\d{4}-\d\d-\d\dT[\d:.]{15}Z"
    assert re.sub(time, "", written) == re.sub(time, "", formatter.format(record)) + "\n"
