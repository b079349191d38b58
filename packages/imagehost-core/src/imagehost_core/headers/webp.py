"""WebP: the chunks of a RIFF file, in the simple or the extended format, still or animated.

Sources: RFC 9649 (container, VP8L header), RFC 6386 section 9.1 (VP8 frame header). The checks are those
of libwebp's demultiplexer, which rejects the whole file if one fails.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from attrs import frozen

from imagehost_core.formats import Format
from imagehost_core.headers.exif import UPRIGHT, scan_orientation
from imagehost_core.headers.header import FoundMetadata, ImageHeader, MetadataKind
from imagehost_core.headers.reader import HeaderReader, damaged_file, fourcc

MAX_CHUNKS = 20_000
"""The most chunks of a WebP: 1,000 frames have 3,000 chunks, with transparency 4,000."""

_ALPHA, _EXIF, _ANIMATED = 0x10, 0x08, 0x02
"""Flags of VP8X."""
_KINDS = {b"EXIF": MetadataKind.EXIF, b"XMP ": MetadataKind.XMP, b"ICCP": MetadataKind.ICC}
_BITSTREAMS = (b"VP8 ", b"VP8L")
_PIXELS = (*_BITSTREAMS, b"ALPH")


@frozen
class _Chunk:
    """A chunk: its type, and the offsets of the start and the end of its content, without padding."""

    kind: bytes
    start: int
    end: int


@frozen
class _Bitstream:
    """The properties of a bitstream: width and height in pixels, and whether it can be transparent."""

    width: int
    height: int
    alpha: bool


def read(reader: HeaderReader) -> ImageHeader:
    """Return the header of a WebP.

    The end is that of the RIFF container.

    Raises:
        ValidationError: The structure is damaged.
    """
    end = 8 + struct.unpack("<I", reader.read_exactly(4, 4))[0]
    reader.require_length(end)
    chunks = _chunks(reader, 12, end)
    first = next(chunks, None)
    if first is None or first.kind not in (b"VP8X", *_BITSTREAMS):
        raise damaged_file("VP8, VP8L or VP8X first in a WebP", fourcc(first.kind) if first else "no chunk")
    metadata = FoundMetadata()
    if first.kind != b"VP8X":
        image = _bitstream(reader, first)
        for chunk in chunks:
            metadata.add(_KINDS.get(chunk.kind), chunk.start, chunk.end)
        return _header(image, 1, UPRIGHT, end, metadata)
    if first.end - first.start < 10:
        raise damaged_file("a VP8X of 10 bytes in a WebP", f"{first.end - first.start}")
    flags = reader.read_exactly(first.start, 1)[0]
    size = reader.read_exactly(first.start + 4, 6)
    canvas = _Bitstream(_uint24(size[:3]) + 1, _uint24(size[3:]) + 1, bool(flags & _ALPHA))
    frames = (_animated if flags & _ANIMATED else _still)(reader, chunks, canvas, metadata)
    orientation = scan_orientation(reader, metadata.exif_span).value if flags & _EXIF else UPRIGHT
    return _header(canvas, frames, orientation, end, metadata)


def _header(
    image: _Bitstream, frames: int, orientation: int, end: int, metadata: FoundMetadata
) -> ImageHeader:
    return ImageHeader(
        format=Format.WEBP,
        width=image.width,
        height=image.height,
        frames=frames,
        orientation=orientation,
        is_upright_in_browsers=orientation == UPRIGHT,
        has_alpha=image.alpha,
        end_offset=end,
        metadata=metadata.kinds,
        metadata_spans=metadata.spans,
    )


def _chunks(reader: HeaderReader, offset: int, end: int) -> Iterator[_Chunk]:
    """Yield the chunks in the bytes from `offset` to before `end`."""
    while offset < end:
        if end - offset < 8:
            raise damaged_file("a WebP made of chunks", f"{end - offset} bytes too many at offset {offset:,}")
        kind, size = struct.unpack("<4sI", reader.read_exactly(offset, 8))
        reader.count_parts(MAX_CHUNKS)
        after = offset + 8 + size
        offset = after + size % 2
        if offset > end:
            raise damaged_file("WebP chunks within their container", f"{fourcc(kind)} of {size:,} bytes")
        yield _Chunk(kind, after - size, after)


def _still(
    reader: HeaderReader, chunks: Iterator[_Chunk], canvas: _Bitstream, metadata: FoundMetadata
) -> int:
    _require_size(_image(reader, chunks, metadata), canvas.width, canvas.height)
    return 1


def _animated(
    reader: HeaderReader, chunks: Iterator[_Chunk], canvas: _Bitstream, metadata: FoundMetadata
) -> int:
    frames, announced = 0, False
    for chunk in chunks:
        if chunk.kind in _PIXELS or (chunk.kind == b"ANMF" and not announced):
            raise damaged_file("ANIM, then pixels in ANMF in an animated WebP", fourcc(chunk.kind))
        if chunk.kind == b"ANIM":
            announced = True
        elif chunk.kind == b"ANMF":
            _frame(reader, chunk, canvas, metadata)
            frames += 1
        else:
            metadata.add(_KINDS.get(chunk.kind), chunk.start, chunk.end)
    if not frames:
        raise damaged_file("an animated WebP with a frame", "one without")
    return frames


def _frame(reader: HeaderReader, chunk: _Chunk, canvas: _Bitstream, metadata: FoundMetadata) -> None:
    if chunk.end - chunk.start < 16:
        raise damaged_file("an ANMF of 16 bytes and more in a WebP", f"{chunk.end - chunk.start}")
    box = reader.read_exactly(chunk.start, 12)
    left = 2 * _uint24(box[:3])
    top = 2 * _uint24(box[3:6])
    width = _uint24(box[6:9]) + 1
    height = _uint24(box[9:]) + 1
    if left + width > canvas.width or top + height > canvas.height:
        box_text = f"{width:,}×{height:,} at {left:,}, {top:,}"
        raise damaged_file(f"WebP frames within {canvas.width:,}×{canvas.height:,}", box_text)
    _require_size(_image(reader, _chunks(reader, chunk.start + 16, chunk.end), metadata), width, height)


def _image(reader: HeaderReader, chunks: Iterator[_Chunk], metadata: FoundMetadata) -> _Bitstream:
    """Return the bitstream of one frame; a lossy one can follow an ALPH chunk."""
    pixels = []
    for chunk in chunks:
        if chunk.kind in _PIXELS:
            pixels.append(chunk)
        else:
            metadata.add(_KINDS.get(chunk.kind), chunk.start, chunk.end)
    kinds = tuple(chunk.kind for chunk in pixels)
    if kinds not in ((b"VP8 ",), (b"VP8L",), (b"ALPH", b"VP8 ")):
        expected = "one VP8L, or one VP8 with or without ALPH, for each WebP frame"
        raise damaged_file(expected, fourcc(b", ".join(kinds)) if kinds else "none")
    return _bitstream(reader, pixels[-1])


def _require_size(image: _Bitstream, width: int, height: int) -> None:
    if (image.width, image.height) != (width, height):
        raise damaged_file(f"WebP pixels of {width:,}×{height:,}", f"{image.width:,}×{image.height:,}")


def _bitstream(reader: HeaderReader, chunk: _Chunk) -> _Bitstream:
    size, header_bytes = chunk.end - chunk.start, 10 if chunk.kind == b"VP8 " else 5
    if size < header_bytes:
        raise damaged_file(f"{header_bytes} bytes and more of WebP pixels", f"{size}")
    head = reader.read_exactly(chunk.start, header_bytes)
    return _vp8(head, size) if chunk.kind == b"VP8 " else _vp8l(head)


def _vp8(head: bytes, size: int) -> _Bitstream:
    tag = _uint24(head[:3])
    key_frame, version, show_frame, partition = not tag & 1, tag >> 1 & 7, tag >> 4 & 1, tag >> 5
    width, height = (side & 0x3FFF for side in struct.unpack("<HH", head[6:]))
    is_valid = key_frame and version <= 3 and show_frame and partition < size and head[3:6] == b"\x9d\x01\x2a"
    if not is_valid or not width or not height:
        raise damaged_file("a VP8 key frame in a WebP", f"the header {head.hex()}")
    return _Bitstream(width, height, False)


def _vp8l(head: bytes) -> _Bitstream:
    bits = struct.unpack("<I", head[1:])[0]
    if head[0] != 0x2F or bits >> 29:
        raise damaged_file("a VP8L header in a WebP", head.hex())
    return _Bitstream((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, bool(bits >> 28 & 1))


def _uint24(raw: bytes) -> int:
    return int.from_bytes(raw, "little")
