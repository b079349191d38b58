"""What does the steps of an exchange: once for threads, once for event loops.

Imported when the first client is made, because httpx2 takes longer to import than the rest together.
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
from imagehost_client._tracing import NullSpan, qualified, span
from imagehost_client.files import open_file

T = TypeVar("T")

CONNECT_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
"""What httpx2 raises before a request can have been seen."""

DEADLINE_EXCEEDED = Failure(
    FailureKind.UNKNOWN, timed_out=True, text="nothing before the deadline", exception_name="timeout"
)
"""What comes of a try that the call's deadline ends: many short waits can be a long one."""


class SyncDriver:
    """Does the steps of exchanges in the caller's thread.

    Args:
        http: What sends.
        token: What signs every request.
    """

    def __init__(self, http: httpx2.Client, token: Secret | None) -> None:
        self.http = http
        self.token = token

    def run(self, steps: Steps[T]) -> T:
        """Do all steps, and return what they lead to."""
        with ExitStack() as held:
            outcome: object = None
            while True:
                try:
                    step = steps.send(outcome)
                except StopIteration as end:
                    result: T = end.value
                    return result
                match step:
                    case Open(part):
                        outcome = held.enter_context(closing(open_file(part.source, part.filename)))
                    case Sleep(seconds):
                        outcome = None
                        time.sleep(seconds)
                    case Send():
                        outcome = self._send(step)

    def _send(self, step: Send) -> Reply | Failure:
        ends = None if step.left is None else time.monotonic() + step.left
        content = step.content
        body = _before_deadline(ends, content.chunks()) if isinstance(content, MultipartBody) else content
        with span(step) as sent:
            try:
                with self.http.stream(content=body, **_request(step, sent, self.token)) as response:
                    outcome: Reply | Failure = _reply(
                        response, b"".join(_before_deadline(ends, response.iter_bytes()))
                    )
            except httpx2.RequestError as error:
                outcome = _failure(error)
            except _DeadlineError:
                outcome = DEADLINE_EXCEEDED
            return sent.finish(outcome)


class AsyncDriver:
    """Does the steps of exchanges on an event loop; files are read by threads.

    Args:
        http: What sends.
        token: What signs every request.
    """

    def __init__(self, http: httpx2.AsyncClient, token: Secret | None) -> None:
        self.http = http
        self.token = token

    async def run(self, steps: Steps[T]) -> T:
        """Do all steps, and return what they lead to."""
        with ExitStack() as held:
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
                        outcome = held.enter_context(closing(file))
                    case Sleep(seconds):
                        outcome = None
                        await async_sleep(seconds)
                    case Send():
                        outcome = await self._send(step)

    async def _send(self, step: Send) -> Reply | Failure:
        content = step.content
        body = content.achunks() if isinstance(content, MultipartBody) else content
        outcome: Reply | Failure = DEADLINE_EXCEEDED
        with span(step) as sent:
            try:
                with move_on_after(step.left):
                    response = await self.http.request(content=body, **_request(step, sent, self.token))
                    outcome = _reply(response, response.content)
            except httpx2.RequestError as error:
                outcome = _failure(error)
            return sent.finish(outcome)


class _DeadlineError(Exception):
    """The call's deadline has come."""


def _before_deadline(ends: float | None, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Return the chunks that come before the deadline.

    Raises:
        _DeadlineError: There are more of them.
    """
    for chunk in chunks:
        if ends is not None and time.monotonic() > ends:
            raise _DeadlineError
        yield chunk


def _request(step: Send, sent: NullSpan, token: Secret | None) -> dict[str, Any]:
    """Return how httpx2 is to send: never to another place than was asked, the token put in last."""

    def sign(request: httpx2.Request) -> httpx2.Request:
        if token is not None:
            request.headers["Authorization"] = f"Bearer {token.get_secret_value()}"
        return request

    return {
        "method": step.method,
        "url": step.url,
        "headers": {**sent.headers, **step.headers},
        "timeout": step.timeout,
        "auth": sign,
        "follow_redirects": False,
    }


def _reply(response: httpx2.Response, body: bytes) -> Reply:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, body)


def _failure(error: httpx2.RequestError) -> Failure:
    trouble = FailureKind.NOT_SENT if isinstance(error, CONNECT_ERRORS) else FailureKind.UNKNOWN
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Failure(trouble, isinstance(error, httpx2.TimeoutException), text, qualified(type(error)))
