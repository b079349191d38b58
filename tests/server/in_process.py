"""A server in a thread of the test's process, for tests that choose its clock or settings."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from imagehost_core import ImageHost
from imagehost_server.app import create_app
from imagehost_server.metrics import Recorder
from imagehost_server.settings import ServerSettings


@contextmanager
def serving(host: ImageHost, settings: ServerSettings, recorder: Recorder | None = None) -> Iterator[str]:
    """Serve a host, and close it at the end of the block; yield the origin."""
    app = create_app(host, settings, recorder)
    server = uvicorn.Server(uvicorn.Config(app, ws="none", proxy_headers=False, log_config=None))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
