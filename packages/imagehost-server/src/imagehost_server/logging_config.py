"""Log formats: one line per message, as text with `key=value` fields or as a JSON object.

Tokens and queries are never logged: a query may contain a signature.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import TextIO

from imagehost_core.errors import UnavailableError
from imagehost_server.tracing import log_fields

ACCESS = "imagehost.access"
"""The logger of the access log."""
BUFFER_SECONDS = 0.05
"""The longest time that a line of the access log waits for others."""
WRITE_BYTES = 4_096
"""The most bytes that are written together: PIPE_BUF, up to which a pipe keeps them apart from others."""
REPEAT_SECONDS = 60.0
"""The shortest time between two lines about the same problem."""
_is_unquoted = re.compile(r"[!#-<>-~]+", re.ASCII).fullmatch
"""Values that need no quotes: printable ASCII without spaces, `"` and `=`."""
_are_unquoted = re.compile(r"(?: \w+=[!#-~]+)*", re.ASCII).fullmatch
"""Fields whose values have no character that needs quotes, but perhaps `=`."""


class LineFormatter(logging.Formatter):
    """A formatter of lines `time LEVEL logger event key=value …`.

    Fields are passed as `extra={"fields": {…}}`. Values with other characters than printable ASCII are quoted
    as JSON, so that input cannot forge log lines. A traceback follows its line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by the traceback if there is one."""
        event = "\\n".join(record.getMessage().splitlines())
        line = self.line(record.created, record.levelname, record.name, event, _fields(record))
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line

    def line(self, created: float, level: str, logger: str, event: str, fields: Mapping[str, object]) -> str:
        """Return the line of a message without a traceback, whose event is one line."""
        text = "".join([f" {name}={value}" for name, value in fields.items()])
        # One check of all, as one of each would take longer than the rest.
        if not _are_unquoted(text) or text.count("=") != len(fields):
            text = ""
            for name, value in fields.items():
                word = str(value)
                text += f" {name}={word if _is_unquoted(word) else json.dumps(word)}"
        return f"{_timestamp(created)} {level} {logger} {event}{text}"


class JsonFormatter(logging.Formatter):
    """A formatter of JSON objects, each on one line, with the members `time`, `level`, `logger` and `event`.

    The fields of a message are members too, and so is the traceback, as `exception`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        fields = _fields(record)
        if record.exc_info:
            fields = {**fields, "exception": self.formatException(record.exc_info)}
        return self.line(record.created, record.levelname, record.name, record.getMessage(), fields)

    def line(self, created: float, level: str, logger: str, event: str, fields: Mapping[str, object]) -> str:
        """Return the object of a message."""
        about = {"time": _timestamp(created), "level": level, "logger": logger, "event": event}
        return _encode_json({**fields, **about})


_encode_json = json.JSONEncoder(default=str).encode


class LogHandler(logging.StreamHandler[TextIO]):
    """A handler that writes messages to standard error, and lines of the access log several at a time.

    Those of an event loop wait for others: for `BUFFER_SECONDS`, until they have `WRITE_BYTES`, or until any
    other message, so that all remain in their order. A process that is killed loses what waits.

    Args:
        is_buffered: Whether they wait.
    """

    formatter: LineFormatter | JsonFormatter

    def __init__(self, *, is_buffered: bool) -> None:
        super().__init__(sys.stderr)
        self._is_buffered = is_buffered
        self._lines = list[str]()
        self._size = 0
        assert self.lock is not None
        self._mutex = self.lock

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message, after what waits."""
        try:
            self._add(f"{self.format(record)}\n")
            self.flush()
        except Exception:
            self.handleError(record)

    def emit_access(self, event: str, fields: Mapping[str, object]) -> None:
        """Write a line of the access log, or let it wait; a LogRecord would take as long as all of it."""
        try:
            line = self.formatter.line(time.time(), "INFO", ACCESS, event, with_trace(fields))
            loop = _running_loop() if self._is_buffered else None
            with self._mutex:
                self._add(f"{line}\n")
                if loop is None:
                    self.flush()
                elif len(self._lines) == 1:
                    loop.call_later(BUFFER_SECONDS, self._flush_later)
        except Exception:
            self.handleError(_ACCESS_RECORD)

    def flush(self) -> None:
        """Write what waits."""
        with self._mutex:
            text, self._lines, self._size = "".join(self._lines), [], 0
            self.stream.write(text)
            super().flush()

    def _add(self, line: str) -> None:
        if self._size + len(line) > WRITE_BYTES:
            self.flush()
        self._lines.append(line)
        self._size += len(line)

    def _flush_later(self) -> None:
        try:
            self.flush()
        except Exception:
            self.handleError(_ACCESS_RECORD)


_ACCESS_RECORD = logging.makeLogRecord({"name": ACCESS})
"""What `Handler.handleError` names where a line of the access log cannot be written."""


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class OutageFilter(logging.Filter):
    """A filter of the consequences of an outage: one line a minute for each event, without a traceback.

    Requests and background work that fail with UnavailableError go on failing while a database or a store
    does not respond, whose own line has the reason.

    Args:
        clock: The source of the time, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._repeat_at: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record; remove its traceback if it is that of an outage."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, UnavailableError):
            return True
        # The message before its values: there are few.
        event = (record.name, str(record.msg))
        now = self._clock()
        if now < self._repeat_at.get(event, now):
            return False
        self._repeat_at[event] = now + REPEAT_SECONDS
        record.exc_info, record.fields = None, {**_fields(record), "cause": str(error)}
        return True


class ProblemLog:
    """A log of a problem that comes and goes: a line when it changes, and one a minute while it lasts.

    Args:
        event: The event of a line about the problem.
        resolved: The event of the line about its end.
        level: The level of lines about the problem.
        clock: The source of the time, in seconds.
    """

    def __init__(
        self, event: str, resolved: str, level: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._event, self._resolved, self._level, self._clock = event, resolved, level, clock
        self._log = logging.getLogger("imagehost.server")
        self._reason, self._repeat_at = "", 0.0

    def record(self, reason: str, cause: str = "") -> None:
        """Log the present state, unless that was done.

        Args:
            reason: What the problem is; empty if there is none.
            cause: More about it.
        """
        now, is_new = self._clock(), reason != self._reason
        if not is_new and (not reason or now < self._repeat_at):
            return
        self._reason, self._repeat_at = reason, now + REPEAT_SECONDS
        if reason:
            fields = {"reason": reason} | ({"cause": cause} if cause else {})
            self._log.log(self._level, self._event, extra={"fields": fields})
        else:
            self._log.info(self._resolved)


FORMATTERS: dict[str, type[logging.Formatter]] = {"line": LineFormatter, "json": JsonFormatter}
"""The formatter of each value of the setting `log.format`."""


def logging_config(level: str, log_format: str = "line", *, is_buffered: bool = True) -> dict[str, object]:
    """Return the argument of `logging.config.dictConfig`; all messages go to standard error.

    Args:
        level: The lowest level that is logged.
        log_format: A key of `FORMATTERS`.
        is_buffered: See `LogHandler`.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": FORMATTERS[log_format]}},
        "filters": {"outage": {"()": OutageFilter}},
        "handlers": {
            "line": {
                "()": LogHandler,
                "is_buffered": is_buffered,
                "formatter": "line",
                "filters": ["outage"],
            }
        },
        # uvicorn warns about invalid requests, with which any client could fill the log; the pool of
        # connections about each attempt to connect.
        "loggers": {
            "uvicorn": {"level": "ERROR"},
            "psycopg.pool": {"level": "ERROR"},
            ACCESS: {"handlers": ["line"], "propagate": False},
        },
        "root": {"level": level.upper(), "handlers": ["line"]},
    }


def prepare_process() -> None:
    """Log Python's warnings too, and make records without the thread and the process, which no line names."""
    logging.captureWarnings(True)
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False
    if sys.platform != "win32":
        # A child must not write what waits here.
        os.register_at_fork(before=flush)


def flush() -> None:
    """Write the lines that wait."""
    for handler in logging.getLogger().handlers:
        handler.flush()


def _timestamp(created: float) -> str:
    whole, fraction = divmod(created, 1)
    second, micros = divmod(int(whole) * 10**6 + round(fraction * 1e6), 10**6)
    return f"{_date_and_time(second)}.{micros:06d}Z"


@lru_cache(2)
def _date_and_time(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the fields of a message, with the identifiers of the request's trace if there is one."""
    return with_trace(getattr(record, "fields", {}))


def with_trace(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return fields with the identifiers of the request's trace if there is one."""
    trace = log_fields()
    return {**fields, **trace} if trace else fields
