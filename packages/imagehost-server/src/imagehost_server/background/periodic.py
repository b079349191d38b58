"""Periodic work of a server process, such as the cleanup of what crashes and failed deletions have left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from imagehost_core import ImageHost
from imagehost_server.pending_log import log_pending

CLEANUP_SECONDS = 60.0
"""Time between two cleanups. One that finds nothing costs one query and one directory listing; of several
processes, one runs at a time."""

PENDING_LOG_SECONDS = 10.0
"""Time between two looks for messages of commands: a system call."""

log = logging.getLogger("imagehost.server")


@asynccontextmanager
async def running_periodically(
    work: Callable[[], Awaitable[float]], name: str
) -> AsyncIterator[asyncio.Event]:
    """Repeat work while the block runs: at once, after the time that it returns, and when the event is set.

    What is in progress at the end of the block is finished.

    Args:
        work: Does the work once; returns the seconds until the next time.
        name: The name of the task.
    """
    wake, is_running = asyncio.Event(), True

    async def run() -> None:
        while is_running:
            wake.clear()
            seconds = await work()
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.wait(), seconds)

    task = asyncio.create_task(run(), name=name)
    try:
        yield wake
    finally:
        is_running = False
        wake.set()
        await task


@asynccontextmanager
async def periodic_cleanup(
    host: ImageHost,
    interval: float = CLEANUP_SECONDS,
    on_removed: Callable[[int], object] = lambda _count: None,
) -> AsyncIterator[None]:
    """Clean a host up while the block runs: at once, then once per interval.

    Args:
        host: The host to clean up.
        interval: Seconds between two runs.
        on_removed: Receives the number of crashed uploads whose files were removed, on the event loop.
    """

    async def clean_up() -> float:
        try:
            on_removed(len(await asyncio.to_thread(host.maintenance.cleanup)))
        except Exception:
            log.exception("cleanup failed; retrying")
        return interval

    async with running_periodically(clean_up, "periodic cleanup"):
        yield


@asynccontextmanager
async def periodic_log(data: Path, interval: float = PENDING_LOG_SECONDS) -> AsyncIterator[None]:
    """Log what commands have changed while the block runs: at once, then once per interval.

    Args:
        data: The data directory.
        interval: Seconds between two looks.
    """

    async def log_messages() -> float:
        try:
            await asyncio.to_thread(log_pending, data)
        except Exception:
            log.exception("messages of commands cannot be logged; retrying")
        return interval

    async with running_periodically(log_messages, "messages of commands"):
        yield
