"""APNG: the frames of an animated PNG, counted as its chunks come.

Source: Portable Network Graphics, third edition (W3C), section 11.3.6.
"""

from __future__ import annotations

import struct

from attrs import define

from imagehost_core.headers.reader import HeaderReader, damaged_file


@define
class ApngFrameCounter:
    """The frames that came so far.

    A PNG whose acTL is missing, late, doubled or zero is a still picture, whatever frames follow: so
    browsers and decoders take it. Where acTL holds, its frames must be there.

    Attributes:
        width: The canvas, in pixels.
        height: Likewise.
        declared: The frames that acTL announces.
        begun: Whether the pixels of the default image began: acTL has no say after that.
        default: Whether the default image is no part of the animation.
        sequence: The number that the next fcTL or fdAT should have.
        controls: How many fcTL came.
        filled: How many of those have pixels.
        over: Whether a frame came beyond the announced ones: nothing from there on is looked at.
        fault: The first thing that was wrong.
    """

    width: int
    height: int
    declared: int = 0
    begun: bool = False
    default: bool = False
    sequence: int = 0
    controls: int = 0
    filled: int = 0
    over: bool = False
    fault: str = ""

    def chunk(self, reader: HeaderReader, kind: bytes, start: int, length: int) -> None:
        """Take notice of a chunk, whatever its type."""
        if kind == b"acTL" and not self.begun:
            number = struct.unpack(">I", reader.read_exactly(start, 4))[0] if length >= 8 else 0
            self.declared = 0 if self.declared or number > 2**31 else number
        elif kind == b"IDAT":
            if not self.begun:
                self.default = not self.controls
                self.filled = self.controls
            self.begun = True
        elif kind in (b"fcTL", b"fdAT"):
            self.over = self.over or (kind == b"fcTL" and self.begun and self.filled >= self.declared)
            if not self.over:
                self._frame(reader, kind, start, length)

    def frames(self) -> int:
        """Return how many pictures a decoder finds.

        Raises:
            ValidationError: Frames that acTL announces are missing or out of order.
        """
        if not self.declared:
            return 1
        if self.fault or self.filled < self.declared:
            announced = f"an APNG that holds the frames that it announces, {self.declared:,}"
            raise damaged_file(announced, self.fault or f"{self.filled:,}")
        return self.declared + self.default

    def _frame(self, reader: HeaderReader, kind: bytes, start: int, length: int) -> None:
        if length < (26 if kind == b"fcTL" else 4):
            self.fault = self.fault or f"a {kind.decode()} of {length} bytes"
            return
        number = struct.unpack(">I", reader.read_exactly(start, 4))[0]
        if number != self.sequence:
            self.fault = self.fault or f"the number {number:,} where {self.sequence:,} should be"
        self.sequence = number + 1
        if kind == b"fdAT":
            self.filled = self.controls
            return
        if self.controls > self.filled:
            self.fault = self.fault or f"frame {self.controls:,} without pixels"
        self.controls += 1
        width, height, left, top = struct.unpack(">4I", reader.read_exactly(start + 4, 16))
        if not width or not height or left + width > self.width or top + height > self.height:
            self.fault = self.fault or f"a frame of {width:,}×{height:,} at {left:,}, {top:,}"
