"""GIF: a logical screen, then extensions and frames of sub-blocks, up to the trailer.

Source: Graphics Interchange Format, version 89a (CompuServe). For malformed files this follows
Pillow, which decodes them: it must never find more frames or a larger canvas than counted here.
"""

from __future__ import annotations

import re
import struct

from imagehost_core.formats import Format
from imagehost_core.headers.header import FoundMetadata, ImageHeader, MetadataKind
from imagehost_core.headers.reader import HeaderReader, damaged_file

MAX_BLOCKS = 1_000_000
"""The most parts of a GIF. Encoders fill sub-blocks up to 255 bytes, so 50 MB have 205,600; scanning a
million takes a quarter of a second."""
_SEGMENT_COST = 20
"""The parts that a frame or an extension counts as, because scanning one takes as long as that many
sub-blocks. So a GIF can have 47,000 of them."""

MAX_PADDING_BYTES = 65_536
"""The most bytes between the blocks of a GIF. Encoders write none; Pillow reads them one by one."""

_INTRODUCER = re.compile(rb"[!,;]")
_EXTENSION, _FRAME, _TRAILER = b"!", b",", b";"
_GRAPHIC_CONTROL, _COMMENT, _APPLICATION = 0xF9, 0xFE, 0xFF
_TRANSPARENT = 0x01
_APPLICATIONS = {b"XMP DataXMP": MetadataKind.XMP, b"ICCRGBG1012": MetadataKind.ICC}
"""Identifiers of application extensions that hold metadata."""
_LOOP_COUNT = b"NETSCAPE2.0"
"""The application extension with the loop count of an animation."""


def read(reader: HeaderReader) -> ImageHeader:
    """Return the header of a GIF.

    The size is that of the logical screen, enlarged to contain the first frame, as in decoders and browsers.
    Bytes between blocks are skipped. A missing trailer and a missing terminator of the last sub-blocks are
    tolerated; a truncated sub-block is not.

    Raises:
        ValidationError: The structure is damaged.
    """
    width, height, flags = struct.unpack("<HHB", reader.read_exactly(6, 5))
    offset = 13 + _colour_table_bytes(flags)
    reader.require_length(offset)
    size, extent = (width, height), (width, height)
    frames, alpha, metadata, padding = 0, False, FoundMetadata(), 0
    while True:
        start = reader.search(_INTRODUCER, offset, 1)
        if start is None:
            end = offset
            break
        padding += start - offset
        if padding > MAX_PADDING_BYTES:
            raise damaged_file(f"at most {MAX_PADDING_BYTES:,} bytes between the blocks of a GIF", "more")
        offset = start + 1
        reader.count_parts(MAX_BLOCKS, _SEGMENT_COST)
        kind = reader.read_exactly(start, 1)
        if kind == _TRAILER:
            end = offset
            break
        if kind == _FRAME:
            right, bottom, offset = _frame(reader, offset)
            extent = max(extent[0], right), max(extent[1], bottom)
            size = size if frames else extent
            frames += 1
        else:
            transparent, offset = _extension(reader, offset, metadata)
            alpha = alpha or transparent
    if not frames:
        raise damaged_file("a GIF with a frame", "one without")
    return ImageHeader(
        format=Format.GIF,
        width=size[0],
        height=size[1],
        frames=frames,
        has_alpha=alpha,
        end_offset=end,
        canvas_extent=extent,
        metadata=metadata.kinds,
        metadata_spans=metadata.spans,
    )


def _colour_table_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _frame(reader: HeaderReader, offset: int) -> tuple[int, int, int]:
    left, top, width, height, flags = struct.unpack("<4HB", reader.read_exactly(offset, 9))
    if not width or not height:
        raise damaged_file("GIF frames of 1 pixel or more a side", f"{width:,}×{height:,}")
    pixels = offset + 9 + _colour_table_bytes(flags) + 1
    reader.require_length(pixels)
    return left + width, top + height, _skip_sub_blocks(reader, pixels)


def _extension(reader: HeaderReader, offset: int, metadata: FoundMetadata) -> tuple[bool, int]:
    label = reader.read_exactly(offset, 1)[0]
    content = reader.peek(offset + 1, 12)
    after = reader.peek(offset + 2 + content[0], 1) if content else b""
    empty = content[:1] == b"\0" and label != _COMMENT
    if empty or (label == _APPLICATION and content[1:] == _LOOP_COUNT and after == b"\0"):
        # Pillow expects content there and reads on after the terminator, so it would find other frames.
        raise damaged_file("GIF extensions with content", f"an empty one of kind 0x{label:02X}")
    end = _skip_sub_blocks(reader, offset + 1)
    if label == _GRAPHIC_CONTROL:
        return len(content) > 1 and bool(content[1] & _TRANSPARENT), end
    metadata.add(_APPLICATIONS.get(content[1:]) if label == _APPLICATION else None, offset + 1, end)
    return False, end


def _skip_sub_blocks(reader: HeaderReader, offset: int) -> int:
    """Return the offset after a series of sub-blocks and its terminator, a sub-block of size 0."""
    while offset < reader.size:
        page, index = reader.buffer_at(offset)
        base, blocks = offset - index, 0
        while index < len(page):
            size = page[index]
            index += size + 1
            blocks += 1
            if not size:
                break
        offset = base + index
        reader.count_parts(MAX_BLOCKS, blocks)
        reader.require_length(offset)
        if not size:
            return offset
    return offset
