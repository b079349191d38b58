"""APNG: counts the frames of an animated PNG chunk by chunk.

Source: Portable Network Graphics, third edition (W3C), section 11.3.6.
"""

from __future__ import annotations

import struct

from attrs import define

from imagehost_core.headers.reader import HeaderReader, damaged_file


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
