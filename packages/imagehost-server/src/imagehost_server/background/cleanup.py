"""Periodic cleanup: removes the files of crashed uploads and retries failed deletions, without a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from imagehost_core import ImageHost

INTERVAL_SECONDS = 60.0
"""Time between two runs. A run that finds nothing costs one query and one directory listing; of several
processes, one runs at a time."""

log = logging.getLogger("imagehost.server")


@asynccontextmanager
async def periodic_cleanup(
    host: ImageHost,
    interval: float = INTERVAL_SECONDS,
    on_removed: Callable[[int], object] = lambda _count: None,
) -> AsyncIterator[None]:
    """Clean a host up while the block runs: at once, then once per interval.

    Args:
        host: The host to clean up.
        interval: Seconds between two runs.
        on_removed: Receives the number of crashed uploads whose files were removed, on the event loop.
    """
    stopped = asyncio.Event()
    task = asyncio.create_task(_run(host, stopped, interval, on_removed), name="periodic cleanup")
    try:
        yield
    finally:
        stopped.set()
        await task


async def _run(
    host: ImageHost, stopped: asyncio.Event, interval: float, on_removed: Callable[[int], object]
) -> None:
    while not stopped.is_set():
        try:
            on_removed(len(await asyncio.to_thread(host.maintenance.cleanup)))
        except Exception:
            log.exception("cleanup failed; retrying")
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), interval)
