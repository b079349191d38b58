"""Running a sender: beside the server in its event loop, or alone in a process of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from imagehost_core import ImageHost
from imagehost_server.background.webhook_sender import WebhookSender

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""What asks a worker to end."""


@asynccontextmanager
async def running_sender(host: ImageHost) -> AsyncIterator[None]:
    """Send the events of a host while the block runs; what is under way then is finished or given back."""
    sender = WebhookSender(host)
    running = asyncio.create_task(sender.run(), name="sender")
    try:
        yield
    finally:
        sender.stop()
        await running


def run_forever(host: ImageHost) -> None:
    """Send the events of a host until a signal (SIGTERM, SIGINT) ends it."""
    asyncio.run(_run_forever(host))


async def _run_forever(host: ImageHost) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in SIGNALS:
        with suppress(NotImplementedError):  # Windows, where an interrupt cancels this instead
            loop.add_signal_handler(number, ended.set)
    async with running_sender(host):
        await ended.wait()
