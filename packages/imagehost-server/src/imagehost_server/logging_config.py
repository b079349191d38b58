"""How the log looks: one line a message, its facts as `key=value`.

Tokens and queries are never among the facts: a query may hold a signature.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from imagehost_core._util.clock import to_rfc3339

_UNQUOTED = re.compile(r"[!#-<>-~]+", re.ASCII)
"""What needs no quotes: printable ASCII without spaces, `"` and `=`."""


class LineFormatter(logging.Formatter):
    """Writes a record as `time LEVEL logger message key=value …`.

    The facts come as `extra={"fields": {…}}`. Values that hold anything unusual are quoted as JSON, so
    that nobody can break a line by what they send.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with the traceback below it where there is one."""
        moment = to_rfc3339(datetime.fromtimestamp(record.created, UTC))
        facts: Mapping[str, object] = getattr(record, "fields", {})
        words = [moment, record.levelname, record.name, record.getMessage()]
        line = " ".join([*words, *(f"{name}={_format_value(value)}" for name, value in facts.items())])
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def logging_config(level: str) -> dict[str, object]:
    """Return the configuration of `logging.config.dictConfig`; everything goes to standard error.

    Args:
        level: The least important messages that are shown.
    """
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": LineFormatter}},
        "handlers": {
            "line": {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}
        },
        # Of what it warns, anybody could fill the log: requests that are no HTTP.
        "loggers": {"uvicorn": {"level": "ERROR"}},
        "root": {"level": level.upper(), "handlers": ["line"]},
    }


def _format_value(value: object) -> str:
    text = str(value)
    return text if _UNQUOTED.fullmatch(text) else json.dumps(text)
