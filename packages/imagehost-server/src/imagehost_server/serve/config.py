"""uvicorn's configuration of the server processes; it does not import the application."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from uvicorn.config import Config

from imagehost_server.logging_config import logging_config
from imagehost_server.settings import ServerSettings

HEALTH_SECONDS = 60
"""The time in which a process must answer a ping. One that starts imports its modules in that time."""
GRACE_SECONDS = 10
"""Grace period for requests in progress when a process stops."""


class ServerConfig(Config):
    """uvicorn's configuration, with what a server process needs to open the data directory.

    Args:
        data: The data directory.
        settings: Its settings.
    """

    def __init__(self, data: Path, settings: ServerSettings) -> None:
        self.data, self.settings = data, settings
        super().__init__(
            "imagehost_server.serve.server:open_app",
            factory=True,
            interface="asgi3",
            lifespan="on",
            http="imagehost_server.serve.protocol:HttpProtocol",
            ws="none",
            workers=settings.server.workers,
            # `RequestMiddleware` evaluates the headers of trusted proxies.
            proxy_headers=False,
            server_header=False,
            access_log=False,
            log_config=logging_config(
                settings.log.level, settings.log.format, is_buffered=settings.log.buffered
            ),
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_worker_healthcheck=HEALTH_SECONDS,
        )

    def load_app(self) -> Callable[[], object]:
        """Return the function that opens the data directory and returns the application."""
        return partial(super().load_app(), self.data, self.settings)
