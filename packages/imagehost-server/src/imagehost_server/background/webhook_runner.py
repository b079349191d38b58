"""Running a webhook sender: as a task of the server, or alone in its own process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from imagehost_core import ImageHost
from imagehost_server.background.webhook_sender import IDLE_POLL_SECONDS, POLL_SECONDS, WebhookSender

SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""The signals that stop `run_forever`."""


@asynccontextmanager
async def running_sender(
    host: ImageHost, idle_poll_seconds: float = IDLE_POLL_SECONDS
) -> AsyncIterator[None]:
    """Send webhooks while the block runs; attempts in flight at its end are finished or released.

    Args:
        host: The host with the outbox.
        idle_poll_seconds: Time between polls when nothing was sent for a while.
    """
    sender = WebhookSender(host, idle_poll_seconds=idle_poll_seconds)
    task = asyncio.create_task(sender.run(), name="webhook sender")
    try:
        yield
    finally:
        sender.stop()
        await task


def run_forever(host: ImageHost) -> None:
    """Send webhooks until SIGTERM or SIGINT."""
    asyncio.run(_run_until_signal(host))


async def _run_until_signal(host: ImageHost) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in SIGNALS:
        with suppress(NotImplementedError):  # on Windows, where KeyboardInterrupt cancels this task instead
            loop.add_signal_handler(number, stopped.set)
    # All its events come from other processes, which cannot wake it.
    async with running_sender(host, POLL_SECONDS):
        await stopped.wait()
