"""How a call is made: one generator of steps, the same for both clients.

It yields what is to be done (`Open`, `Send`, `Sleep`) and is sent what came of it, so it does no input
or output of its own. Everything that must be alike in both clients lives here: retries, one idempotency
key over all tries, deadlines, pacing, and what becomes of an answer. Errors are raised here, outside any
`except`, so their tracebacks lead through no frame that holds a token.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
from collections.abc import Callable, Generator, Mapping
from datetime import UTC, datetime
from typing import TypeVar, cast
from urllib.parse import urlencode

from attrs import define, field, frozen

from imagehost_client import _wire
from imagehost_client._calls import Call, FilePart, with_meta
from imagehost_client._config import Config
from imagehost_client._multipart import MultipartBody, boundary_for, form
from imagehost_client._pacing import RateLimitPacer
from imagehost_client._redact import redact_headers
from imagehost_client._retry import FailureKind, parse_retry_after, retry_delay, should_retry
from imagehost_client._version import __version__
from imagehost_client.errors import (
    APIConnectionError,
    APITimeoutError,
    ChecksumError,
    ImageHostError,
    NotFoundError,
)
from imagehost_client.files import File
from imagehost_client.models import Image

T = TypeVar("T")
log = logging.getLogger("imagehost_client")

USER_AGENT = f"imagehost-client/{__version__}"


@frozen
class Open:
    """Make the file ready; the answer is a `File`, which is closed when the call ends."""

    part: FilePart


@frozen
class Send:
    """Send this request; the answer is a `Reply` or a `Failure`.

    Attributes:
        content: The body, or `None`.
        timeout: Seconds to wait for the network, or `None`.
        left: Seconds until the call's deadline, or `None`.
        resends: How many times the request was sent before.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | MultipartBody | None
    timeout: float | None
    left: float | None = None
    resends: int = 0


@frozen
class Sleep:
    """Wait so many seconds."""

    seconds: float


@frozen
class Reply:
    """What the host answered; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@frozen
class Failure:
    """Why no answer came.

    Attributes:
        trouble: Whether the request may have been seen.
        late: Whether time ran out.
        text: What happened, for people.
        kind: The full name of the exception's class.
    """

    kind: FailureKind
    timed_out: bool
    text: str
    exception_name: str = ""


Step = Open | Send | Sleep
Steps = Generator[Step, object, T]


@define
class Environment:
    """Time and chance, and what is left of the rate limit; one for each client."""

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    new_key: Callable[[], str] = lambda: os.urandom(16).hex()
    pace: RateLimitPacer = field(factory=RateLimitPacer)


def exchange(call: Call[T], config: Config, world: Environment) -> Steps[T]:
    """Make a call, and return its result.

    Args:
        call: The operation.
        config: The client's settings.
        world: Time and chance.

    Raises:
        ImageHostError: The last try failed, or the first one in a way that no other try would mend.
    """
    began = world.monotonic()
    key = None if call.key is None else call.key or world.new_key()
    file = cast("File", (yield Open(call.file))) if call.file else None
    content = _content(call, file, key)
    tries = 0
    while True:
        yield from _await_rate_limit(call, config, world, began)
        outcome = yield _send(call, config, _time_left(config, world, began), content, key, tries)
        tries += 1
        assert isinstance(outcome, Reply | Failure)
        result = _result(call, outcome, config, world, tries)
        _log(call, outcome, tries)
        if not isinstance(result, ImageHostError):
            return _verify_checksum(call, content, result)
        cause = outcome.kind if isinstance(outcome, Failure) else outcome.status
        if not should_retry(cause, repeatable=call.idempotent, retry_after=result.retry_after):
            raise result
        seconds = retry_delay(config.retry, tries, retry_after=result.retry_after, random=world.random)
        if seconds is None or (config.deadline and world.monotonic() - began + seconds >= config.deadline):
            raise result
        yield Sleep(seconds)


def _send(
    call: Call[T],
    config: Config,
    left: float | None,
    content: bytes | MultipartBody | None,
    key: str | None,
    resends: int,
) -> Send:
    return Send(
        method=call.method,
        url=f"{config.base_url}{call.path}" + (f"?{urlencode(call.query)}" if call.query else ""),
        headers=_headers(call, content, key),
        content=content,
        timeout=_min_timeout(config.timeout, left),
        left=left,
        resends=resends,
    )


def _result(
    call: Call[T], outcome: Reply | Failure, config: Config, world: Environment, tries: int
) -> T | ImageHostError:
    """Return the call's result, or the error that its outcome is; nothing is raised."""
    if isinstance(outcome, Failure):
        kind = APITimeoutError if outcome.timed_out else APIConnectionError
        return kind(
            f"expected an answer from {config.base_url} to {call.method} {call.path} "
            f"but received {outcome.text}; tries: {tries}"
        )
    meta = _wire.read_meta(outcome.headers, tries)
    if meta.rate_limit is not None:
        world.pace.update(meta.rate_limit, upload=call.file is not None)
    named = parse_retry_after(outcome.headers, outcome.status, world.now())
    read = _wire.read_image if call.binary else _wire.read_data
    try:
        data = read(outcome.status, outcome.headers, outcome.body, meta=meta, wait=named)
        return with_meta(call.decode(data), meta)
    except NotFoundError as error:
        # An earlier try of this very call may have done what it asks, its answer lost on the way.
        return (
            error.with_traceback(None)
            if tries == 1 or call.on_not_found is None
            else with_meta(call.on_not_found, meta)
        )
    except ImageHostError as error:
        error.request_id, error.status = meta.request_id, error.status or outcome.status
        error.rate_limit = meta.rate_limit
        return error.with_traceback(None)


def _verify_checksum(call: Call[T], content: bytes | MultipartBody | None, result: T) -> T:
    """Return the result of an upload whose stored bytes are the sent ones, where that was asked for."""
    if call.file is None or not call.file.checksum:
        return result
    assert isinstance(content, MultipartBody)
    assert isinstance(result, Image)
    if result.sha256 == content.sha256:
        return result
    raise ChecksumError(
        f"expected SHA-256 {content.sha256} ({content.file.size} bytes) for {content.file.name} but received "
        f"{result.sha256} ({result.size} bytes) for image {result.id}",
        request_id=result.meta.request_id,
        rate_limit=result.meta.rate_limit,
    )


def _content(call: Call[T], file: File | None, key: str | None) -> bytes | MultipartBody | None:
    if file is not None and call.file is not None:
        boundary = boundary_for(key or "")
        around = form(
            call.fields, name="image", filename=file.name, media_type=file.media_type, boundary=boundary
        )
        return MultipartBody(around, file, call.file.progress)
    return None if call.body is None else json.dumps(call.body).encode()


def _headers(call: Call[T], content: bytes | MultipartBody | None, key: str | None) -> dict[str, str]:
    headers = {"Accept": "*/*" if call.binary else "application/json", "User-Agent": USER_AGENT}
    if isinstance(content, MultipartBody):
        headers |= {"Content-Type": content.form.content_type, "Content-Length": str(content.length)}
    elif content is not None:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    if key is not None:
        headers["Idempotency-Key"] = key
    return headers


def _time_left(config: Config, world: Environment, began: float) -> float | None:
    """Return the seconds until the call's deadline; never 0, which httpx2 would take for no timeout."""
    if config.deadline is None:
        return None
    return max(config.deadline - (world.monotonic() - began), 0.001)


def _min_timeout(one: float | None, other: float | None) -> float | None:
    """Return the shorter of two times, where `None` is for ever."""
    return min((seconds for seconds in (one, other) if seconds is not None), default=None)


def _await_rate_limit(call: Call[T], config: Config, world: Environment, began: float) -> Steps[None]:
    """Wait until the rate limit has room, where the client is to wait for it; at most until the deadline."""
    upload, longest = call.file is not None, config.retry.max_retry_after
    while config.pace and (pause := world.pace.acquire(world.now(), upload=upload, longest=longest)):
        left = _time_left(config, world, began)
        yield Sleep(_min_timeout(pause, left) or 0.0)
        if left is not None and left <= pause:
            return


def _log(call: Call[T], outcome: Reply | Failure, tries: int) -> None:
    if isinstance(outcome, Failure):
        log.info("%s %s: %s (try %d)", call.method, call.path, outcome.text, tries)
    elif log.isEnabledFor(logging.DEBUG):
        log.debug(
            "%s %s: %d %s (try %d)",
            call.method,
            call.path,
            outcome.status,
            redact_headers(outcome.headers),
            tries,
        )
