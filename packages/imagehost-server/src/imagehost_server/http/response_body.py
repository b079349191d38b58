"""Bodies of responses, for clients that may not read them: what one occupies until it does is small.

A file is sent in pieces, each read when the kernel has taken the one before. A body in memory is sent in
pieces too, and is moved to a temporary file once a client lets it wait. `middleware.requests` passes the body
of every response through these functions.
"""

from __future__ import annotations

import asyncio
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import define, frozen

from imagehost_core.delivery_responses import PIECE_BYTES
from imagehost_core.errors import ImageHostError
from imagehost_core.services.delivery import Blob
from imagehost_core.storage.staging import StagedFile
from imagehost_server._executors import Executors, ThreadLimiter

if TYPE_CHECKING:
    from litestar.types import HTTPResponseBodyEvent, Send

WHOLE_BYTES = 64 * 2**10
"""The largest body that is sent as a whole."""
SPOOL_SECONDS = 0.1
"""How long a body waits in memory for its client; most clients take all of it in that time."""


async def read_piece(blob: Blob, files: ThreadLimiter, start: int, stop: int) -> bytes:
    """Return at most `PIECE_BYTES` of a blob, at least one; what is not in memory is read in a thread.

    Args:
        blob: The blob.
        files: Runs reads of files.
        start: The offset of the first byte.
        stop: The offset behind the last one that may be read.

    Raises:
        EOFError: The file has become shorter.
    """
    end = min(start + PIECE_BYTES, stop)
    piece = blob.read_cached(start, end)
    if piece is None:
        piece = await files.run(blob.read, start, end)
    else:
        # A client that reads fast must not keep the event loop from others.
        await sleep(0)
    if not piece:
        raise EOFError(f"expected {stop} bytes in a file but received {start}")
    return piece


async def pieces_of(blob: Blob, files: ThreadLimiter, start: int, stop: int) -> AsyncIterator[bytes]:
    """Yield a part of a blob in pieces; arguments and errors are those of `read_piece`."""
    while start < stop:
        piece = await read_piece(blob, files, start, stop)
        start += len(piece)
        yield piece


async def send_in_pieces(message: HTTPResponseBodyEvent, send: Send) -> None:
    """Send a part of a body that is not its end, in pieces."""
    for start in range(0, len(message["body"]), PIECE_BYTES):
        await send({**message, "body": message["body"][start : start + PIECE_BYTES]})


@frozen
class Spool:
    """Temporary files for bodies that wait for their clients.

    Attributes:
        stage: Creates a file; raises InsufficientStorageError if there is no space.
        executors: Run the writes and reads.
    """

    stage: Callable[[], StagedFile]
    executors: Executors

    async def write(self, data: bytes) -> Blob:
        """Return a blob of the same bytes in a file, which the system deletes when the blob is closed.

        Raises:
            ImageHostError: There is no space, or no thread.
        """
        return await self.executors.slow_writes.run(self._write, data)

    def _write(self, data: bytes) -> Blob:
        with self.stage() as staged:
            staged.write(data)
            staged.finish()
            return Blob(staged.path.open("rb"))


@define
class HeldBody:
    """A complete body of more than `WHOLE_BYTES`, once its application has ended.

    Nothing else refers to the bytes then, so that they leave the memory when they are in a file.

    Attributes:
        blob: The body.
        spool: Where it is moved if the client lets it wait; `None`: it stays in memory.
    """

    blob: Blob
    spool: Spool | None

    async def send(self, send: Send) -> None:
        """Send the body."""
        start = 0
        size = self.blob.size
        try:
            while start < size:
                piece = await self._read(start)
                start += len(piece)
                await self._wait(
                    send({"type": "http.response.body", "body": piece, "more_body": start < size})
                )
        finally:
            self.blob.close()

    async def _read(self, start: int) -> bytes:
        if self.spool is None or self.blob.data is not None:
            return self.blob.read(start, start + PIECE_BYTES)
        return await read_piece(self.blob, self.spool.executors.files, start, self.blob.size)

    async def _wait(self, sending: Awaitable[None]) -> None:
        """Wait until a piece is sent; move the body to a file if that takes long."""
        spool = self.spool
        if spool is None or self.blob.data is None:
            await sending
            return
        task = asyncio.ensure_future(sending)
        try:
            done, _ = await asyncio.wait((task,), timeout=SPOOL_SECONDS)
            if not done:
                # A full disk: the body stays in memory.
                with suppress(ImageHostError, OSError):
                    self.blob = await spool.write(self.blob.data)
            await task
        finally:
            task.cancel()
