"""Tidying up while the server runs: what crashes and failed deletions have left goes without a restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from imagehost_core import ImageHost

INTERVAL_SECONDS = 60.0
"""How often leftovers are looked for. Where there are none, that is one query and a few names of files, and
of several processes one does it at a time."""

log = logging.getLogger("imagehost.server")


@asynccontextmanager
async def periodic_cleanup(host: ImageHost, period: float = INTERVAL_SECONDS) -> AsyncIterator[None]:
    """Tidy a host up, at once and then every so often, while the block runs.

    Args:
        host: Which.
        period: How many seconds to wait in between.
    """
    ended = asyncio.Event()
    running = asyncio.create_task(_run(host, ended, period), name="tidying")
    try:
        yield
    finally:
        ended.set()
        await running


async def _run(host: ImageHost, ended: asyncio.Event, period: float) -> None:
    while not ended.is_set():
        try:
            await asyncio.to_thread(host.maintenance.cleanup)
        except Exception:
            log.exception("tidying up failed; it is tried again")
        with suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), period)
