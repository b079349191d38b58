"""JPEG: segments from marker to marker, up to the first end of image.

Sources: ITU-T T.81, annex B (markers); the behaviour of libjpeg-turbo, which decodes them, where T.81 is
silent: bytes between segments are skipped up to the next marker.
"""

from __future__ import annotations

import re
import struct

from imagehost_core.formats import Format
from imagehost_core.headers.exif import scan_orientation
from imagehost_core.headers.header import ImageHeader, MetadataCounter, MetadataKind
from imagehost_core.headers.reader import HeaderReader, damaged_file

MAX_SEGMENTS = 2_048
"""Parts that a JPEG may have. 100 scans with six tables each, 255 parts of an ICC profile and 4 MiB of
other metadata in full segments are about 1,050; decoders join the metadata at quadratic cost."""

_MARKER = re.compile(rb"\xff[\xc0-\xc7\xc9-\xcf\xd8-\xef\xfe]")
"""The markers that mean something here. The others are data: 0xFF00 is a stuffed byte of the pixels,
0xFF01 and 0xFFD0 to 0xFFD7 (restarts) stand alone, and the rest is reserved: decoders stop there."""

_SOI, _EOI, _SOS, _COM = 0xD8, 0xD9, 0xDA, 0xFE
_APP = range(0xE0, 0xF0)
_FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA}
"""Baseline, extended, progressive and lossless Huffman; sequential and progressive arithmetic."""
_FRAMES_UNREADABLE = {0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF, 0xDE, 0xDF}
"""Hierarchical frames and arithmetic lossless ones: no decoder that we use reads them."""

_LABELS = (
    (0xE1, b"Exif\0\0", MetadataKind.EXIF),
    (0xE1, b"http://ns.adobe.com/xap/1.0/\0", MetadataKind.XMP),
    (0xE1, b"http://ns.adobe.com/xmp/extension/\0", MetadataKind.XMP),
    (0xE2, b"ICC_PROFILE\0", MetadataKind.ICC),
    (0xED, b"Photoshop 3.0\0", MetadataKind.IPTC),
)
"""How metadata is told: the marker, and how the segment's content begins."""
_LONGEST_LABEL = max(len(label) for _, label, _ in _LABELS)


def read(reader: HeaderReader) -> ImageHeader:
    """Return the header of a JPEG.

    The end is the first end-of-image marker: thumbnails lie within segments, and the further images of
    MPO and gain-map files follow after it. A JPEG without that marker is cut short; libjpeg can only
    guess the rest of it.

    Raises:
        ValidationError: The structure is damaged.
    """
    size: tuple[int, int] | None = None
    scans = 0
    tally = MetadataCounter()
    offset = 2
    while True:
        found = reader.search(_MARKER, offset, 2)
        if found is None:
            raise damaged_file("a JPEG with an end-of-image marker", "one cut short before it")
        reader.count_parts(MAX_SEGMENTS)
        code, offset = reader.read_exactly(found, 2)[1], found + 2
        if code == _EOI:
            break
        if code == _SOI:
            raise damaged_file("one start-of-image marker in a JPEG", f"a second one at offset {found:,}")
        end = offset + max(2, struct.unpack(">H", reader.read_exactly(offset, 2))[0])
        reader.require_length(end)
        if code in _FRAMES or code in _FRAMES_UNREADABLE:
            if size is not None:
                raise damaged_file("one frame in a JPEG", f"a second one at offset {found:,}")
            size = _frame(reader, code, offset, end)
        elif code == _SOS:
            if size is None:
                raise damaged_file("a frame header before a JPEG's pixels", "none")
            scans += 1
        elif code in _APP or code == _COM:
            tally.add(_kind(code, reader.peek(offset + 2, _LONGEST_LABEL)), offset + 2, end)
        offset = end
    if size is None or not scans:
        raise damaged_file("a JPEG with pixels", "one that ends before them")
    return ImageHeader(
        format=Format.JPEG,
        width=size[0],
        height=size[1],
        orientation=scan_orientation(reader, tally.exif),
        end_offset=offset,
        scans=scans,
        metadata=frozenset(tally.kinds),
        metadata_bytes=tally.size,
    )


def _frame(reader: HeaderReader, code: int, start: int, end: int) -> tuple[int, int]:
    if code in _FRAMES_UNREADABLE:
        raise damaged_file("a JPEG that is not hierarchical", f"a frame of kind 0x{code:02X}")
    precision, height, width, components = struct.unpack(">BHHB", reader.read_exactly(start + 2, 6))
    if end - start != 8 + 3 * components:
        raise damaged_file(f"a JPEG frame header of {8 + 3 * components} bytes", f"{end - start:,}")
    if precision != 8:
        raise damaged_file("a JPEG of 8 bits a component", f"{precision}")
    if components not in (1, 3, 4):
        raise damaged_file("a JPEG of 1, 3 or 4 components", f"{components}")
    if not width or not height:
        # A height of 0 means that it follows after the first scan (DNL); libjpeg refuses that too.
        raise damaged_file("a JPEG that states its size", f"{width:,}×{height:,}")
    return width, height


def _kind(code: int, content: bytes) -> MetadataKind | None:
    for marker, label, kind in _LABELS:
        if code == marker and content.startswith(label):
            return kind
    return None
