"""A proxy that sits between a client and an HTTP server and injects faults into chosen requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from urllib.parse import urlsplit

from attrs import define, field, frozen
from tests.stream_server import run_stream_server


class Fault(Enum):
    """What happens to a request or to its response."""

    ERROR_500 = "respond with 500"
    ERROR_503 = "respond with 503"
    ERROR_404_NO_BUCKET = "respond with 404 and the code NoSuchBucket"
    CUT = "close the connection without forwarding the request"
    LOSE_RESPONSE = "forward the request, then close the connection without a response"
    STALL = "never respond"
    TRUNCATE = "close the connection after half of the response's body"
    SHORTEN = "send half of the response's body, with that as its length"
    CORRUPT = "change a byte of the response's body"
    CORRUPT_REQUEST = "change a byte of the request's body"
    OPAQUE_E_TAG = "replace the entity tag of the response"
    ADD_VERSION = "add the version of a bucket with versioning to the response"


@frozen
class Request:
    """A request that the proxy has received."""

    method: str
    target: str


@define
class FaultProxy:
    """A running proxy.

    Attributes:
        endpoint: Its URL.
        requests: All requests, in their order.
    """

    endpoint: str = ""
    requests: list[Request] = field(factory=list)
    _rules: list[tuple[Fault, str, str, int]] = field(factory=list)
    _lock: threading.Lock = field(factory=threading.Lock)
    _on_request: Callable[[Request], object] = lambda _: None

    def inject(self, fault: Fault, method: str = "", contains: str = "", times: int = 1) -> None:
        """Inject a fault into the next requests.

        Args:
            fault: The fault.
            method: Their method; by default any.
            contains: A part of their path and query.
            times: How many requests.
        """
        with self._lock:
            self._rules.append((fault, method, contains, times))

    def clear(self) -> None:
        """Inject no further faults."""
        with self._lock:
            self._rules.clear()

    def on_request(self, callback: Callable[[Request], object]) -> None:
        """Call a function before each request is forwarded."""
        self._on_request = callback

    def count(self, method: str, contains: str = "") -> int:
        """Return the number of requests with a method and a part of their path and query."""
        return sum(1 for each in self.requests if each.method == method and contains in each.target)

    def take(self, request: Request) -> Fault | None:
        """Record a request; return the fault to inject into it."""
        with self._lock:
            self.requests.append(request)
            for index, (fault, method, contains, times) in enumerate(self._rules):
                if method in {"", request.method} and contains in request.target:
                    self._rules[index : index + 1] = (
                        [(fault, method, contains, times - 1)] if times > 1 else []
                    )
                    return fault
        return None

    def notify(self, request: Request) -> None:
        """Call the function of `on_request`."""
        self._on_request(request)


@contextmanager
def run_fault_proxy(server: str) -> Iterator[FaultProxy]:
    """Run a proxy for a block, in a thread of its own.

    Args:
        server: The URL of the server, such as `http://127.0.0.1:8333`.
    """
    proxy = FaultProxy()
    parts = urlsplit(server)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await _exchange(proxy, (parts.hostname or "", parts.port or 80), reader, writer):
            pass

    with run_stream_server(handle) as running:
        proxy.endpoint = f"http://127.0.0.1:{running.port}"
        yield proxy


_ERRORS = {
    Fault.ERROR_500: ("500 Internal Server Error", ""),
    Fault.ERROR_503: ("503 Slow Down", ""),
    Fault.ERROR_404_NO_BUCKET: ("404 Not Found", "<?xml?><Error><Code>NoSuchBucket</Code></Error>"),
}


async def _exchange(
    proxy: FaultProxy, server: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> bool:
    """Handle one request; return whether the connection stays open."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = await reader.readexactly(int(_header(head, b"content-length") or 0))
    method, target, _ = head.decode("latin-1").split(" ", 2)
    request = Request(method, target)
    fault = proxy.take(request)
    if fault in _ERRORS:
        status, text = _ERRORS[fault]
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        await writer.drain()
        return True
    if fault is Fault.CUT:
        return False
    if fault is Fault.STALL:
        await reader.read(1)  # until the client closes the connection
        return False
    if fault is Fault.CORRUPT_REQUEST:
        body = _changed(body)
    await asyncio.to_thread(proxy.notify, request)
    response_head, response = await _forward(server, method, head, body)
    if fault is Fault.LOSE_RESPONSE:
        return False
    if fault is Fault.CORRUPT:
        response = _changed(response)
    if fault is Fault.SHORTEN:
        response = response[: len(response) // 2]
        response_head = _with_length(response_head, len(response))
    if fault is Fault.OPAQUE_E_TAG:
        lines = response_head.split(b"\r\n")
        lines = [b'ETag: "opaque"' if line.lower().startswith(b"etag:") else line for line in lines]
        response_head = b"\r\n".join(lines)
    if fault is Fault.ADD_VERSION:
        response_head = response_head.replace(b"\r\n", b"\r\nx-amz-version-id: abc\r\n", 1)
    writer.write(response_head + (response[: len(response) // 2] if fault is Fault.TRUNCATE else response))
    await writer.drain()
    return fault is not Fault.TRUNCATE


async def _forward(server: tuple[str, int], method: str, head: bytes, body: bytes) -> tuple[bytes, bytes]:
    """Send a request on a connection of its own; return the head and the body of the response."""
    reader, writer = await asyncio.open_connection(*server)
    try:
        writer.write(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + body)
        await writer.drain()
        response_head = await reader.readuntil(b"\r\n\r\n")
        response = b"" if method == "HEAD" else await reader.read()
        if (_header(response_head, b"transfer-encoding") or b"").lower() == b"chunked":
            response = _decode_chunks(response)
            lines = response_head.split(b"\r\n")
            kept = [line for line in lines if not line.lower().startswith(b"transfer-encoding:")]
            kept.insert(1, b"Content-Length: %d" % len(response))
            response_head = b"\r\n".join(kept)
        lines = [line for line in response_head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        return b"\r\n".join(lines), response
    finally:
        writer.close()


def _header(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def _with_length(head: bytes, length: int) -> bytes:
    lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"content-length:")]
    lines.insert(1, b"Content-Length: %d" % length)
    return b"\r\n".join(lines)


def _changed(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :] if data else data


def _decode_chunks(data: bytes) -> bytes:
    decoded = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            break
        decoded, data = decoded + data[:length], data[length + 2 :]
    return decoded
