"""Sweeps of a cache in the background: no request waits for the search of all its files."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

from imagehost_core.storage.cache.eviction import EvictionStopped

_SWEEP_SHARE = 20
"""A process sweeps when it has written a twentieth of the cache's limit."""

log = logging.getLogger(__name__)


class BackgroundSweep:
    """The sweeps of one cache by this process, one at a time, each in a thread of its own.

    While a sweep is in progress, this process may write another twentieth of the limit. So it exceeds the
    limit by a tenth and two files at most, however long a sweep takes.

    Args:
        sweep: Evicts files until the cache is within its limit. It gets a function that returns whether to
            stop early, and may then raise `EvictionStopped`.
        limit_bytes: The limit of the cache.
    """

    def __init__(self, sweep: Callable[[Callable[[], bool]], object], limit_bytes: int) -> None:
        self._sweep = sweep
        self._share_bytes = limit_bytes // _SWEEP_SHARE
        self._lock = threading.Lock()
        self._written_bytes = 0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def may_write(self) -> bool:
        """Return whether a file can be written to the cache, or has to wait for the end of a sweep."""
        return self._written_bytes <= self._share_bytes or not self._is_running()

    def add(self, size: int) -> None:
        """Count the bytes of a file that was written, and start a sweep if one is due. Never waits for it."""
        with self._lock:
            self._written_bytes += size
            if self._written_bytes <= self._share_bytes or self._is_running() or self._stopped.is_set():
                return
            self._written_bytes = 0
            self._thread = threading.Thread(target=self._run, name="imagehost-sweep", daemon=True)
            self._thread.start()

    def wait(self) -> None:
        """Wait until no sweep is in progress."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def close(self) -> None:
        """Stop a sweep that is in progress; no other is started."""
        self._stopped.set()
        self.wait()

    def _is_running(self) -> bool:
        # After a fork, threads of the parent are not alive in the child.
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        is_due = True
        while is_due:
            try:
                with suppress(EvictionStopped):
                    self._sweep(self._stopped.is_set)
            except Exception:
                log.exception("sweep of a cache failed, will retry")
            with self._lock:
                # What was written meanwhile may not have been seen.
                is_due = self._written_bytes > self._share_bytes and not self._stopped.is_set()
                if is_due:
                    self._written_bytes = 0
                else:
                    self._thread = None
