"""The log of commands: what they change is a line in the log of the server.

A command appends its messages to a file of the data directory. The server logs them in its own format, with
the time of the command: within seconds, or when it is started.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from imagehost_core._util.durable import open_owner_only
from imagehost_core.coordination.locks import lock_file, unlock_file
from imagehost_core.storage.layout import DataLayout

ACCOUNTS = "imagehost.accounts"
"""The logger of changes of accounts and keys."""


_logger = logging.getLogger(__name__)


class PendingLog(logging.Handler):
    """A handler that appends messages to the pending log of a data directory.

    Args:
        data: The data directory.
        fields: Fields of every message: which command of which user.
    """

    def __init__(self, data: Path, fields: dict[str, object]) -> None:
        super().__init__(logging.INFO)
        self._path, self._common = DataLayout(data).pending_log, fields

    def emit(self, record: logging.LogRecord) -> None:
        """Append a message; an error is shown on standard error and does not stop the command.

        One that a server of this process logs for another command has been appended before.
        """
        fields = getattr(record, "fields", {})
        if "command" in fields:
            return
        message = {
            "created": record.created,
            "name": record.name,
            "levelno": record.levelno,
            "levelname": record.levelname,
            "msg": record.getMessage(),
            "fields": {**fields, **self._common},
        }
        try:
            with _locked(self._path), open_owner_only(self._path, "ab") as file:
                # A line that an earlier command could not write to its end is ended first.
                file.write(b"\n" + json.dumps(message).encode() + b"\n")
        except OSError:
            self.handleError(record)


@contextmanager
def logging_to_server(data: Path, command: str) -> Iterator[None]:
    """Have changes of accounts and keys of a block logged by the server.

    Args:
        data: The data directory.
        command: The command, such as `users update`.
    """
    logger = logging.getLogger(ACCOUNTS)
    level, handler = logger.level, PendingLog(data, {"command": command, "os_user": _os_user()})
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def log_pending(data: Path) -> None:
    """Log what commands have appended, and empty the file.

    A crash may log a message twice. A message of which only a part was written is reported as a warning.
    """
    path = DataLayout(data).pending_log
    if not path.exists() or not path.stat().st_size:
        return
    with _locked(path), path.open("r+b") as file:
        for line in filter(bytes.strip, file):
            try:
                record = logging.makeLogRecord(json.loads(line))
            except ValueError:
                _logger.warning("a message of a command is lost: a part of it is not in %s", path)
                continue
            logging.getLogger(record.name).handle(record)
        file.truncate(0)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = lock_file(path)
    assert descriptor is not None
    try:
        yield
    finally:
        unlock_file(descriptor)


def _os_user() -> str:
    """Return the user of the system who runs this, also through sudo(8)."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        if sys.platform == "win32":
            user = "unknown"
        else:
            user = str(os.geteuid())
    return user
