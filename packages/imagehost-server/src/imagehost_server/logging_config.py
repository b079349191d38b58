"""Log format: one line per message, with its fields as `key=value`.

Tokens and queries are never logged: a query may contain a signature.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from imagehost_core import to_rfc3339

_UNQUOTED = re.compile(r"[!#-<>-~]+", re.ASCII)
"""Values that need no quotes: printable ASCII without spaces, `"` and `=`."""


class LineFormatter(logging.Formatter):
    """A formatter of lines `time LEVEL logger message key=value …`.

    Fields are passed as `extra={"fields": {…}}`. Values with other characters than printable ASCII are quoted
    as JSON, so that input cannot forge log lines.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, followed by the traceback if there is one."""
        timestamp = to_rfc3339(datetime.fromtimestamp(record.created, UTC))
        fields: Mapping[str, object] = getattr(record, "fields", {})
        parts = [timestamp, record.levelname, record.name, record.getMessage()]
        parts += [f"{name}={_format_value(value)}" for name, value in fields.items()]
        line = " ".join(parts)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def logging_config(level: str) -> dict[str, object]:
    """Return the argument of `logging.config.dictConfig`; all messages go to standard error.

    Args:
        level: The lowest level that is logged.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": LineFormatter}},
        "handlers": {
            "line": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}
        },
        # uvicorn warns about invalid requests, with which any client could fill the log.
        "loggers": {"uvicorn": {"level": "ERROR"}},
        "root": {"level": level.upper(), "handlers": ["line"]},
    }


def skip_unused_attributes() -> None:
    """Make log records of this process without the thread and the process, which no line names."""
    logging.logThreads = logging.logMultiprocessing = logging.logProcesses = False


def _format_value(value: object) -> str:
    text = str(value)
    return text if _UNQUOTED.fullmatch(text) else json.dumps(text)
