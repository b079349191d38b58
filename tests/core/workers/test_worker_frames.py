"""Tests of frames: they pass a pipe unchanged however it splits them, and invalid ones are rejected."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.workers import frames
from imagehost_core.workers.frames import FrameError, Head


class SplittingStream:
    """A stream that reads and accepts only a few bytes at a time."""

    def __init__(self, data: bytes = b"", sizes: list[int] | None = None) -> None:
        self.data, self.sizes, self.calls = bytearray(data), sizes or [1], 0

    def _next(self, size: int) -> int:
        self.calls += 1
        return min(size, self.sizes[self.calls % len(self.sizes)])

    def read(self, size: int, /) -> bytes:
        size = self._next(size)
        chunk, self.data = bytes(self.data[:size]), self.data[size:]
        return chunk

    def write(self, data: memoryview, /) -> int:
        size = self._next(len(data))
        self.data += data[:size]
        return size


BLOBS = st.lists(st.binary(max_size=200), max_size=frames.MAX_BLOBS)
SIZES = st.lists(st.integers(1, 64), min_size=1)


def written(header: bytes, blobs: list[bytes]) -> bytes:
    stream = io.BytesIO()
    frames.write_head(stream, Head(header, tuple(map(len, blobs))))
    for blob in blobs:
        frames.write(stream, blob)
    return stream.getvalue()


def read_whole(stream: frames.Readable) -> tuple[bytes, list[bytes]]:
    head = frames.read_head(stream)
    assert head is not None
    return head.header, [frames.read_blob(stream, length) for length in head.lengths]


@given(st.binary(max_size=300), BLOBS, SIZES, SIZES)
def test_a_frame_is_read_as_it_was_written_however_the_pipe_splits_it(
    header: bytes, blobs: list[bytes], writes: list[int], reads: list[int]
) -> None:
    pipe = SplittingStream(sizes=writes)
    frames.write_head(pipe, Head(header, tuple(map(len, blobs))))
    for blob in blobs:
        frames.write(pipe, blob)
    pipe.sizes = reads
    assert read_whole(pipe) == (header, blobs)
    assert frames.read_head(pipe) is None


@given(st.binary(min_size=1, max_size=100), BLOBS, st.data())
def test_a_truncated_frame_is_rejected(header: bytes, blobs: list[bytes], data: st.DataObject) -> None:
    whole = written(header, blobs)
    cut = data.draw(st.integers(1, len(whole) - 1))
    with pytest.raises(FrameError, match=r"expected \d+ bytes but received"):
        read_whole(io.BytesIO(whole[:cut]))


@given(st.binary(min_size=1, max_size=64))
def test_garbage_is_rejected(garbage: bytes) -> None:
    if not garbage.startswith(b"IHW1"):
        with pytest.raises(FrameError):
            frames.read_head(io.BytesIO(garbage))


@given(st.binary(min_size=4, max_size=4), st.binary(max_size=100), BLOBS)
def test_a_frame_with_another_magic_number_is_rejected(
    magic: bytes, header: bytes, blobs: list[bytes]
) -> None:
    if magic != b"IHW1":
        with pytest.raises(FrameError, match="for the start of a frame but received"):
            frames.read_head(io.BytesIO(magic + written(header, blobs)[4:]))


@pytest.mark.parametrize(
    ("prefix", "lengths", "name"),
    [
        ((frames.MAX_HEADER_BYTES + 1, 0), (), "the header's bytes"),
        ((0, frames.MAX_BLOBS + 1), (0,) * (frames.MAX_BLOBS + 1), "the number of blobs"),
        ((0, 1), (frames.MAX_BLOB_BYTES + 1,), "the bytes of a blob"),
    ],
)
def test_a_frame_that_announces_too_much_is_rejected_before_memory_is_allocated(
    prefix: tuple[int, int], lengths: tuple[int, ...], name: str
) -> None:
    data = struct.pack(">4sIH", b"IHW1", *prefix) + b"".join(struct.pack(">Q", length) for length in lengths)
    with pytest.raises(FrameError, match=f"expected at most .* for {name}"):
        frames.read_head(io.BytesIO(data))


def test_a_frame_that_is_too_large_is_not_written() -> None:
    stream = io.BytesIO()
    with pytest.raises(FrameError, match="the header's bytes"):
        frames.write_head(stream, Head(b"x" * (frames.MAX_HEADER_BYTES + 1)))
    assert stream.getvalue() == b""


def test_a_blob_is_read_in_chunks() -> None:
    stream = io.BytesIO(bytes(frames.CHUNK_BYTES * 2 + 5))
    assert [len(chunk) for chunk in frames.chunks(stream, frames.CHUNK_BYTES * 2 + 3)] == [
        frames.CHUNK_BYTES,
        frames.CHUNK_BYTES,
        3,
    ]
    assert stream.read() == b"\0\0"
