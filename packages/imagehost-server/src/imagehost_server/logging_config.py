"""Log formats: one line per message, as text with `key=value` fields or as a JSON object.

Tokens and queries are never logged: a query may contain a signature.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

from imagehost_core.errors import UnavailableError
from imagehost_server.tracing import log_fields

REPEAT_SECONDS = 60.0
"""The shortest time between two lines about the same problem."""
_is_unquoted = re.compile(r"[!#-<>-~]+", re.ASCII).fullmatch
"""Values that need no quotes: printable ASCII without spaces, `"` and `=`."""


class LineFormatter(logging.Formatter):
    """A formatter of lines `time LEVEL logger event key=value …`.

    Fields are passed as `extra={"fields": {…}}`. Values with other characters than printable ASCII are quoted
    as JSON, so that input cannot forge log lines. A traceback follows its line.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by the traceback if there is one."""
        event = "\\n".join(record.getMessage().splitlines())
        line = f"{_timestamp(record)} {record.levelname} {record.name} {event}"
        for name, value in _fields(record).items():
            text = str(value)
            line += f" {name}={text if _is_unquoted(text) else json.dumps(text)}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonFormatter(logging.Formatter):
    """A formatter of JSON objects, each on one line, with the members `time`, `level`, `logger` and `event`.

    The fields of a message are members too, and so is the traceback, as `exception`.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the object."""
        members: dict[str, object] = {
            **_fields(record),
            "time": _timestamp(record),
            "level": record.levelname,
            "logger": record.name,
            "event": record.getMessage(),
        }
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return json.dumps(members, default=str)


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


def logging_config(level: str, log_format: str = "line") -> dict[str, object]:
    """Return the argument of `logging.config.dictConfig`; all messages go to standard error.

    Args:
        level: The lowest level that is logged.
        log_format: A key of `FORMATTERS`.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": FORMATTERS[log_format]}},
        "filters": {"outage": {"()": OutageFilter}},
        "handlers": {
            "line": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "filters": ["outage"],
                "stream": "ext://sys.stderr",
            }
        },
        # uvicorn warns about invalid requests, with which any client could fill the log; the pool of
        # connections about each attempt to connect.
        "loggers": {"uvicorn": {"level": "ERROR"}, "psycopg.pool": {"level": "ERROR"}},
        "root": {"level": level.upper(), "handlers": ["line"]},
    }


def prepare_process() -> None:
    """Log Python's warnings too, and make records without the thread and the process, which no line names."""
    logging.captureWarnings(True)
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False


def _timestamp(record: logging.LogRecord) -> str:
    whole, fraction = divmod(record.created, 1)
    second, micros = divmod(int(whole) * 10**6 + round(fraction * 1e6), 10**6)
    return f"{_date_and_time(second)}.{micros:06d}Z"


@lru_cache(2)
def _date_and_time(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%S}"


def _fields(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the fields of a message, with the identifiers of the request's trace if there is one."""
    fields: Mapping[str, object] = getattr(record, "fields", {})
    trace = log_fields()
    return {**fields, **trace} if trace else fields
