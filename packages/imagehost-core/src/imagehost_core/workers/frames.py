"""Frames: the wire format of the pipes between the pool and a worker process.

A frame is a prefix (magic number, length of the header, number of blobs), the length of each blob, the
header, and the blobs. `messages` defines the headers' contents. Neither side trusts lengths that it
receives: each is checked against a limit before memory is allocated for it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Protocol

from attrs import frozen

CHUNK_BYTES = 2**20
"""Bytes read or written at a time, so that a large blob is never in memory whole."""
MAX_HEADER_BYTES = 2**18
"""The longest header: a result with its errors and a traceback is much shorter."""
MAX_BLOBS = 16
"""The most blobs in a frame: a master and its derivatives are four."""
MAX_BLOB_BYTES = 2**29
"""The longest blob, 512 MiB: enough for a PNG of 100 million pixels of noise (4 bytes a pixel)."""

_MAGIC = b"IHW1"
_PREFIX = struct.Struct(">4sIH")
_LENGTH = struct.Struct(">Q")


class FrameError(Exception):
    """The bytes in a pipe are not a valid frame, or end within one."""


class Readable(Protocol):
    """A stream to read from; it can return fewer bytes than requested."""

    def read(self, size: int, /) -> bytes | None:
        """Return up to `size` bytes, none at the end."""


class Writable(Protocol):
    """A stream to write to; it can accept fewer bytes than offered."""

    def write(self, data: memoryview, /) -> int | None:
        """Return the number of bytes accepted."""


@frozen
class Head:
    """The start of a frame: its header, and the lengths of its blobs in bytes."""

    header: bytes
    lengths: tuple[int, ...] = ()


def write_head(stream: Writable, head: Head) -> None:
    """Write the start of a frame; the caller then writes the blobs in exactly the announced lengths.

    Raises:
        FrameError: The header or a blob is longer than a frame can hold.
    """
    _require_within_limits(len(head.header), head.lengths)
    prefix = _PREFIX.pack(_MAGIC, len(head.header), len(head.lengths))
    write(stream, b"".join((prefix, *map(_LENGTH.pack, head.lengths), head.header)))


def write(stream: Writable, data: bytes) -> None:
    """Write all of `data`, in as many calls as the stream needs."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[stream.write(remaining[:CHUNK_BYTES]) or 0 :]


def read_head(stream: Readable) -> Head | None:
    """Return the start of the next frame, or `None` at the end of the stream.

    Raises:
        FrameError: The stream holds something else, or ends within the frame.
    """
    first = stream.read(1)
    if not first:
        return None
    magic, header_length, count = _PREFIX.unpack(first + _read_exactly(stream, _PREFIX.size - 1))
    if magic != _MAGIC:
        raise FrameError(f"expected {_MAGIC!r} for the start of a frame but received {magic!r}")
    lengths = tuple(length for (length,) in _LENGTH.iter_unpack(_read_exactly(stream, count * _LENGTH.size)))
    _require_within_limits(header_length, lengths)
    return Head(_read_exactly(stream, header_length), lengths)


def read_blob(stream: Readable, length: int) -> bytes:
    """Return the next blob of a frame, which is `length` bytes long.

    Raises:
        FrameError: The stream ends within the blob.
    """
    return _read_exactly(stream, length)


def chunks(stream: Readable, length: int) -> Iterator[bytes]:
    """Yield `length` bytes of the stream in chunks of at most `CHUNK_BYTES`.

    Raises:
        FrameError: The stream ends before.
    """
    remaining = length
    while remaining:
        chunk = stream.read(min(remaining, CHUNK_BYTES))
        if not chunk:
            raise FrameError(f"expected {length} bytes but received {length - remaining}")
        remaining -= len(chunk)
        yield chunk


def _read_exactly(stream: Readable, length: int) -> bytes:
    return b"".join(chunks(stream, length))


def _require_within_limits(header_length: int, lengths: tuple[int, ...]) -> None:
    for name, limit, value in (
        ("the header's bytes", MAX_HEADER_BYTES, header_length),
        ("the number of blobs", MAX_BLOBS, len(lengths)),
        ("the bytes of a blob", MAX_BLOB_BYTES, max(lengths, default=0)),
    ):
        if value > limit:
            raise FrameError(f"expected at most {limit} for {name} but received {value}")
