"""The one EXIF tag that changes what a picture looks like: reading it, and setting it back.

EXIF is a TIFF file without pixels (EXIF 2.32, section 4.5): a byte order, then a directory of
12-byte entries. Everything else in it is left alone, byte for byte.
"""

from __future__ import annotations

import struct

PREFIX = b"Exif\0\0"
"""What stands before the TIFF header in a JPEG segment, and nowhere else."""

_ORIENTATION = 0x0112
_SHORT = 3
_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}


def read_orientation(exif: bytes) -> int:
    """Return the orientation, 1–8; 1 where the tag is missing, unreadable or out of its range."""
    found = _find(exif)
    return found[1] if found is not None and 1 <= found[1] <= 8 else 1


def reset_orientation(exif: bytes) -> bytes:
    """Return the same EXIF with its orientation set to 1, for a picture that has been turned."""
    found = _find(exif)
    if found is None:
        return exif
    offset, _, order = found
    return exif[:offset] + struct.pack(f"{order}H", 1) + exif[offset + 2 :]


def _find(exif: bytes) -> tuple[int, int, str] | None:
    """Return where the orientation's value stands, the value, and the byte order."""
    start = len(PREFIX) if exif.startswith(PREFIX) else 0
    order = _BYTE_ORDERS.get(exif[start : start + 4])
    if order is None or len(exif) < start + 8:
        return None
    directory = start + int(struct.unpack_from(f"{order}I", exif, start + 4)[0])
    if len(exif) < directory + 2:
        return None
    (entries,) = struct.unpack_from(f"{order}H", exif, directory)
    for index in range(entries):
        entry = directory + 2 + 12 * index
        if len(exif) < entry + 12:
            return None
        tag, kind, count = struct.unpack_from(f"{order}HHI", exif, entry)
        if (tag, kind, count) == (_ORIENTATION, _SHORT, 1):
            return entry + 8, int(struct.unpack_from(f"{order}H", exif, entry + 8)[0]), order
    return None
