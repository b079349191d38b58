"""A load balancer for tests: it forwards each request to a server that a function chooses."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer

from attrs import define, frozen

CHUNK_BYTES = 2**16


@frozen
class RequestLine:
    """The first line of a request."""

    method: str
    target: str


Route = Callable[[RequestLine], int]
"""A function that returns the port of loopback to which a request is forwarded."""


@define
class RequestProxy:
    """A running proxy.

    Attributes:
        port: Its port on loopback.
        route: Chooses the server of each request; it can be replaced while the proxy runs.
    """

    port: int
    route: Route

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"http://127.0.0.1:{self.port}"


class _Server(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 1_024


@contextmanager
def run_request_proxy(route: Route) -> Iterator[RequestProxy]:
    """Run a proxy for a block, with a thread for each connection.

    No request is repeated. Each has a connection of its own to the server, so that none is sent on one
    that the server closes at the same time.

    Args:
        route: Chooses the server of each request.
    """

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                _forward(proxy, self.request)

    with _Server(("127.0.0.1", 0), Handler) as server:
        proxy = RequestProxy(server.server_address[1], route)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            thread.join(10)


def _forward(proxy: RequestProxy, client: socket.socket) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        received = client.recv(CHUNK_BYTES)
        if not received:
            return
        data += received
    head, _, body = data.partition(b"\r\n\r\n")
    method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
    with (
        socket.create_connection(("127.0.0.1", proxy.route(RequestLine(method, target)))) as server,
        selectors.DefaultSelector() as selector,
    ):
        server.sendall(_with_close(head) + b"\r\n\r\n" + body)
        selector.register(client, selectors.EVENT_READ, server)
        selector.register(server, selectors.EVENT_READ, client)
        while True:
            for key, _ in selector.select():
                received = key.fileobj.recv(CHUNK_BYTES)  # type: ignore[union-attr]
                if received:
                    # A server that has rejected a request does not read the rest of its body.
                    with suppress(ConnectionError):
                        key.data.sendall(received)
                elif key.fileobj is server:
                    return
                else:
                    selector.unregister(client)
                    with suppress(OSError):
                        server.shutdown(socket.SHUT_WR)


def _with_close(head: bytes) -> bytes:
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    lines.insert(1, b"Connection: close")
    return b"\r\n".join(lines)
