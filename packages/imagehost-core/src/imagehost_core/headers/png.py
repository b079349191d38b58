"""PNG: chunks from the header to IEND.

Source: Portable Network Graphics, third edition (W3C), sections 5 and 11.
"""

from __future__ import annotations

import struct
import zlib

from imagehost_core.formats import Format
from imagehost_core.headers.apng import ApngFrameCounter
from imagehost_core.headers.exif import scan_orientation
from imagehost_core.headers.header import ImageHeader, MetadataCounter, MetadataKind
from imagehost_core.headers.reader import HeaderReader, damaged_file, fourcc

MAX_CHUNKS = 200_000
"""The most chunks of a PNG: 50 MB of pixels in chunks of 262 bytes; encoders write 8 KiB and more."""

_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""The bit depths of each colour type."""
_ALPHA_COLOUR_TYPES = (4, 6)
_PIXELS = frozenset((b"IHDR", b"PLTE", b"IDAT", b"IEND", b"acTL", b"fcTL", b"fdAT"))
"""The chunks that are not metadata."""

_KINDS = {b"eXIf": MetadataKind.EXIF, b"iCCP": MetadataKind.ICC}
_KEYWORDS = {
    b"XML:com.adobe.xmp": MetadataKind.XMP,
    b"Raw profile type xmp": MetadataKind.XMP,
    b"Raw profile type exif": MetadataKind.EXIF,
    b"Raw profile type APP1": MetadataKind.EXIF,
    b"Raw profile type iptc": MetadataKind.IPTC,
    b"Raw profile type 8bim": MetadataKind.IPTC,
}
"""Keywords of text chunks that contain metadata; ImageMagick writes the raw profiles."""
_TEXTS = (b"tEXt", b"zTXt", b"iTXt")
_LONGEST_KEYWORD = 79


def read(reader: HeaderReader) -> ImageHeader:
    """Return the header of a PNG.

    A file that ends between two chunks after the pixels is accepted without IEND, as decoders read it. One
    that ends within a chunk is truncated.

    Raises:
        ValidationError: The structure is damaged.
    """
    width, height, alpha = _ihdr(reader)
    animation = ApngFrameCounter(width, height)
    metadata = MetadataCounter()
    exif_span: tuple[int, int] | None = None
    pixels = False
    offset = 33
    while True:
        head = reader.peek(offset, 8)
        if len(head) < 8 and pixels:
            break
        length, kind = struct.unpack(">I4s", reader.read_exactly(offset, 8))
        if not kind.isalpha():
            raise damaged_file("a PNG made of chunks", f"one of type {fourcc(kind)} at offset {offset:,}")
        reader.count_parts(MAX_CHUNKS)
        start, end = offset + 8, offset + 8 + length
        if kind == b"IEND":
            if length:
                raise damaged_file("an empty IEND in a PNG", f"one of {length:,} bytes")
            offset = min(end + 4, reader.size)
            break
        reader.require_length(end + 4)
        if kind == b"IHDR":
            raise damaged_file("one IHDR in a PNG", f"a second one at offset {offset:,}")
        if kind == b"PLTE" and (length > 768 or length % 3):
            raise damaged_file("a PNG palette of up to 256 colours", f"one of {length:,} bytes")
        if kind == b"tRNS" and not pixels:
            alpha = True
        pixels = pixels or kind == b"IDAT"
        animation.add_chunk(reader, kind, start, length)
        if kind not in _PIXELS:
            metadata.add(_metadata_kind(reader, kind, start), start, end)
            if kind == b"eXIf" and exif_span is None:
                exif_span = start, end
        offset = end + 4
    if not pixels:
        raise damaged_file("a PNG with pixels", "one without IDAT")
    return ImageHeader(
        format=Format.PNG,
        width=width,
        height=height,
        frames=animation.frames(),
        orientation=scan_orientation(reader, exif_span),
        has_alpha=alpha,
        end_offset=offset,
        exif_span=exif_span,
        metadata=metadata.kinds,
        metadata_spans=metadata.spans,
        metadata_bytes=metadata.size,
    )


def _ihdr(reader: HeaderReader) -> tuple[int, int, bool]:
    chunk = reader.read_exactly(8, 25)
    length, kind, width, height, depth, colour, compression, filtering, interlace, crc = struct.unpack(
        ">I4sIIBBBBBI", chunk
    )
    if kind != b"IHDR" or length != 13:
        raise damaged_file("IHDR of 13 bytes first in a PNG", f"{fourcc(kind)} of {length:,} bytes")
    if zlib.crc32(chunk[4:21]) != crc:
        raise damaged_file(f"a PNG header with the checksum {zlib.crc32(chunk[4:21]):08x}", f"{crc:08x}")
    if not 0 < width < 2**31 or not 0 < height < 2**31:
        raise damaged_file("a PNG of 1 pixel or more a side", f"{width:,}×{height:,}")
    if depth not in _DEPTHS.get(colour, ()):
        raise damaged_file(
            "a PNG of a known colour type and depth", f"colour type {colour} with {depth} bits"
        )
    if compression or filtering or interlace > 1:
        raise damaged_file("a PNG of known methods", f"{compression}, {filtering} and {interlace}")
    return width, height, colour in _ALPHA_COLOUR_TYPES


def _metadata_kind(reader: HeaderReader, kind: bytes, start: int) -> MetadataKind | None:
    if kind in _TEXTS:
        return _KEYWORDS.get(reader.peek(start, _LONGEST_KEYWORD + 1).split(b"\0", 1)[0])
    return _KINDS.get(kind)
