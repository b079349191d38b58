"""The frames that cross the pipes between the pool and a worker: a header, then blobs.

A frame is a prefix (magic, length of the header, number of blobs), the length of each blob, the
header, and the blobs. What a header means is `wire`'s business. Neither side trusts the other's
figures: each is bounded before memory is taken for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol

from attrs import frozen

CHUNK_BYTES = 2**20
"""How much is read or written at a time, so that a large blob never lies in memory whole."""
MAX_HEADER_BYTES = 2**18
"""The longest header: an answer with its faults and a traceback is far below it."""
MAX_BLOBS = 16
"""The most blobs in a frame: a master and its reductions are four."""
MAX_BLOB_BYTES = 2**29
"""The longest blob, 512 MiB: what a PNG of 100 million pixels of noise takes (4 bytes a pixel)."""

_MAGIC = b"IHW1"
_PREFIX = struct.Struct(">4sIH")
_LENGTH = struct.Struct(">Q")


class FrameError(Exception):
    """What came through the pipe is not a frame, or ends in the middle of one."""


class Readable(Protocol):
    """Something to read bytes from; fewer than asked for may come."""

    def read(self, size: int, /) -> bytes | None:
        """Return up to `size` bytes, none at the end."""
        ...


class Writable(Protocol):
    """Something to write bytes to; fewer than given may be taken."""

    def write(self, data: memoryview, /) -> int | None:
        """Return how many bytes were taken."""
        ...


@frozen
class Head:
    """The beginning of a frame: the header, and the lengths of the blobs that follow, in bytes."""

    header: bytes
    lengths: tuple[int, ...] = ()


def write_head(stream: Writable, head: Head) -> None:
    """Write the beginning of a frame; the blobs are to follow, in exactly their lengths.

    Raises:
        FrameError: The header or a blob is longer than a frame may hold.
    """
    _check(len(head.header), head.lengths)
    prefix = _PREFIX.pack(_MAGIC, len(head.header), len(head.lengths))
    write(stream, b"".join((prefix, *map(_LENGTH.pack, head.lengths), head.header)))


def write(stream: Writable, data: bytes) -> None:
    """Write all of `data`, however little the stream takes at a time."""
    left = memoryview(data)
    while left:
        left = left[stream.write(left[:CHUNK_BYTES]) or 0 :]


def read_head(stream: Readable) -> Head | None:
    """Return the beginning of the next frame, or `None` where the stream ends before one begins.

    Raises:
        FrameError: The stream holds something else, or ends within the frame.
    """
    first = stream.read(1)
    if not first:
        return None
    magic, header_length, count = _PREFIX.unpack(first + _exactly(stream, _PREFIX.size - 1))
    if magic != _MAGIC:
        raise FrameError(f"expected {_MAGIC!r} for the beginning of a frame but received {magic!r}")
    lengths = tuple(length for (length,) in _LENGTH.iter_unpack(_exactly(stream, count * _LENGTH.size)))
    _check(header_length, lengths)
    return Head(_exactly(stream, header_length), lengths)


def read_blob(stream: Readable, length: int) -> bytes:
    """Return the next blob of a frame, which is `length` bytes long.

    Raises:
        FrameError: The stream ends within it.
    """
    return _exactly(stream, length)


def chunks(stream: Readable, length: int) -> Iterator[bytes]:
    """Yield `length` bytes of the stream in pieces of at most `CHUNK_BYTES`.

    Raises:
        FrameError: The stream ends before.
    """
    left = length
    while left:
        chunk = stream.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise FrameError(f"expected {length} bytes but received {length - left}")
        left -= len(chunk)
        yield chunk


def _exactly(stream: Readable, length: int) -> bytes:
    return b"".join(chunks(stream, length))


def _check(header_length: int, lengths: tuple[int, ...]) -> None:
    for name, most, found in (
        ("the header's bytes", MAX_HEADER_BYTES, header_length),
        ("the number of blobs", MAX_BLOBS, len(lengths)),
        ("the bytes of a blob", MAX_BLOB_BYTES, max(lengths, default=0)),
    ):
        if found > most:
            raise FrameError(f"expected at most {most} for {name} but received {found}")
