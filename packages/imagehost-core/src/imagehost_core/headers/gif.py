"""GIF: a screen, then extensions and frames made of sub-blocks, up to the trailer.

Source: Graphics Interchange Format, version 89a (CompuServe). Where files are sloppy, this follows
Pillow, which decodes them: it must never find more frames or a larger canvas than were counted here.
"""

from __future__ import annotations

import re
import struct

from imagehost_core.formats import Format
from imagehost_core.headers.header import ImageHeader, MetadataCounter, MetadataKind
from imagehost_core.headers.reader import HeaderReader, damaged_file

MAX_BLOCKS = 1_000_000
"""Parts that a GIF may have. Sub-blocks hold at most 255 bytes, and encoders fill them: 50 MB of those
are 205,600, a million take a quarter of a second to walk."""
_SEGMENT_COST = 20
"""Parts that a frame or an extension counts as: looking at one takes as long as that many sub-blocks. So
there may be 47,000 of them."""

_INTRODUCER = re.compile(rb"[!,;]")
_EXTENSION, _FRAME, _TRAILER = b"!", b",", b";"
_GRAPHIC_CONTROL, _COMMENT, _APPLICATION = 0xF9, 0xFE, 0xFF
_TRANSPARENT = 0x01
_APPLICATIONS = {b"XMP DataXMP": MetadataKind.XMP, b"ICCRGBG1012": MetadataKind.ICC}
"""Identifiers of application extensions that hold metadata."""
_LOOPS = b"NETSCAPE2.0"
"""The application extension that says how often an animation is shown."""


def read(reader: HeaderReader) -> ImageHeader:
    """Return the header of a GIF.

    The size is the screen's, or the first frame's where that reaches further: that is what decoders and
    browsers show. Bytes between blocks are skipped. A missing trailer, or a last sub-block that lacks
    its terminator, is tolerated; a sub-block cut within is not.

    Raises:
        ValidationError: The structure is damaged.
    """
    width, height, flags = struct.unpack("<HHB", reader.read_exactly(6, 5))
    offset = 13 + _table(flags)
    reader.require_length(offset)
    size, extent = (width, height), (width, height)
    frames, alpha, tally = 0, False, MetadataCounter()
    while True:
        found = reader.search(_INTRODUCER, offset, 1)
        if found is None:
            end = offset
            break
        offset = found + 1
        reader.count_parts(MAX_BLOCKS, _SEGMENT_COST)
        kind = reader.read_exactly(found, 1)
        if kind == _TRAILER:
            end = offset
            break
        if kind == _FRAME:
            right, bottom, offset = _frame(reader, offset)
            extent = max(extent[0], right), max(extent[1], bottom)
            size = size if frames else extent
            frames += 1
        else:
            transparent, offset = _extension(reader, offset, tally)
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
        metadata=frozenset(tally.kinds),
        metadata_bytes=tally.size,
    )


def _table(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _frame(reader: HeaderReader, offset: int) -> tuple[int, int, int]:
    left, top, width, height, flags = struct.unpack("<4HB", reader.read_exactly(offset, 9))
    if not width or not height:
        raise damaged_file("GIF frames of 1 pixel or more a side", f"{width:,}×{height:,}")
    pixels = offset + 9 + _table(flags) + 1
    reader.require_length(pixels)
    return left + width, top + height, _skip(reader, pixels)


def _extension(reader: HeaderReader, offset: int, tally: MetadataCounter) -> tuple[bool, int]:
    label = reader.read_exactly(offset, 1)[0]
    content = reader.peek(offset + 1, 12)
    after = reader.peek(offset + 2 + content[0], 1) if content else b""
    empty = content[:1] == b"\0" and label != _COMMENT
    if empty or (label == _APPLICATION and content[1:] == _LOOPS and after == b"\0"):
        # Pillow reads on after the terminator there, as it expects content: it would see other frames.
        raise damaged_file("GIF extensions with content", f"an empty one of kind 0x{label:02X}")
    end = _skip(reader, offset + 1)
    if label == _GRAPHIC_CONTROL:
        return len(content) > 1 and bool(content[1] & _TRANSPARENT), end
    tally.add(_APPLICATIONS.get(content[1:]) if label == _APPLICATION else None, offset + 1, end)
    return False, end


def _skip(reader: HeaderReader, offset: int) -> int:
    """Return the offset after a run of sub-blocks, each led by its size, and their terminator of size 0."""
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
