"""Destinations of webhooks on loopback, and the real server and worker that send to them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from attrs import define, field

from imagehost_client import Client
from imagehost_client.models import Webhook, WebhookDelivery
from imagehost_server.testing import RunningServer, environment, running

NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in ("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UPLOADS_PER_MINUTE")
}
LOOPBACK = {**NO_LIMITS, "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true"}
PATIENCE = 30.0


@define
class Destination:
    """A destination in threads of its own; each request is answered by `answer`.

    Attributes:
        answer: Returns status and body for a request; it is told how many there were.
        came: The requests: headers with names in lower case, and bodies.
    """

    answer: Callable[[int], tuple[int, bytes]]
    came: list[tuple[dict[str, str], bytes]] = field(factory=list)
    port: int = 0
    _changed: threading.Condition = field(factory=threading.Condition, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def take(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        with self._changed:
            self.came.append((headers, body))
            count = len(self.came)
            self._changed.notify_all()
        return self.answer(count)

    def wait_for(self, count: int) -> None:
        """Wait until so many requests have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.came) >= count, PATIENCE), len(self.came)


@contextmanager
def destination(answer: Callable[[int], tuple[int, bytes]]) -> Iterator[Destination]:
    kept = Destination(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = kept.take(headers, body)
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
            except OSError:
                pass  # the sender has given up

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 256

    server = Server(("127.0.0.1", 0), Handler)
    kept.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield kept
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def sending(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that sends webhooks to loopback."""
    with running(tmp_path_factory.mktemp("sending") / "data", variables=LOOPBACK) as started:
        yield started


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that leaves sending to others."""
    variables = {**LOOPBACK, "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false"}
    with running(tmp_path_factory.mktemp("silent") / "data", variables=variables) as started:
        yield started


def client_of(server: RunningServer) -> Client:
    return Client(server.base_url, server.token)


def settled(client: Client, webhook: Webhook, attempts: int = 1) -> WebhookDelivery:
    """Wait until so many attempts of the only delivery are recorded."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        (found,) = client.webhooks.deliveries(webhook)
        if found.attempts >= attempts:
            return found
        time.sleep(0.05)
    raise AssertionError(found)


@contextmanager
def worker(data: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `imagehost worker` until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "imagehost_server", "webhook-sender", "--data", str(data)],
        stdout=subprocess.PIPE,
        env=environment(LOOPBACK),
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "Sending webhooks\n"
        yield process
    finally:
        process.kill()
        process.communicate()
