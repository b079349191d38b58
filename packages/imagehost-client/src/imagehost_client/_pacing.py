"""Client-side pacing: waiting for the rate limit window instead of exceeding the limit.

Uploads and other requests have separate rate limits, hence two states. A request is counted before it is
sent, so that concurrent threads do not use the same remaining request.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from attrs import evolve

from imagehost_client.models import RateLimit

MIN_WINDOW = timedelta(minutes=1)
"""The assumed length of a new window until the next response: the shortest window of a host."""


class RateLimitPacer:
    """The rate limits as of the latest responses; thread-safe."""

    def __init__(self) -> None:
        self._states: dict[bool, RateLimit] = {}
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
