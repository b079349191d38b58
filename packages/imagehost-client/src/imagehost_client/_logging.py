"""The variable `IMAGEHOST_LOG`, which prints the log of the client to standard error."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

from imagehost_client.errors import ConfigurationError

VARIABLE = "IMAGEHOST_LOG"
LEVELS = {"debug": logging.DEBUG, "info": logging.INFO}
FORMAT = "%(asctime)s %(name)s %(levelname)s %(message)s"


def configure_logging(environ: Mapping[str, str] = os.environ) -> None:
    """Print the log from the level in `IMAGEHOST_LOG`, once per process.

    Without the variable, and where the program has added a handler of its own, nothing changes but the level.

    Raises:
        ConfigurationError: The variable is neither `debug` nor `info`.
    """
    text = environ.get(VARIABLE, "").strip().lower()
    if not text:
        return
    if text not in LEVELS:
        raise ConfigurationError(f"expected debug or info for {VARIABLE} but received {text!r}")
    logger = logging.getLogger("imagehost_client")
    logger.setLevel(LEVELS[text])
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter(FORMAT))
        logger.addHandler(handler)
