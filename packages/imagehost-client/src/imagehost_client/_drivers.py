"""Drivers that execute the steps of an exchange: one synchronous, one asynchronous.

Imported when the first client is created, because httpx2 is slow to import.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, aclosing, closing
from ssl import SSLEOFError, SSLError, SSLSyscallError, SSLZeroReturnError
from typing import Any, TypeVar

import httpx2
from anyio import CancelScope, move_on_after  # comes with httpx2
from anyio import sleep as async_sleep
from anyio.to_thread import run_sync

from imagehost_client._calls.call import OpenResponse
from imagehost_client._config import environment_proxy
from imagehost_client._deadlines import DeadlineError, limit_waits, limited
from imagehost_client._exchange import BodyError, CallCancelledError, Failure, Open, Reply, Send, Sleep, Steps
from imagehost_client._multipart import Multipart
from imagehost_client._redact import Secret
from imagehost_client._retry import FailureKind
from imagehost_client._tracing import NullSpan, qualified_name, span
from imagehost_client._types import Source
from imagehost_client._wire import media_type_of
from imagehost_client.files import new_spool, open_file

T = TypeVar("T")

CONNECT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""The exceptions of httpx2 that are raised before a request is sent."""
CUT_HANDSHAKES = (SSLEOFError, SSLSyscallError, SSLZeroReturnError)
"""The TLS errors of a connection that ended, rather than of what the host sent."""

DEADLINE_EXCEEDED = Failure(
    FailureKind.UNKNOWN,
    timed_out=True,
    text="no response before the deadline",
    exception_name="timeout",
)
"""The outcome of an attempt that the call's deadline ends."""

MIN_BYTES_PER_SECOND = 1_024
"""The slowest rate of a body, which is that of hosts."""
SENT_BYTES = 65_536
"""The size of a part of a request's body whose time is measured, in bytes."""
RATE_SECONDS = 60.0
"""The time over which a rate is measured, in seconds; only waits for the network count."""
TOO_SLOW = Failure(
    FailureKind.UNKNOWN,
    timed_out=True,
    text=f"less than {MIN_BYTES_PER_SECOND:,} bytes per second for {RATE_SECONDS:.0f} seconds",
    exception_name="timeout",
)
"""The outcome of an attempt whose request or response is transferred too slowly."""


class SyncDriver:
    """Executes the steps of exchanges in the calling thread.

    Args:
        http: The HTTP client.
        token: The bearer token of every request, if there is one.

    Attributes:
        sleep: The function that replaces delays, in tests.
        monotonic: The clock of the rates and deadlines of bodies.
    """

    def __init__(self, http: httpx2.Client, token: Secret | None) -> None:
        self.http = http
        self.token = token
        self.sleep: Callable[[float], None] | None = None
        self.monotonic: Callable[[], float] = time.monotonic
        limit_waits(http)

    def run(self, steps: Steps[T], cancelled: threading.Event | None = None) -> T:
        """Execute all steps, and return the result.

        Args:
            steps: The steps.
            cancelled: An event that ends delays, and bodies that are being sent. A response that is being
                awaited is not given up, because the host may have stored the image.

        Raises:
            CallCancelledError: `cancelled` was set before the last step.
        """
        with ExitStack() as stack:
            outcome: object = None
            while True:
                try:
                    step = steps.send(outcome)
                except StopIteration as end:
                    result: T = end.value
                    return result
                _require_not_cancelled(cancelled)
                match step:
                    case Open(part):
                        outcome = stack.enter_context(closing(open_file(part.source, part.filename)))
                    case Sleep(seconds):
                        outcome = None
                        if self.sleep is None:
                            _sleep(seconds, cancelled)
                        else:
                            self.sleep(seconds)
                    case Send():
                        outcome = self._send(step, cancelled)

    def _send(self, step: Send, cancelled: threading.Event | None) -> Reply | Failure:
        """Send a request; an image stays unread where the step has a place for the open response."""
        deadline = None if step.time_left is None else self.monotonic() + step.time_left
        content = step.content
        body: bytes | Iterator[bytes] | None
        if isinstance(content, Multipart):
            body = self._sent_in_time(deadline, _until_cancelled(cancelled, content.chunks()))
        else:
            body = content
        with span(step, self.http) as request_span:
            request = self.http.build_request(content=body, **_request(step, request_span))
            outcome: Reply | Failure
            try:
                with limited(step.time_left):
                    response = self.http.send(request, stream=True, **_options(self.token))
                    if step.opened is not None and _has_image(response):
                        step.opened.response = response
                        return request_span.finish(_reply(response, b""))
                    with closing(response):
                        outcome = _reply(response, b"".join(self._received_in_time(deadline, response)))
            except DeadlineError:
                outcome = DEADLINE_EXCEEDED
            except httpx2.RequestError as error:
                outcome = _failure(error)
            except BodyError as error:
                outcome = error.failure
            return request_span.finish(outcome)

    def receive(self, opened: OpenResponse, time_left: float | None) -> Iterator[bytes]:
        """Return the body of an open response in chunks, and close it.

        Args:
            opened: The response.
            time_left: Seconds until the call's deadline, or `None`.

        Raises:
            BodyError: The connection broke, or the deadline has passed.
        """
        response = opened.response
        assert isinstance(response, httpx2.Response)
        deadline = None if time_left is None else self.monotonic() + time_left
        chunks = self._received_in_time(deadline, response)
        try:
            while True:
                # The program may do other work, or use another thread, between two chunks.
                with limited(None if deadline is None else deadline - self.monotonic()):
                    chunk = next(chunks, None)
                if chunk is None:
                    break
                yield chunk
        except DeadlineError:
            failure = DEADLINE_EXCEEDED
        except httpx2.RequestError as error:
            failure = _failure(error)
        else:
            return
        finally:
            self.discard(opened)
        raise BodyError(failure)

    def discard(self, opened: OpenResponse) -> None:
        """Close an open response, whether or not its body was read."""
        if isinstance(opened.response, httpx2.Response):
            opened.response.close()
        opened.response = None

    def _received_in_time(self, deadline: float | None, response: httpx2.Response) -> Iterator[bytes]:
        """Return the body of a response.

        Raises:
            BodyError: It is too slow, or the deadline has passed.
        """
        rate = TransferRate(self.monotonic)
        for chunk in response.iter_bytes():
            if deadline is not None and self.monotonic() > deadline:
                raise BodyError(DEADLINE_EXCEEDED)
            rate.count(len(chunk))
            yield chunk
            rate.restart()

    def _sent_in_time(self, deadline: float | None, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Return the body of a request, as `_received_in_time` does."""
        rate = TransferRate(self.monotonic)
        for chunk in chunks:
            for start in range(0, len(chunk), SENT_BYTES):
                if deadline is not None and self.monotonic() > deadline:
                    raise BodyError(DEADLINE_EXCEEDED)
                rate.restart()
                yield chunk[start : start + SENT_BYTES]
                rate.count(min(SENT_BYTES, len(chunk) - start))


class TransferRate:
    """The bytes of a body since the last measurement, and the time that the network took for them.

    Args:
        monotonic: The clock.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._size, self._seconds = 0, 0.0
        self.restart()

    def restart(self) -> None:
        """Begin to wait for the network."""
        self._began = self._monotonic()

    def count(self, size: int) -> None:
        """Count bytes, and the seconds since the wait for them began.

        Raises:
            BodyError: The rate is too low.
        """
        self._size += size
        self._seconds += self._monotonic() - self._began
        if self._seconds >= RATE_SECONDS:
            if self._size < MIN_BYTES_PER_SECOND * self._seconds:
                raise BodyError(TOO_SLOW)
            self._size, self._seconds = 0, 0.0


class AsyncDriver:
    """Executes the steps of exchanges on an event loop; files are read in worker threads.

    Args:
        http: The HTTP client.
        token: The bearer token of every request, if there is one.

    Attributes:
        sleep: The function that replaces delays, in tests.
        monotonic: The clock of the rates and deadlines of bodies.
    """

    def __init__(self, http: httpx2.AsyncClient, token: Secret | None) -> None:
        self.http = http
        self.token = token
        self.sleep: Callable[[float], None] | None = None
        self.monotonic: Callable[[], float] = time.monotonic

    async def run(self, steps: Steps[T]) -> T:
        """Execute all steps, and return the result."""
        with ExitStack() as stack:
            outcome: object = None
            while True:
                try:
                    step = steps.send(outcome)
                except StopIteration as end:
                    result: T = end.value
                    return result
                match step:
                    case Open(part):
                        source = await _spooled(part.source, stack)
                        file = await run_sync(open_file, source, part.filename)
                        outcome = stack.enter_context(closing(file))
                    case Sleep(seconds):
                        outcome = None
                        if self.sleep is None:
                            await async_sleep(seconds)
                        else:
                            self.sleep(seconds)
                    case Send():
                        outcome = await self._send(step)

    async def receive(self, opened: OpenResponse, time_left: float | None) -> AsyncIterator[bytes]:
        """Return the body of an open response in chunks, and close it.

        Args:
            opened: The response.
            time_left: Seconds until the call's deadline, or `None`.

        Raises:
            BodyError: The connection broke, or the deadline has passed.
        """
        response = opened.response
        assert isinstance(response, httpx2.Response)
        deadline = None if time_left is None else self.monotonic() + time_left
        chunks = response.aiter_bytes()
        rate = TransferRate(self.monotonic)
        failure = DEADLINE_EXCEEDED
        try:
            while True:
                with move_on_after(None if deadline is None else deadline - self.monotonic()) as scope:
                    chunk = await anext(chunks, None)
                if scope.cancelled_caught:
                    break
                if chunk is None:
                    return
                rate.count(len(chunk))
                yield chunk
                rate.restart()
        except httpx2.RequestError as error:
            failure = _failure(error)
        finally:
            await self.discard(opened)
        raise BodyError(failure)

    async def discard(self, opened: OpenResponse) -> None:
        """Close an open response, whether or not its body was read."""
        if isinstance(opened.response, httpx2.Response):
            with CancelScope(shield=True):
                await opened.response.aclose()
        opened.response = None

    async def _send(self, step: Send) -> Reply | Failure:
        """Send a request; an image stays unread where the step has a place for the open response."""
        if isinstance(step.content, Multipart):
            # A request that is cancelled, or answered early, leaves the rest of its body.
            async with aclosing(step.content.achunks()) as chunks:
                return await self._send_body(step, self._sent_in_time(chunks))
        return await self._send_body(step, step.content)

    async def _sent_in_time(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Return the body of a request; raise BodyError if it is too slow."""
        rate = TransferRate(self.monotonic)
        async for chunk in chunks:
            rate.restart()
            yield chunk
            rate.count(len(chunk))

    async def _send_body(self, step: Send, body: bytes | AsyncIterator[bytes] | None) -> Reply | Failure:
        outcome: Reply | Failure = DEADLINE_EXCEEDED
        with span(step, self.http) as request_span:
            request = self.http.build_request(content=body, **_request(step, request_span))
            try:
                with move_on_after(step.time_left):
                    response = await self.http.send(request, stream=True, **_options(self.token))
                    if step.opened is not None and _has_image(response):
                        step.opened.response = response
                        return request_span.finish(_reply(response, b""))
                    async with aclosing(response):
                        content = bytearray()
                        rate = TransferRate(self.monotonic)
                        async for chunk in response.aiter_bytes():
                            rate.count(len(chunk))
                            content += chunk
                            rate.restart()
                        outcome = _reply(response, bytes(content))
            except httpx2.RequestError as error:
                outcome = _failure(error)
            except BodyError as error:
                outcome = error.failure
            return request_span.finish(outcome)


def _require_not_cancelled(cancelled: threading.Event | None) -> None:
    if cancelled is not None and cancelled.is_set():
        raise CallCancelledError


def _sleep(seconds: float, cancelled: threading.Event | None) -> None:
    if cancelled is None:
        time.sleep(seconds)
    else:
        cancelled.wait(seconds)


def _until_cancelled(cancelled: threading.Event | None, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Return the chunks of a request's body, which another thread may abort."""
    for chunk in chunks:
        _require_not_cancelled(cancelled)
        yield chunk


async def _spooled(source: Source, stack: ExitStack) -> Source:
    """Return an upload source with a temporary file instead of an asynchronous iterable of bytes."""
    name, content = source if isinstance(source, tuple) else ("image", source)
    if not isinstance(content, AsyncIterable):
        return source
    copy = stack.enter_context(closing(await run_sync(new_spool)))
    async for chunk in content:
        await run_sync(copy.write, chunk)
    copy.seek(0)
    return name, copy


def _request(step: Send, request_span: NullSpan) -> dict[str, Any]:
    """Return the arguments of httpx2's request."""
    return {
        "method": step.method,
        "url": step.url,
        "headers": {**request_span.headers, **step.headers},
        "timeout": step.timeout,
    }


def _options(token: Secret | None) -> dict[str, Any]:
    """Return how a request is sent; redirects are not followed, the token is added last."""

    def authenticate(request: httpx2.Request) -> httpx2.Request:
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token.get_secret_value()}"
        return request

    return {"auth": authenticate, "follow_redirects": False}


def _has_image(response: httpx2.Response) -> bool:
    return response.status_code in (200, 206) and media_type_of(response.headers).startswith("image/")


def _reply(response: httpx2.Response, body: bytes) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, body)


def _failure(error: httpx2.RequestError) -> Failure:
    kind = FailureKind.NOT_SENT if isinstance(error, CONNECT_ERRORS) else FailureKind.UNKNOWN
    tls_error = next((cause for cause in _causes(error) if isinstance(cause, SSLError)), None)
    # A handshake that is cut, as by a proxy that restarts, can succeed next time.
    if kind is FailureKind.NOT_SENT and tls_error is not None and not isinstance(tls_error, CUT_HANDSHAKES):
        kind = FailureKind.NO_TLS
    reason = str(error) or str(tls_error or "")
    text = f"{type(error).__name__}: {reason}" if reason else type(error).__name__
    if tls_error is not None and tls_error.reason == "WRONG_VERSION_NUMBER":
        text += "; the host speaks HTTP there, not HTTPS: write http:// if it is on this machine"
    proxy = environment_proxy(str(error.request.url)) if kind is FailureKind.NOT_SENT else None
    if isinstance(error, httpx2.ProxyError) or proxy:
        text += f" with the proxy {proxy or 'of http_client'}"
    return Failure(kind, isinstance(error, httpx2.TimeoutException), text, qualified_name(type(error)))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
