"""The orientation in EXIF: one tag, read without trusting anything around it.

EXIF is a TIFF file (Exif 2.32, section 4.5): a byte order, the offset of the first directory, and that
directory's entries of 12 bytes each. Nothing else is followed, so there are no loops to be caught in.
"""

from __future__ import annotations

import struct

from imagehost_core.headers.reader import HeaderReader

ORIENTATION = 0x0112
UPRIGHT = 1
PREFIX = b"Exif\0\0"
"""What precedes the TIFF file in JPEG, and wrongly in some files of the other formats as well."""

_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_SHORT, _LONG = 3, 4


def orientation(reader: HeaderReader, place: tuple[int, int] | None) -> int:
    """Return the orientation, 1 to 8, that EXIF tells.

    Whatever is wrong with EXIF, the picture itself is whole: it then counts as upright.

    Args:
        reader: The file.
        place: The offsets of EXIF's first byte and of the byte after it; `None` where there is no EXIF.
    """
    if place is None:
        return UPRIGHT
    start, end = place
    if reader.peek(start, len(PREFIX)) == PREFIX:
        start += len(PREFIX)
    order = _BYTE_ORDERS.get(reader.peek(start, 4))
    if order is None or end - start < 8:
        return UPRIGHT
    directory = start + struct.unpack(f"{order}I", reader.read_exactly(start + 4, 4))[0]
    if directory + 2 > end:
        return UPRIGHT
    count: int = struct.unpack(f"{order}H", reader.read_exactly(directory, 2))[0]
    entries = reader.peek(directory + 2, min(count, (end - directory - 2) // 12) * 12)
    for tag, kind, values, raw in struct.iter_unpack(f"{order}HHI4s", entries[: len(entries) // 12 * 12]):
        if tag == ORIENTATION and kind in (_SHORT, _LONG) and values == 1:
            value: int = struct.unpack(f"{order}{'H2x' if kind == _SHORT else 'I'}", raw)[0]
            return value if 1 <= value <= 8 else UPRIGHT
    return UPRIGHT
