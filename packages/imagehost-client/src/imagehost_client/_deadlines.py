"""The deadline of a synchronous call, held by every wait for its connection.

httpx2 limits the time of each read. A host that sends a header byte by byte therefore never exceeds its
timeout, and no code of a caller runs between two of these reads. So the streams of a client's connections are
wrapped: each wait is at most what is left of the deadline of the calling thread. An asynchronous call needs
none of this: its event loop cancels it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

import httpcore2  # comes with httpx2
import httpx2

WRITTEN_BYTES = 16_384
"""The size of a part that is written by one wait, in bytes."""

_calling = threading.local()


class DeadlineError(Exception):
    """The deadline has passed."""


@contextmanager
def limited(time_left: float | None) -> Iterator[None]:
    """End the waits for connections in a block, by this thread, when the time that is left has passed.

    Args:
        time_left: Seconds, or `None` for no limit.

    Raises:
        DeadlineError: It has passed before or during a wait.
    """
    before: float | None = getattr(_calling, "deadline", None)
    deadline = _calling.deadline = None if time_left is None else time.monotonic() + time_left
    try:
        yield
    except httpx2.TimeoutException as error:
        if deadline is not None and time.monotonic() >= deadline:
            raise DeadlineError from error
        raise
    finally:
        _calling.deadline = before


def limit_waits(http: httpx2.Client) -> None:
    """Make the connections that a client will open obey `limited`.

    Transports other than httpx2's own are left as they are.
    """
    # httpx2 has no public parameter for the streams of its connections.
    for transport in (http._transport, *http._mounts.values()):  # noqa: SLF001
        pool: Any = getattr(transport, "_pool", None)
        backend = getattr(pool, "_network_backend", None)
        if isinstance(backend, httpcore2.NetworkBackend) and not isinstance(backend, _Backend):
            pool._network_backend = _Backend(backend)  # noqa: SLF001


def _time_left(timeout: float | None) -> float | None:
    """Return the shorter one of a timeout and the time that is left of the deadline."""
    deadline: float | None = getattr(_calling, "deadline", None)
    if deadline is None:
        return timeout
    left = deadline - time.monotonic()
    if left <= 0:
        raise httpcore2.ReadTimeout("no response before the deadline")
    return left if timeout is None else min(timeout, left)


class _Stream(httpcore2.NetworkStream):
    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _time_left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), WRITTEN_BYTES):
            self._stream.write(buffer[start : start + WRITTEN_BYTES], _time_left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, _time_left(timeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore2.NetworkBackend):
    def __init__(self, backend: httpcore2.NetworkBackend) -> None:
        self._backend = backend

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        return _Stream(
            self._backend.connect_tcp(host, port, _time_left(timeout), local_address, socket_options)
        )

    def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        return _Stream(self._backend.connect_unix_socket(path, _time_left(timeout), socket_options))

    def sleep(self, seconds: float) -> None:
        self._backend.sleep(seconds)
