"""Webhook endpoints on loopback, and the real server and sender that deliver to them."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from attrs import define, field
from tests.waiting import PATIENCE, wait_until

from imagehost_client import Client
from imagehost_client.models import Webhook, WebhookDelivery
from imagehost_server.testing import RunningServer, environment, running

NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in ("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UPLOADS_PER_MINUTE")
}
ALLOW_LOOPBACK = {**NO_LIMITS, "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true"}


@define
class WebhookReceiver:
    """An HTTP server in threads that records webhook requests.

    Attributes:
        respond: Returns status and body of a response, given the number of requests so far.
        requests: Headers, with names in lower case, and bodies.
        port: The TCP port on 127.0.0.1.
    """

    respond: Callable[[int], tuple[int, bytes]]
    requests: list[tuple[dict[str, str], bytes]] = field(factory=list)
    port: int = 0
    _changed: threading.Condition = field(factory=threading.Condition, repr=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def handle(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        """Record a request and return the response."""
        with self._changed:
            self.requests.append((headers, body))
            count = len(self.requests)
            self._changed.notify_all()
        return self.respond(count)

    def wait_for(self, count: int) -> None:
        """Wait for that many requests."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= count, PATIENCE), len(self.requests)


@contextmanager
def webhook_receiver(respond: Callable[[int], tuple[int, bytes]]) -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver(respond)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, text = receiver.handle(headers, body)
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
            except OSError:
                pass  # the sender has closed the connection

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Log nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 256

    server = Server(("127.0.0.1", 0), Handler)
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def sending_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that sends webhooks, also to loopback."""
    with running(tmp_path_factory.mktemp("sending") / "data", variables=ALLOW_LOOPBACK) as server:
        yield server


@pytest.fixture(scope="module")
def non_sending_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that leaves sending to separate processes."""
    variables = {**ALLOW_LOOPBACK, "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false"}
    with running(tmp_path_factory.mktemp("non_sending") / "data", variables=variables) as server:
        yield server


def client_of(server: RunningServer) -> Client:
    return Client(server.base_url, server.token)


def wait_for_attempts(client: Client, webhook: Webhook, attempts: int = 1) -> WebhookDelivery:
    """Wait until that many attempts of the webhook's only delivery are recorded; return the delivery."""

    def find() -> WebhookDelivery | None:
        (delivery,) = client.webhooks.deliveries(webhook)
        return delivery if delivery.attempts >= attempts else None

    return wait_until(find)


@contextmanager
def sender_process(data: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run `imagehost webhook-sender` until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "imagehost_server", "webhook-sender", "--data", str(data), *arguments],
        stdout=subprocess.PIPE,
        env=environment(ALLOW_LOOPBACK),
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "Sending webhooks\n"
        yield process
    finally:
        process.kill()
        process.communicate()
