"""PNG: chunks from the header to IEND.

Source: Portable Network Graphics, third edition (W3C), sections 5 and 11.
"""

from __future__ import annotations

import struct
import zlib

from attrs import define

from imagehost_core.formats import Format
from imagehost_core.headers.exif import UPRIGHT, scan_orientation
from imagehost_core.headers.header import MAX_METADATA_BYTES, FoundMetadata, ImageHeader, MetadataKind
from imagehost_core.headers.reader import HeaderReader, damaged_file, fourcc


@define
class ApngFrameCounter:
    """A counter of the frames of a PNG.

    A PNG whose acTL is missing, late, duplicated or zero is a still image, even if frames follow: browsers
    and decoders treat it so. After a valid acTL, all announced frames must be present.

    Attributes:
        width: Width of the canvas in pixels.
        height: Height of the canvas in pixels.
        announced: Number of frames according to acTL.
        has_pixels: Whether the first IDAT was seen; later acTL chunks are ignored.
        has_default_image: Whether the default image is not part of the animation.
        next_sequence: The expected sequence number of the next fcTL or fdAT.
        controls: Number of fcTL chunks seen.
        complete: Number of fcTL chunks followed by pixels.
        is_done: Whether all announced frames were seen; further frames are ignored.
        error: The first error.
    """

    width: int
    height: int
    announced: int = 0
    has_pixels: bool = False
    has_default_image: bool = False
    next_sequence: int = 0
    controls: int = 0
    complete: int = 0
    is_done: bool = False
    error: str = ""

    def add_chunk(self, reader: HeaderReader, kind: bytes, start: int, length: int) -> None:
        """Process a chunk of any type."""
        if kind == b"acTL" and not self.has_pixels:
            frames = struct.unpack(">I", reader.read_exactly(start, 4))[0] if length >= 8 else 0
            self.announced = 0 if self.announced or frames > 2**31 else frames
        elif kind == b"IDAT":
            if not self.has_pixels:
                self.has_default_image = not self.controls
                self.complete = self.controls
            self.has_pixels = True
        elif kind in (b"fcTL", b"fdAT"):
            self.is_done = self.is_done or (
                kind == b"fcTL" and self.has_pixels and self.complete >= self.announced
            )
            if not self.is_done:
                self._add_frame(reader, kind, start, length)

    def frames(self) -> int:
        """Return the number of images that a decoder finds.

        Raises:
            ValidationError: Announced frames are missing or out of order.
        """
        if not self.announced:
            return 1
        if self.error or self.complete < self.announced:
            expected = f"an APNG with the {self.announced:,} frames that it announces"
            raise damaged_file(expected, self.error or f"{self.complete:,}")
        return self.announced + self.has_default_image

    def _add_frame(self, reader: HeaderReader, kind: bytes, start: int, length: int) -> None:
        if length < (26 if kind == b"fcTL" else 4):
            self.error = self.error or f"a {kind.decode()} of {length} bytes"
            return
        number = struct.unpack(">I", reader.read_exactly(start, 4))[0]
        if number != self.next_sequence:
            self.error = self.error or f"the number {number:,} where {self.next_sequence:,} should be"
        self.next_sequence = number + 1
        if kind == b"fdAT":
            self.complete = self.controls
            return
        if self.controls > self.complete:
            self.error = self.error or f"frame {self.controls:,} without pixels"
        self.controls += 1
        width, height, left, top = struct.unpack(">4I", reader.read_exactly(start + 4, 16))
        if not width or not height or left + width > self.width or top + height > self.height:
            self.error = self.error or f"a frame of {width:,}×{height:,} at {left:,}, {top:,}"


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
    metadata = FoundMetadata()
    exif_span: tuple[int, int] | None = None
    exif_is_first = False
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
            if kind == b"eXIf" and exif_span is None and length <= MAX_METADATA_BYTES:
                exif_span = start, end
                exif_is_first = not pixels
        offset = end + 4
    if not pixels:
        raise damaged_file("a PNG with pixels", "one without IDAT")
    orientation = scan_orientation(reader, exif_span)
    return ImageHeader(
        format=Format.PNG,
        width=width,
        height=height,
        frames=animation.frames(),
        orientation=orientation.value,
        is_upright_in_browsers=orientation.value == UPRIGHT
        or (exif_is_first and orientation.is_applied_by_browsers(label=0)),
        has_alpha=alpha,
        end_offset=offset,
        metadata=metadata.kinds,
        metadata_spans=metadata.spans,
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
