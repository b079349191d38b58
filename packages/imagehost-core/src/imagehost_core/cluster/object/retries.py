"""Retries of requests to an object store: bounded by one deadline, and refused while it does not respond.

Errors have no credentials.
"""

from __future__ import annotations

import logging
import math
import random
import re
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from attrs import field, frozen
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from imagehost_core.errors import UnavailableError
from imagehost_core.observer import Observer, StoreRequestEnded, ignore

T = TypeVar("T")
_DENIED = (PermissionDeniedError, UnauthenticatedError)
_STATUS = re.compile(r"status code: 4(?!08|29)[0-9]{2}")
"""A status in a message that a repeated request would receive again."""
_OUTCOMES = (FileNotFoundError, AlreadyExistsError, PreconditionError)
"""Responses of the store that are results, not failures."""
_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.05, 1.0
MAX_RETRY_SECONDS = 3.0
"""How long after its first failure a request is sent again."""
PAUSE_SECONDS = 2.0
"""The time between two probes of a store that does not respond."""
_QUERY = re.compile(r"\?[^\s,)]*")
"""The query of a URL in a message; that of Azure can have a signature."""

_NOT_SENT = "error sending request"
_CERTIFICATE = re.compile(r"InvalidCertificate\((?:\s*Other\(\s*OtherError\()?\s*(\w+)")
_REASON = re.compile(r'\b(?:message|error): "([^"]*)"')
"""What the debugging text after a message adds about a request that could not be sent."""

NO_RESPONSE = "expected a response of the image store but received none in time"
"""The details of the error of an operation that a store did not carry out."""

log = logging.getLogger(__name__)


class ObjectStoreError(Exception):
    """A request to the object store that failed; the message has no credentials."""


class IncompleteObjectError(Exception):
    """A body from the object store that ended early, or was changed in transit."""


def _start_thread(run: Callable[[], object]) -> None:
    threading.Thread(target=run, name="imagehost-store-probe", daemon=True).start()


class CircuitBreaker:
    """Refuses the operations of all threads at once, from the one that gives up until the store responds.

    It is closed, or open with a time for the next probe; the first probe follows at once. The first operation
    after that time has the store probed, by one request beside it, and no operation waits for that.

    Args:
        probe: Sends a request; raises an exception unless the store responds.
        clock: The source of monotonic time in seconds.
        start: Runs the probe, by default in a thread.
    """

    def __init__(
        self,
        probe: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
        start: Callable[[Callable[[], object]], object] = _start_thread,
    ) -> None:
        self._probe, self._clock, self._start = probe, clock, start
        self._lock = threading.Lock()
        # `None` while it is closed; infinite during a probe.
        self._probe_at: float | None = None

    def require_closed(self) -> None:
        """Raise UnavailableError with the time until the next probe if it is open, and probe if it is due."""
        with self._lock:
            if self._probe_at is None:
                return
            now = self._clock()
            seconds = self._probe_at - now if self._probe_at < math.inf else PAUSE_SECONDS
            if is_due := seconds <= 0:
                self._probe_at = math.inf
        if is_due:
            self._start(self._run_probe)
        raise UnavailableError(NO_RESPONSE, retry_after=max(1, math.ceil(seconds)))

    def open(self, error: ObjectStoreError) -> None:
        """Refuse operations from now on, after one has given up, and probe: it may be the only one."""
        with self._lock:
            was_open, self._probe_at = self._probe_at is not None, self._probe_at or math.inf
        if not was_open:
            log.warning("object store does not respond: %s", error)
            self._start(self._run_probe)

    def close(self) -> None:
        """Accept operations, as the store has responded."""
        with self._lock:
            was_open, self._probe_at = self._probe_at is not None, None
        if was_open:
            log.warning("object store responds again")

    def _run_probe(self) -> None:
        try:
            self._probe()
        except Exception:
            with self._lock:
                if self._probe_at is not None:
                    self._probe_at = self._clock() + PAUSE_SECONDS
        else:
            self.close()


@frozen
class RetryPolicy:
    """The bounds of the requests of one operation.

    No request is sent after half of the time, and each may take the other half, so that the operation ends
    within the time; nor `MAX_RETRY_SECONDS` after the first failure.

    Attributes:
        seconds: The longest duration of an operation; requests time out after half of it.
        breaker: Refuses operations while the store does not respond.
        clock: The source of monotonic time in seconds.
        sleep: Waits for a number of seconds.
        jitter: Returns a factor from 0 to 1.
        observe: Receives the measurement of each request.
    """

    seconds: float
    breaker: CircuitBreaker | None = field(default=None, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)
    jitter: Callable[[], float] = field(default=random.random, repr=False)
    observe: Observer = field(default=ignore, repr=False)

    def start(self) -> float:
        """Return the time until which requests of an operation that begins now may be sent."""
        return self.clock() + self.seconds / 2

    def run(self, request: Callable[[], T], what: str, until: float | None = None) -> T:
        """Return the result of a request, sent again after failures that can be temporary.

        Args:
            request: Sends the request.
            what: The operation and its object, for messages and measurements.
            until: The time from `start` after which no request is sent; by default that of a new operation.

        Raises:
            FileNotFoundError: There is no such object.
            AlreadyExistsError: There is an object already.
            PreconditionError: The object has changed.
            UnavailableError: The store denied access, or did not respond in time.
        """
        last = self.start() if until is None else until
        delay = _FIRST_DELAY_SECONDS
        is_first = True
        while True:
            if self.breaker is not None:
                self.breaker.require_closed()
            started = self.clock()
            try:
                result = request()
            except _OUTCOMES:
                self._record_response(what, started)
                raise
            except (BaseError, IncompleteObjectError) as error:
                self._measure(what, started, succeeded=False)
                cause = failure(what, error)
                if is_rejection(error):
                    raise UnavailableError(NO_RESPONSE) from cause
                if is_first:
                    last, is_first = min(last, self.clock() + MAX_RETRY_SECONDS), False
                wait = delay * (0.5 + self.jitter() / 2)
                if self.clock() + wait >= last:
                    if self.breaker is not None:
                        self.breaker.open(cause)
                    raise UnavailableError(NO_RESPONSE, retry_after=math.ceil(PAUSE_SECONDS)) from cause
                log.info(
                    "object store request failed, retrying: operation=%s error=%s", what, describe(error)
                )
                self.sleep(wait)
                delay = min(2 * delay, _MAX_DELAY_SECONDS)
            else:
                self._record_response(what, started)
                return result

    def _record_response(self, what: str, started: float) -> None:
        self._measure(what, started, succeeded=True)
        if self.breaker is not None:
            self.breaker.close()

    def _measure(self, what: str, started: float, *, succeeded: bool) -> None:
        operation = what.partition(" ")[0]
        self.observe(StoreRequestEnded(operation, succeeded, self.clock() - started))


def failure(what: str, error: BaseException) -> ObjectStoreError:
    """Return the cause of an UnavailableError, for the log only: what a store did not carry out, and why."""
    return ObjectStoreError(f"{what}: {describe(error)}")


def is_rejection(error: BaseException) -> bool:
    """Return whether a store has rejected a request or is another, so that repeating it is of no use."""
    text = str(error)
    is_refused = isinstance(error, (*_DENIED, FileNotFoundError)) or _STATUS.search(text) is not None
    return is_refused or _CERTIFICATE.search(text) is not None


def describe(error: BaseException) -> str:
    """Return the message of an error of a store in one line, without the queries of URLs and the response."""
    text = str(error)
    message = _QUERY.sub("", text.partition("\n")[0].partition(": <?xml")[0])
    if certificate := _CERTIFICATE.search(text):
        message += f": invalid certificate: {certificate[1]}"
    elif _NOT_SENT in message and (reason := _REASON.search(text)):
        message += f": {reason[1]}"
    return f"{type(error).__name__}: {message}"
