"""The I/O-free protocol of a call: a generator of steps, shared by both clients.

It yields steps (`Open`, `Send`, `Sleep`), and a driver sends their outcomes back. It implements retries
with one idempotency key for all attempts, deadlines, pacing and response handling. Errors are raised
here, outside of `except` blocks, so no frame of their tracebacks contains a token.
"""

from __future__ import annotations

import json
import logging
import os
import random
import time
from collections.abc import Callable, Generator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from attrs import define, evolve, field, frozen

from imagehost_client import _wire
from imagehost_client._calls.call import Call, FilePart, OpenResponse, with_meta
from imagehost_client._config import Config, __version__
from imagehost_client._multipart import (
    Multipart,
    MultipartBody,
    boundary_for,
    build_forms,
)
from imagehost_client._pacing import RateLimitPacer
from imagehost_client._redact import redact_headers
from imagehost_client._retry import (
    FailureKind,
    Random,
    may_be_processed,
    parse_retry_after,
    retry_delay,
    should_retry,
)
from imagehost_client._types import Unset
from imagehost_client.errors import (
    APIConnectionError,
    APITimeoutError,
    ChecksumError,
    ImageHostError,
    NotFoundError,
)
from imagehost_client.files import File
from imagehost_client.models import Image, RawResponse

T = TypeVar("T")
log = logging.getLogger("imagehost_client")

NOTICE_SECONDS = 5.0
"""The shortest wait of which the program is told, in seconds."""
SLEEP_SECONDS = 30.0
"""How much longer than its limit an attempt takes at least where the system has slept meanwhile."""
USER_AGENT = f"imagehost-client/{__version__}"


@frozen
class Open:
    """Open the file of an upload; the outcome is a `File`, which the driver closes after the call."""

    part: FilePart


@frozen
class Send:
    """Send a request; the outcome is a `Reply` or a `Failure`.

    Attributes:
        content: The body, or `None`.
        timeout: The network timeout in seconds, or `None`.
        time_left: Seconds until the call's deadline, or `None`.
        resend_count: The number of previous attempts.
        opened: Where to put the response, if it has an image, without reading its body.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | Multipart | None
    timeout: float | None = None
    time_left: float | None = None
    resend_count: int = 0
    opened: OpenResponse | None = None


@frozen
class Sleep:
    """Wait for a number of seconds.

    Attributes:
        reason: What is waited for, if the program is to know.
    """

    seconds: float
    reason: str = ""


@frozen
class Reply:
    """A response; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@frozen
class Failure:
    """An attempt without a response.

    Attributes:
        kind: Whether the host may have processed the request.
        timed_out: Whether the attempt timed out.
        text: The description for errors and logs.
        exception_name: The qualified name of the exception's class.
    """

    kind: FailureKind
    timed_out: bool
    text: str
    exception_name: str = ""


class BodyError(Exception):
    """The connection broke while the body of an open response was read.

    Attributes:
        failure: What has happened.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class CallCancelledError(Exception):
    """Another thread has cancelled the call before it ended."""


Step = Open | Send | Sleep
Steps = Generator[Step, object, T]
Calls = Generator[Call[Any] | Sleep, Any, T]
"""A sequence of calls and delays, each of which may depend on the results of those before it."""


def random_key() -> str:
    """Return a new idempotency key."""
    return os.urandom(16).hex()


@define
class Environment:
    """The clock, the random source and the rate limit state of a client; tests inject their own.

    Attributes:
        on_wait: A function for the text of each long wait; by default the first one is logged.
    """

    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    monotonic: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    new_key: Callable[[], str] = random_key
    pacer: RateLimitPacer = field(factory=RateLimitPacer)
    on_wait: Callable[[str], object] | None = None
    _has_logged: bool = False

    def announce(self, sleep: Sleep) -> Sleep:
        """Return a delay that the program knows of if it is long."""
        if sleep.reason and sleep.seconds >= NOTICE_SECONDS:
            text = f"waiting {sleep.seconds:.0f} s for {sleep.reason}"
            if self.on_wait is not None:
                self.on_wait(text)
            elif not self._has_logged:
                self._has_logged = True
                log.warning(text)
        return sleep


@define
class TimeLimit:
    """The time limit of a call with all its attempts and delays.

    Attributes:
        seconds: The limit; `None` for none.
        is_default: Whether the caller has set none. Then what the host asks for or the rate limit requires
            does not count, nor does an attempt that the system has slept through.
    """

    seconds: float | None
    is_default: bool
    environment: Environment
    _began: float = field(init=False)

    @classmethod
    def of(cls, config: Config, environment: Environment, call: Call[T] | None = None) -> TimeLimit:
        """Return the limit that begins now: of a call, or of the transfer of a file."""
        if not isinstance(config.deadline, Unset):
            return cls(config.deadline, False, environment)
        is_json = call is not None and not call.files and not call.binary
        return cls(config.default_deadline() if is_json else None, True, environment)

    def __attrs_post_init__(self) -> None:
        self._began = self.environment.monotonic()

    def left(self) -> float | None:
        """Return the seconds that are left; never 0, which means no timeout to httpx2."""
        return None if self.seconds is None else max(self.seconds - self._elapsed(), 0.001)

    def allows(self, delay: float) -> bool:
        """Return whether an attempt may begin after a delay, in seconds."""
        return self.seconds is None or self._elapsed() + delay < self.seconds

    def _elapsed(self) -> float:
        return self.environment.monotonic() - self._began

    def exclude(self, seconds: float) -> None:
        """Do not count some time in the default limit."""
        if self.is_default:
            self._began += seconds

    def exclude_sleep(self, seconds: float) -> None:
        """Do not count an attempt that took longer than it can while the system is awake."""
        if self.seconds is not None and seconds > self.seconds + SLEEP_SECONDS:
            self.exclude(seconds)


def exchange(call: Call[T], config: Config, environment: Environment) -> Steps[T]:
    """Run a call with its retries, and return its result, as `raw_exchange` does."""
    return (yield from raw_exchange(call, config, environment)).parsed


def raw_exchange(call: Call[T], config: Config, environment: Environment) -> Steps[RawResponse[T]]:
    """Run a call with its retries, and return the last response with its result.

    Args:
        call: The operation.
        config: The client's settings.
        environment: The clock and the random source.

    Raises:
        ImageHostError: An attempt failed, and no retry is allowed or left.
    """
    limit = TimeLimit.of(config, environment, call)
    key = None if call.key is None else call.key or environment.new_key()
    files: list[File] = []
    for part in call.files:
        file = cast("File", (yield Open(part)))
        files.append(file)
    content = _content(call, files, key)
    query = (*call.query, *config.extra_query.items())
    send = Send(
        method=call.method,
        url=f"{config.base_url}{call.path}" + (f"?{urlencode(query)}" if query else ""),
        headers={**config.extra_headers, **_headers(call, config, content, key)},
        content=content,
        opened=call.opened,
    )
    attempts, is_repeated = 0, False
    while True:
        yield from _await_rate_limit(call, config, environment, limit)
        sent_at = environment.monotonic()
        left = limit.left()
        timeout = min_timeout(config.timeout, left)
        outcome = yield evolve(send, timeout=timeout, time_left=left, resend_count=attempts)
        limit.exclude_sleep(environment.monotonic() - sent_at)
        attempts += 1
        assert isinstance(outcome, Reply | Failure)
        result = _result(call, outcome, config, limit, environment, attempts, is_repeated)
        _log_outcome(call, outcome, attempts)
        if not isinstance(result, ImageHostError):
            assert isinstance(outcome, Reply)
            return RawResponse(
                status=outcome.status,
                headers=outcome.headers,
                content=outcome.body,
                parsed=_verify_checksum(call, content, result),
                meta=_wire.read_meta(outcome.headers, attempts),
            )
        cause = outcome.kind if isinstance(outcome, Failure) else outcome.status
        is_repeated = is_repeated or may_be_processed(cause)
        delay = _delay_before_retry(
            call, cause, result.retry_after, config, limit, attempts, environment.random
        )
        if delay is None:
            raise result
        if result.retry_after is not None:
            limit.exclude(delay)
        reason = _limit_name(call) if result.rate_limit and cause == 429 else f"the host (status {cause})"
        yield environment.announce(Sleep(delay, reason))


def _delay_before_retry(
    call: Call[T],
    cause: FailureKind | int,
    retry_after: float | None,
    config: Config,
    limit: TimeLimit,
    attempts: int,
    random: Random,
) -> float | None:
    """Return the delay before the next attempt, or `None` for no retry; log the reason."""
    delay = retry_delay(config.retry, attempts, retry_after=retry_after, random=random)
    reason = f"status {cause}" if isinstance(cause, int) else cause.value
    if not should_retry(cause, idempotent=call.idempotent, retry_after=retry_after):
        delay, reason = None, f"{reason} is not retryable"
    elif attempts > config.retry.max_retries:
        reason = f"{reason}, max_retries reached"
    elif delay is None:
        reason = f"{reason}, Retry-After exceeds {config.retry.max_retry_after:g} s"
    elif not limit.allows(0.0 if limit.is_default and retry_after is not None else delay):
        delay, reason = None, f"{reason}, deadline reached"
    log.debug(
        "%s: method=%s path=%s attempt=%d delay=%s reason=%s",
        "not retrying" if delay is None else "retrying",
        call.method,
        call.path,
        attempts,
        "none" if delay is None else f"{delay:.2f}s",
        reason,
    )
    return delay


def _limits(failure: Failure, config: Config, limit: TimeLimit) -> str:
    """Return the limits of an attempt that timed out, with their seconds."""
    limits = {"timeout": config.timeout, "deadline": limit.seconds} if failure.timed_out else {}
    return "".join(f"; {name}: {value:g} seconds" for name, value in limits.items() if value is not None)


def _result(
    call: Call[T],
    outcome: Reply | Failure,
    config: Config,
    limit: TimeLimit,
    environment: Environment,
    attempts: int,
    is_repeated: bool,
) -> T | ImageHostError:
    """Return the result of an attempt, or its error, without raising it.

    Args:
        call: The operation.
        outcome: The outcome of the attempt.
        config: The client's settings.
        limit: The time limit of the call.
        environment: The clock, and the rate limit state.
        attempts: The number of attempts so far, from 1.
        is_repeated: Whether the host may have processed an earlier attempt.
    """
    if isinstance(outcome, Failure):
        return connection_error(
            outcome,
            f"expected a response from {config.base_url} for {call.method} {call.path} "
            f"but received {outcome.text}{_limits(outcome, config, limit)}; attempts: {attempts}",
        )
    meta = _wire.read_meta(outcome.headers, attempts)
    if meta.rate_limit is not None:
        environment.pacer.update(meta.rate_limit, upload=bool(call.files))
    retry_after = parse_retry_after(outcome.headers, outcome.status, environment.now())
    read = _wire.read_head if call.opened else _wire.read_image if call.binary else _wire.read_data
    try:
        data = read(outcome.status, outcome.headers, outcome.body, meta=meta, retry_after=retry_after)
        result = call.decode(data)
        if meta.rate_limit is None:
            environment.pacer.update_unlimited(upload=bool(call.files))
        if is_repeated and call.on_repeat is not None:
            result = call.on_repeat(result)
        return with_meta(result, meta)
    except NotFoundError as error:
        # An earlier attempt may have deleted the resource, and its response been lost.
        if is_repeated and call.on_not_found is not None:
            return with_meta(call.on_not_found, meta)
        return error.with_traceback(None)
    except ImageHostError as error:
        error.request_id, error.status = meta.request_id, error.status or outcome.status
        error.rate_limit = meta.rate_limit
        return error.with_traceback(None)


def connection_error(failure: Failure, details: str) -> APIConnectionError:
    """Return the error of an attempt without a complete response."""
    kind = APITimeoutError if failure.timed_out else APIConnectionError
    error = kind(details)
    error.is_sent = may_be_processed(failure.kind)
    return error


def _verify_checksum(call: Call[T], content: bytes | Multipart | None, result: T) -> T:
    """Return `result`; raise ChecksumError if verification was requested and the checksums differ."""
    if not any(part.checksum for part in call.files):
        return result
    assert isinstance(content, Multipart)
    assert isinstance(result, Image)
    (body,) = content.bodies
    if result.sha256 == body.sha256:
        return result
    raise ChecksumError(
        f"expected SHA-256 {body.sha256} ({body.file.size} bytes) for {body.file.name} but received "
        f"{result.sha256} ({result.size} bytes) for image {result.id}",
        request_id=result.meta.request_id,
        rate_limit=result.meta.rate_limit,
    )


def _content(call: Call[T], files: list[File], key: str | None) -> bytes | Multipart | None:
    if files:
        forms = build_forms(call.fields, files, name=call.file_field, boundary=boundary_for(key or ""))
        return Multipart(
            tuple(
                MultipartBody(form, file, part.progress)
                for form, file, part in zip(forms, files, call.files, strict=True)
            )
        )
    return None if call.body is None else json.dumps(call.body).encode()


def _headers(
    call: Call[T], config: Config, content: bytes | Multipart | None, key: str | None
) -> dict[str, str]:
    user_agent = f"{config.app_info} {USER_AGENT}" if config.app_info else USER_AGENT
    headers = {"Accept": "*/*" if call.binary else "application/json", "User-Agent": user_agent}
    headers |= call.headers
    if isinstance(content, Multipart):
        headers |= {"Content-Type": content.form.content_type, "Content-Length": str(content.length)}
    elif content is not None:
        headers |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
    if key is not None:
        headers["Idempotency-Key"] = key
    return headers


def min_timeout(one: float | None, other: float | None) -> float | None:
    """Return the shorter of two timeouts, where `None` means no timeout."""
    return min((seconds for seconds in (one, other) if seconds is not None), default=None)


def _await_rate_limit(
    call: Call[T], config: Config, environment: Environment, limit: TimeLimit
) -> Steps[None]:
    """With `pace`, wait for the rate limit window to end, at most until the deadline."""
    upload, max_wait = bool(call.files), config.retry.max_retry_after
    while config.pace:
        wait = environment.pacer.acquire(environment.now(), upload=upload, max_wait=max_wait)
        if not wait:
            return
        limit.exclude(wait)
        seconds_left = None if limit.is_default else limit.left()
        yield environment.announce(Sleep(min_timeout(wait, seconds_left) or 0.0, _limit_name(call)))
        if seconds_left is not None and seconds_left <= wait:
            return


def _limit_name(call: Call[T]) -> str:
    name = "uploads_per_minute" if call.files else "api_per_minute"
    return f"the account's rate limit; an operator raises it: imagehost users update NAME --limit {name}=N"


def _log_outcome(call: Call[T], outcome: Reply | Failure, attempts: int) -> None:
    if isinstance(outcome, Failure):
        log.info(
            "request failed: method=%s path=%s attempt=%d error=%s",
            call.method,
            call.path,
            attempts,
            outcome.text,
        )
    elif log.isEnabledFor(logging.DEBUG):
        log.debug(
            "response received: method=%s path=%s attempt=%d status=%d headers=%s",
            call.method,
            call.path,
            attempts,
            outcome.status,
            redact_headers(outcome.headers),
        )
