"""The log format: one line per message, which input cannot forge."""

from __future__ import annotations

import json
import logging
import re

from hypothesis import given
from hypothesis import strategies as st

from imagehost_server.logging_config import LineFormatter


def line(fields: dict[str, object], message: str = "request") -> str:
    record = logging.LogRecord("imagehost.access", logging.INFO, "", 0, message, (), None)
    record.fields = fields
    return LineFormatter().format(record)


def test_a_line_has_time_level_logger_message_and_fields() -> None:
    text = line({"method": "GET", "status": 200})
    assert re.fullmatch(r"[-\dT:.]{26}Z INFO imagehost.access request method=GET status=200", text)


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
