"""GIF: the blocks of a file, and its frames, each as a file of its own that Pillow decodes.

Source: Graphics Interchange Format, version 89a (CompuServe), as browsers read it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from io import BytesIO

from attrs import frozen
from PIL import Image

from imagehost_core.pixels.composition import INFINITE, Disposal, StoredFrame

EXTENSION, FRAME, TRAILER = b"!", b",", b";"
_INTRODUCER = re.compile(rb"[!,;]")
"""The first byte of an extension, a frame or the trailer. Decoders skip other bytes between blocks."""
GRAPHIC_CONTROL, APPLICATION = b"\xf9", b"\xff"
SCREEN_BYTES, _DESCRIPTOR_BYTES, _CONTROL_BYTES = 13, 10, 8
LOOP_COUNTS = (b"NETSCAPE2.0", b"ANIMEXTS1.0")
"""The application extensions with a loop count."""
_DISPOSALS = {2: Disposal.CLEAR, 3: Disposal.RESTORE, 4: Disposal.RESTORE}
"""The methods of disposal but those that keep the frame; encoders write 4 for 3 in error."""


@frozen
class GifFile:
    """The frames of a GIF, at least one.

    Attributes:
        size: Width and height of the canvas: the logical screen, enlarged to contain the first frame.
        frames: The frames.
        loop_count: How many times the animation is played; `INFINITE` for no end.
    """

    size: tuple[int, int]
    frames: list[StoredFrame]
    loop_count: int


def read_gif(data: bytes) -> GifFile:
    """Return the frames of a GIF; their pixels are not decoded.

    Raises:
        ValueError: There is no frame.
        LookupError: The file is truncated.
        struct.error: The file is truncated.
    """
    width, height = struct.unpack_from("<HH", data, 6)
    table = data[SCREEN_BYTES : SCREEN_BYTES + colour_table_bytes(data[10])]
    frames: list[StoredFrame] = []
    control, loop_count = b"", 1
    for begin, end in iter_blocks(data):
        if data[begin : begin + 1] == EXTENSION:
            label, content = data[begin + 1 : begin + 2], data[begin + 2 : begin + 18]
            if label == GRAPHIC_CONTROL and end - begin >= _CONTROL_BYTES:
                control = data[begin : begin + _CONTROL_BYTES - 1] + b"\0"
            elif label == APPLICATION and content[1:12] in LOOP_COUNTS and content[13:14] == b"\1":
                # The number of repetitions.
                repetitions = int.from_bytes(content[14:16], "little")
                loop_count = repetitions + 1 if repetitions else INFINITE
            continue
        left, top, *frame_size, flags = struct.unpack_from("<4HB", data, begin + 1)
        if not frames:
            width = max(width, left + frame_size[0])
            height = max(height, top + frame_size[1])
        descriptor = struct.pack("<4HB", 0, 0, *frame_size, flags)
        head = b"".join(
            (b"GIF89a", struct.pack("<2H", *frame_size), data[10:13], table, control, FRAME, descriptor)
        )
        decode = partial(_decode, head, memoryview(data)[begin + _DESCRIPTOR_BYTES : end])
        disposal, duration = Disposal.KEEP, 0
        if control:
            disposal = _DISPOSALS.get(control[3] >> 2 & 7, Disposal.KEEP)
            duration = 10 * int.from_bytes(control[4:6], "little")
        frames.append(StoredFrame(decode, left, top, duration, disposal))
        control = b""
    if not frames:
        raise ValueError("expected a GIF with a frame but received one without")
    return GifFile((width, height), frames, loop_count)


def iter_blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the offsets of the begin and the end of each extension and frame.

    The end is after the terminator of the block's sub-blocks, which may be missing at the end of the file.
    """
    offset = SCREEN_BYTES + colour_table_bytes(data[10])
    while (start := _INTRODUCER.search(data, offset)) and start[0] != TRAILER:
        begin = start.start()
        content = begin + 2
        if start[0] == FRAME:
            content = begin + _DESCRIPTOR_BYTES + colour_table_bytes(data[begin + 9]) + 1
        offset = _end_of_sub_blocks(data, content)
        yield begin, offset


def colour_table_bytes(flags: int) -> int:
    """Return the size of the colour table that the flags declare, in bytes."""
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _end_of_sub_blocks(data: bytes, offset: int) -> int:
    """Return the offset after the sequence of sub-blocks that begins at `offset`, and its terminator."""
    while offset != len(data) and data[offset]:
        offset += 1 + data[offset]
    return offset + 1


def _decode(head: bytes, pixels: memoryview) -> Image.Image:
    image = Image.open(BytesIO(b"".join((head, pixels, b"\0", TRAILER))), formats=("GIF",))
    image.load()
    # As an ImageFile it would represent all frames of its file.
    return image.copy()


@frozen
class GifBlock:
    """A frame to write: indices of pixels, and where and how long they are shown.

    Attributes:
        pixels: The indices, in mode `L`; `TRANSPARENT` leaves what is there.
        position: The column and the row of the first one.
        duration: Milliseconds, a multiple of 10.
        clears: Whether the rectangle becomes transparent after that time.
    """

    pixels: Image.Image
    position: tuple[int, int]
    duration: int
    clears: bool = False


def write_gif(
    size: tuple[int, int], palette: Sequence[int], blocks: Sequence[GifBlock], loop_count: int
) -> bytes:
    """Return a GIF with one colour table.

    Args:
        size: Width and height in pixels.
        palette: Red, green and blue of at most 255 colours.
        blocks: The frames. Index 255 of their pixels is transparent.
        loop_count: How many times the animation is played.
    """
    used = (max(block.pixels.point(_OPAQUE).tobytes()) for block in blocks)
    colours = max(used) + 1
    # The table has a power of two, and the transparent index follows the colours.
    bits = max(2, colours.bit_length())
    table = bytes(palette[: 3 * colours]).ljust(3 << bits, b"\0")
    parts = [b"GIF89a", struct.pack("<2H3B", *size, 0x80 | bits - 1, 0, 0), table]
    if loop_count != 1:
        parts.append(b"!\xff\x0b" + LOOP_COUNTS[0] + struct.pack("<2BHx", 3, 1, max(0, loop_count - 1)))
    remap = [*range(255), colours]
    for block in blocks:
        flags = (2 if block.clears else 1) << 2 | 1
        duration = min(block.duration // 10, 65_535)
        parts += EXTENSION, GRAPHIC_CONTROL, struct.pack("<2BHBx", 4, flags, duration, colours)
        parts += FRAME, struct.pack("<4H2B", *block.position, *block.pixels.size, 0, bits)
        parts += block.pixels.point(remap).tobytes("gif", "L", bits, 0), b"\0"
    return b"".join((*parts, TRAILER))


_OPAQUE = [*range(255), 0]
