"""Pacing: what is left of the host's rate limit, so that a client can wait instead of being refused.

Uploads have a window of their own beside the one of all requests (contract 9), so there are two states.
Room is taken before a request is sent: of many threads that see the last place, one gets it.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

from attrs import evolve

from imagehost_client.models import RateLimit

SHORTEST_WINDOW = timedelta(minutes=1)
"""How long a window is thought to last until the host says so: contract 9 has minutes, hours and days."""


class RateLimitPacer:
    """The rate limit as the host's last answers tell it; safe to share between threads."""

    def __init__(self) -> None:
        self._states: dict[bool, RateLimit] = {}
        self._lock = threading.Lock()

    def update(self, state: RateLimit, *, upload: bool) -> None:
        """Take note of what an answer says.

        Answers may come in another order than they were made in, and requests are under way that the
        host had not yet counted: within one window the smaller number holds.
        """
        with self._lock:
            known = self._states.get(upload)
            if known is not None and (known.limit, known.reset) == (state.limit, state.reset):
                state = evolve(state, remaining=min(known.remaining, state.remaining))
            self._states[upload] = state

    def acquire(self, now: datetime, *, upload: bool, longest: float) -> float:
        """Take a place in the window, and return 0; or return the seconds until there may be one.

        Args:
            now: The present time.
            upload: Whether the request is an upload.
            longest: Seconds of waiting beyond which the request is sent all the same: its error tells.
        """
        with self._lock:
            state = self._states.get(upload)
            if state is None:
                return 0.0
            seconds = (state.reset - now).total_seconds()
            if seconds <= 0:
                state = evolve(state, remaining=state.limit, reset=now + SHORTEST_WINDOW)
            if state.remaining > 0:
                self._states[upload] = evolve(state, remaining=state.remaining - 1)
                return 0.0
            return seconds if 0 < seconds <= longest else 0.0
