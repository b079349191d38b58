"""Readiness: what `/readyz` checks, and what is logged about it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from imagehost_core import ImageHost
from imagehost_core.errors import UnavailableError
from imagehost_core.maintenance.service import require_ready
from imagehost_server._executors import ThreadLimiter

CHECK_SECONDS = 5.0
"""The time in which each check must respond."""
REPEAT_SECONDS = 60.0
"""The shortest time between two lines about the same problem."""

log = logging.getLogger("imagehost.server")


class ProblemLog:
    """A log of a problem that comes and goes: a line when it changes, and one a minute while it lasts.

    Args:
        event: The event of a line about the problem.
        resolved: The event of the line about its end.
        level: The level of lines about the problem.
        clock: The source of the time, in seconds.
    """

    def __init__(
        self, event: str, resolved: str, level: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._event, self._resolved, self._level, self._clock = event, resolved, level, clock
        self._reason, self._repeat_at = "", 0.0

    def record(self, reason: str, cause: Exception | None = None) -> None:
        """Log the present state, unless that was done.

        Args:
            reason: What the problem is; empty if there is none.
            cause: The exception whose traceback is logged, once.
        """
        now, is_new = self._clock(), reason != self._reason
        if not is_new and (not reason or now < self._repeat_at):
            return
        self._reason, self._repeat_at = reason, now + REPEAT_SECONDS
        if reason:
            fields = {"fields": {"reason": reason}}
            log.log(self._level, self._event, exc_info=cause if is_new else None, extra=fields)
        else:
            log.info(self._resolved)


class ReadinessMonitor:
    """The checks of one server process's readiness.

    Probes that come at a time share one run of each check, so that a check which hangs takes one thread.

    Args:
        host: The host.
        threads: Runs the checks.
        seconds: The time in which each check must respond.

    Attributes:
        is_draining: Whether this process is about to stop, so that it is not ready for new requests.
    """

    def __init__(self, host: ImageHost, threads: ThreadLimiter, seconds: float = CHECK_SECONDS) -> None:
        self._host, self._threads, self._seconds = host, threads, seconds
        self.is_draining = False
        self._running: dict[str, asyncio.Future[object]] = {}
        self._problems = ProblemLog("not ready", "ready again", logging.ERROR)
        self._full_disk = ProblemLog("uploads refused", "uploads accepted again", logging.WARNING)

    async def check(self) -> bool:
        """Return whether uploads are accepted: whether the disk has enough free space.

        Raises:
            UnavailableError: The host is not ready; the details name everything that does not respond.
        """
        if self.is_draining:
            raise UnavailableError("expected a host that goes on but received one that is about to stop")
        maintenance = self._host.maintenance
        checks = maintenance.readiness_checks
        *results, accepts_uploads = await asyncio.gather(
            *(self._run(name, check) for name, check in checks.items()),
            self._run("the disk", maintenance.accepts_uploads),
        )
        found = dict(zip(checks, results, strict=True))
        failures = {name: result for name, result in found.items() if isinstance(result, Exception)}
        self._problems.record(
            " and ".join(failures), ExceptionGroup("not ready", [*failures.values()]) if failures else None
        )
        require_ready(failures)
        limit = self._host.settings.storage.min_free_bytes
        is_refused = accepts_uploads is False
        self._full_disk.record(f"fewer than {limit} bytes of the disk are free" if is_refused else "")
        return not is_refused

    async def _run(self, name: str, check: Callable[[], object]) -> object:
        """Return the result of a check, or its exception."""
        running = self._running.get(name)
        if running is None or running.done():
            running = self._running[name] = asyncio.ensure_future(self._threads.run(check))
            # Its exception is ignored if it comes too late.
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.wait_for(asyncio.shield(running), self._seconds)
        except Exception as error:
            return error
