"""Opening an image's bytes: a request that waits in the queue of renderings holds no thread."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from imagehost_core import Blob
from imagehost_core.steps import Finished, QueueSteps, advance
from imagehost_server._executors import Executors

if TYPE_CHECKING:
    from litestar.types import Receive


async def open_blob(
    steps: QueueSteps[Blob], executors: Executors, receive: Receive, *, is_master: bool = False
) -> Blob | None:
    """Return the bytes that `steps` open.

    Args:
        steps: The work, from `host.delivery.open_in_steps`. When the client disconnects, or the request is
            cancelled, it leaves the queue.
        executors: Run blocking work: `files` looks on the disk and at errors, `variants` renders.
        receive: The ASGI callable of the request.
        is_master: Whether the image is the master, which `executors.masters` opens.

    Returns:
        `None` if the client has disconnected.

    Raises:
        ImageHostError: As for `host.delivery.open`.
    """
    limiter = executors.masters if is_master else executors.files
    disconnection: asyncio.Task[None] | None = None
    try:
        while not isinstance(step := await limiter.run(advance, steps), Finished):
            disconnection = disconnection or asyncio.create_task(_wait_for_disconnection(receive))
            if not await _wait(step, disconnection):
                return None
            has_worker = step.exception() is None and step.result() is not None
            limiter = executors.variants if has_worker else executors.files
        return step.result
    finally:
        if disconnection is not None:
            disconnection.cancel()
        steps.close()


async def _wait(future: Future[object], disconnection: asyncio.Task[None]) -> bool:
    """Wait for a future; return `False` if the client disconnects before."""
    waiting = asyncio.wrap_future(future)
    await asyncio.wait((waiting, disconnection), return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        return False
    with suppress(Exception):
        await waiting  # Its result is that of `future`.
    return True


async def _wait_for_disconnection(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
