"""Client-side pacing: waiting for the rate limit window instead of exceeding the limit.

Uploads and other requests have separate rate limits, hence two states. A request is counted before it is
sent, so that concurrent threads do not use the same remaining request. All clients of a process with the same
host and token share one pacer.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from attrs import evolve

from imagehost_client._redact import Secret
from imagehost_client.models import RateLimit

MIN_WINDOW = timedelta(minutes=1)
"""The assumed length of a new window until the next response: the shortest window of a host."""


class RateLimitPacer:
    """The rate limits as of the latest responses; thread-safe."""

    def __init__(self) -> None:
        self._states: dict[bool, RateLimit | None] = {}
        self._lock = threading.Lock()

    def update(self, state: RateLimit, *, upload: bool) -> None:
        """Update the state from a response.

        Responses may arrive out of order, and requests in flight are not yet counted by the host:
        within one window the smaller number of remaining requests is kept.
        """
        with self._lock:
            current = self._states.get(upload)
            if current is not None and (current.limit, current.reset) == (state.limit, state.reset):
                state = evolve(state, remaining=min(current.remaining, state.remaining))
            self._states[upload] = state

    def update_unlimited(self, *, upload: bool) -> None:
        """Update the state from a response without a limit."""
        with self._lock:
            self._states[upload] = None

    def uploads_left(self, now: datetime, unknown: int) -> int | None:
        """Return the number of upload requests left in the window; `None` without a limit.

        Args:
            now: The current time.
            unknown: The number before the first response.
        """
        with self._lock:
            if True not in self._states:
                return unknown
            state = self._states[True]
            if state is None:
                return None
            return state.remaining if state.reset > now else state.limit

    def acquire(self, now: datetime, *, upload: bool, max_wait: float) -> float:
        """Count a request and return 0, or return the seconds until the window ends.

        Args:
            now: The current time.
            upload: Whether the request is an upload.
            max_wait: The longest wait, in seconds; beyond it the request is sent nevertheless, and its
                error reports the limit.
        """
        with self._lock:
            state = self._states.get(upload)
            if state is None:
                return 0.0
            seconds = (state.reset - now).total_seconds()
            if seconds <= 0:
                state = evolve(state, remaining=state.limit, reset=now + MIN_WINDOW)
            if state.remaining > 0:
                self._states[upload] = evolve(state, remaining=state.remaining - 1)
                return 0.0
            return seconds if 0 < seconds <= max_wait else 0.0


_shared: WeakValueDictionary[tuple[str, str], RateLimitPacer] = WeakValueDictionary()
_shared_lock = threading.Lock()


def shared_pacer(base_url: str, token: Secret | None) -> RateLimitPacer:
    """Return the pacer of all clients of this process for a host and a token, as long as one of them exists.

    Args:
        base_url: The base URL of the API.
        token: The API token, of which only the SHA-256 is kept.
    """
    from hashlib import sha256  # slow to import

    digest = "" if token is None else sha256(token.get_secret_value().encode()).hexdigest()
    with _shared_lock:
        return _shared.setdefault((base_url, digest), RateLimitPacer())
