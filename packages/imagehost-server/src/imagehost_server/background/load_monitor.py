"""The load of a server process: the lag of its event loop, and its threads in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from imagehost_server._executors import Executors
from imagehost_server.background.periodic import running_periodically
from imagehost_server.metrics import Recorder

INTERVAL_SECONDS = 1.0
"""Time between two measurements, which take 0.1 ms."""


@asynccontextmanager
async def monitored_load(
    executors: Executors, recorder: Recorder, interval: float = INTERVAL_SECONDS
) -> AsyncIterator[None]:
    """Measure the load while the block runs.

    Args:
        executors: The threads of the process.
        recorder: Counts the measurements.
        interval: Seconds between two of them.
    """
    loop = asyncio.get_running_loop()
    due = loop.time()

    async def measure() -> float:
        nonlocal due
        recorder.load(max(0.0, loop.time() - due), executors.threads_in_use())
        due = loop.time() + interval
        return interval

    async with running_periodically(measure, "load monitor"):
        yield
