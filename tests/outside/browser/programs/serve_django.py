"""Serves the Django project of the working directory, with its static files, and prints the port."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

sys.path.insert(0, str(Path.cwd()))
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application


class ThreadingServer(ThreadingMixIn, WSGIServer):
    """A server with a thread for each connection, as Chromium keeps some that it does not use."""

    daemon_threads = True


class Quiet(WSGIRequestHandler):
    """A handler that logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


with make_server(
    "127.0.0.1", 0, StaticFilesHandler(get_wsgi_application()), ThreadingServer, Quiet
) as server:
    print(server.server_port, flush=True)
    server.serve_forever()
