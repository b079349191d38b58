"""The frame header of a JPEG: its size, and how much its pixels take at least (ITU-T T.81, B.2.2)."""

from __future__ import annotations

import struct

from attrs import frozen

from imagehost_core.headers.reader import HeaderReader, damaged_file

FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA}
"""Baseline, extended, progressive and lossless Huffman; sequential and progressive arithmetic."""
UNSUPPORTED_FRAMES = {0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF, 0xDE, 0xDF}
"""Hierarchical frames and arithmetic lossless ones: libjpeg-turbo does not decode them."""
_DISPLAYABLE_FRAMES = {0xC0, 0xC1, 0xC2}
"""Baseline, extended and progressive Huffman: the frames that browsers decode."""
_PROGRESSIVE, _LOSSLESS = 0xC2, 0xC3
_ARITHMETIC_FRAMES = {0xC9, 0xCA}


@frozen
class JpegFrame:
    """A frame header.

    Attributes:
        code: Its marker.
        width: Width in pixels.
        height: Height in pixels.
        sampling: The horizontal and vertical sampling factors of each component, by its id.
    """

    code: int
    width: int
    height: int
    sampling: dict[int, tuple[int, int]]

    @property
    def is_displayable(self) -> bool:
        """Whether browsers decode it."""
        return self.code in _DISPLAYABLE_FRAMES

    def least_bits(self, scan_header: bytes) -> int:
        """Return the least number of bits that a first scan needs: one for each of its data units.

        A Huffman code has at least one bit. Each block of 8×8 samples has a code for its DC coefficient, and
        each sample of a lossless frame has one. Only scans of AC coefficients alone, with their runs of empty
        blocks, and arithmetic coding need fewer.

        Args:
            scan_header: The segment of the scan, from its length on.
        """
        ids = scan_header[3 : 3 + 2 * scan_header[2] : 2] if len(scan_header) > 2 else b""
        factors = [self.sampling[each] for each in ids if each in self.sampling]
        widest = max((width for width, _ in self.sampling.values()), default=0)
        tallest = max((height for _, height in self.sampling.values()), default=0)
        is_ac = self.code == _PROGRESSIVE and scan_header[3 + 2 * len(ids) : 4 + 2 * len(ids)] != b"\0"
        if is_ac or not widest or not tallest or self.code in _ARITHMETIC_FRAMES:
            return 0
        side = 1 if self.code == _LOSSLESS else 8
        # T.81, A.2: the blocks of one component are those of its own size, those of several fill whole units.
        if len(factors) == 1:
            ((across, down),) = factors
            return _ceil(_ceil(self.width * across, widest), side) * _ceil(
                _ceil(self.height * down, tallest), side
            )
        units = _ceil(self.width, side * widest) * _ceil(self.height, side * tallest)
        return units * sum(across * down for across, down in factors)


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def read_frame(reader: HeaderReader, code: int, start: int, end: int) -> JpegFrame:
    """Return the frame header in the segment of a marker.

    Args:
        reader: The file.
        code: The marker.
        start: Offset of the segment's length.
        end: Offset of its end.

    Raises:
        ValidationError: The decoder does not decode such frames, or the header is damaged.
    """
    if code in UNSUPPORTED_FRAMES:
        raise damaged_file("a JPEG that is not hierarchical", f"a frame of kind 0x{code:02X}")
    precision, height, width, components = struct.unpack(">BHHB", reader.read_exactly(start + 2, 6))
    if end - start != 8 + 3 * components:
        raise damaged_file(f"a JPEG frame header of {8 + 3 * components} bytes", f"{end - start:,}")
    if precision != 8:
        raise damaged_file("a JPEG of 8 bits a component", f"{precision}")
    if components not in (1, 3, 4):
        raise damaged_file("a JPEG of 1, 3 or 4 components", f"{components}")
    if not width or not height:
        # A height of 0 means that it follows after the first scan (DNL); libjpeg rejects that too.
        raise damaged_file("a JPEG that states its size", f"{width:,}×{height:,}")
    specifications = reader.read_exactly(start + 8, 3 * components)
    sampling = {
        specifications[index]: divmod(specifications[index + 1], 16)
        for index in range(0, len(specifications), 3)
    }
    return JpegFrame(code, width, height, sampling)
