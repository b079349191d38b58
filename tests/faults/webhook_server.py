"""An HTTP server on a free port that receives webhooks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Respond = Callable[[Message, bytes], int | None]
"""Takes the headers and the body of a delivery, and returns the status; `None` closes the connection."""


@contextmanager
def run_webhook_server(respond: Respond) -> Iterator[str]:
    """Serve during a block, each delivery in a thread of its own; yield the URL."""

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the sender was killed
                super().handle()

        def do_POST(self) -> None:
            length = int(self.headers["content-length"])
            body = self.rfile.read(length)
            if len(body) < length:
                return  # the sender was killed during the request
            status = respond(self.headers, body)
            if status is not None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 256
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join(10)
