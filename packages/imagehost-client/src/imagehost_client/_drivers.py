"""Drivers that execute the steps of an exchange: one synchronous, one asynchronous.

Imported when the first client is created, because httpx2 is slow to import.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from typing import Any, TypeVar

import httpx2
from anyio import move_on_after  # comes with httpx2
from anyio import sleep as async_sleep
from anyio.to_thread import run_sync

from imagehost_client._exchange import Failure, Open, Reply, Send, Sleep, Steps
from imagehost_client._multipart import MultipartBody
from imagehost_client._redact import Secret
from imagehost_client._retry import FailureKind
from imagehost_client._tracing import NullSpan, qualified_name, span
from imagehost_client.files import open_file

T = TypeVar("T")

CONNECT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""The exceptions of httpx2 that are raised before a request is sent."""

DEADLINE_EXCEEDED = Failure(
    FailureKind.UNKNOWN,
    timed_out=True,
    text="no response before the deadline",
    exception_name="timeout",
)
"""The outcome of an attempt that the call's deadline ends."""


class SyncDriver:
    """Executes the steps of exchanges in the calling thread.

    Args:
        http: The HTTP client.
        token: The bearer token of every request, if there is one.
    """

    def __init__(self, http: httpx2.Client, token: Secret | None) -> None:
        self.http = http
        self.token = token

    def run(self, steps: Steps[T]) -> T:
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
                        outcome = stack.enter_context(closing(open_file(part.source, part.filename)))
                    case Sleep(seconds):
                        outcome = None
                        time.sleep(seconds)
                    case Send():
                        outcome = self._send(step)

    def _send(self, step: Send) -> Reply | Failure:
        deadline = None if step.time_left is None else time.monotonic() + step.time_left
        content = step.content
        body = _before_deadline(deadline, content.chunks()) if isinstance(content, MultipartBody) else content
        with span(step) as request_span:
            try:
                with self.http.stream(content=body, **_request(step, request_span, self.token)) as response:
                    outcome: Reply | Failure = _reply(
                        response, b"".join(_before_deadline(deadline, response.iter_bytes()))
                    )
            except httpx2.RequestError as error:
                outcome = _failure(error)
            except _DeadlineError:
                outcome = DEADLINE_EXCEEDED
            return request_span.finish(outcome)


class AsyncDriver:
    """Executes the steps of exchanges on an event loop; files are read in worker threads.

    Args:
        http: The HTTP client.
        token: The bearer token of every request, if there is one.
    """

    def __init__(self, http: httpx2.AsyncClient, token: Secret | None) -> None:
        self.http = http
        self.token = token

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
                        file = await run_sync(open_file, part.source, part.filename)
                        outcome = stack.enter_context(closing(file))
                    case Sleep(seconds):
                        outcome = None
                        await async_sleep(seconds)
                    case Send():
                        outcome = await self._send(step)

    async def _send(self, step: Send) -> Reply | Failure:
        content = step.content
        body = content.achunks() if isinstance(content, MultipartBody) else content
        outcome: Reply | Failure = DEADLINE_EXCEEDED
        with span(step) as request_span:
            try:
                with move_on_after(step.time_left):
                    response = await self.http.request(
                        content=body, **_request(step, request_span, self.token)
                    )
                    outcome = _reply(response, response.content)
            except httpx2.RequestError as error:
                outcome = _failure(error)
            return request_span.finish(outcome)


class _DeadlineError(Exception):
    """The call's deadline has passed."""


def _before_deadline(deadline: float | None, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Return the chunks, until the deadline passes.

    Args:
        deadline: A time of the monotonic clock, or `None`.
        chunks: The chunks of a body.

    Raises:
        _DeadlineError: The deadline has passed before the last chunk.
    """
    for chunk in chunks:
        if deadline is not None and time.monotonic() > deadline:
            raise _DeadlineError
        yield chunk


def _request(step: Send, request_span: NullSpan, token: Secret | None) -> dict[str, Any]:
    """Return the arguments of httpx2's request; redirects are not followed, the token is added last."""

    def authenticate(request: httpx2.Request) -> httpx2.Request:
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token.get_secret_value()}"
        return request

    return {
        "method": step.method,
        "url": step.url,
        "headers": {**request_span.headers, **step.headers},
        "timeout": step.timeout,
        "auth": authenticate,
        "follow_redirects": False,
    }


def _reply(response: httpx2.Response, body: bytes) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, body)


def _failure(error: httpx2.RequestError) -> Failure:
    kind = FailureKind.NOT_SENT if isinstance(error, CONNECT_ERRORS) else FailureKind.UNKNOWN
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Failure(kind, isinstance(error, httpx2.TimeoutException), text, qualified_name(type(error)))
