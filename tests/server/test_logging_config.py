"""The log format: one line per message, which input cannot forge."""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from imagehost_core import to_rfc3339
from imagehost_core.errors import InternalError, UnavailableError
from imagehost_server.logging_config import (
    FORMATTERS,
    REPEAT_SECONDS,
    JsonFormatter,
    LineFormatter,
    OutageFilter,
    logging_config,
)
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
