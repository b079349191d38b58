"""Orientation and thumbnail of EXIF: read the tag, reset it, and remove what no longer fits the pixels.

EXIF is a TIFF file (Exif 2.32, section 4.5): a byte order, the offset of the first directory (IFD0), and
that directory's entries of 12 bytes each. To find the end of the data beside the thumbnail, the directories
that it refers to are read, each once, so the parser cannot loop.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from attrs import frozen

from imagehost_core.headers.reader import HeaderReader

ORIENTATION = 0x0112
UPRIGHT = 1
"""The orientation of an image that is neither rotated nor mirrored."""
PREFIX = b"Exif\0\0"
"""The identifier before the TIFF file in JPEG; some files of other formats have it in error."""

_MAX_PREFIXES = 2
"""Pillow puts a prefix before the EXIF of a PNG, which may have one in error already."""
_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_VALUE_BYTES = {3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
"""Bytes of a value by the tag's type; 1 for the others."""
_SUBDIRECTORIES = (0x8769, 0x8825, 0xA005)
"""The tags that refer to the directories of the camera, of the place, and of interoperability."""
_THUMBNAILS = {0x0201: 0x0202, 0x0111: 0x0117}
"""The tags of IFD1 with the offset and with the length of a thumbnail: JPEG, and one uncompressed strip."""
_VALUE_FORMATS = {3: "H", 4: "I"}
"""The `struct` format of a value by the tag's type: SHORT and LONG."""

_Entry = tuple[int, int, int]

Peek = Callable[[int, int], bytes]
"""Returns up to so many bytes (second argument) of the EXIF block from an offset (first argument)."""


@frozen
class _Tag:
    """The orientation tag of an EXIF block.

    Attributes:
        offset: Offset of the value in the block, in bytes.
        format: The value's `struct` format, byte order included.
        value: The stored value, in range or not.
    """

    offset: int
    format: str
    value: int

    @property
    def orientation(self) -> int:
        """The value, 1 to 8; 1 if it is out of range."""
        return self.value if 1 <= self.value <= 8 else UPRIGHT


def scan_orientation(reader: HeaderReader, span: tuple[int, int] | None) -> int:
    """Return the orientation, 1 to 8, of the EXIF block in a file; 1 if it is missing or malformed.

    Args:
        reader: The file.
        span: Offsets in bytes of the block's first byte and of the byte after its last, or `None` if the
            file has no EXIF.

    Raises:
        ValidationError: The file ends before the block does.
    """
    if span is None:
        return UPRIGHT
    start, end = span

    def peek(offset: int, count: int) -> bytes:
        return reader.read_exactly(start + offset, max(0, min(count, end - start - offset)))

    tag = _find_orientation(peek, end - start)
    return UPRIGHT if tag is None else tag.orientation


def read_orientation(exif: bytes) -> int:
    """Return the orientation, 1 to 8, of an EXIF block; 1 if it is missing or malformed."""
    tag = _find_in_bytes(exif)
    return UPRIGHT if tag is None else tag.orientation


def reset_orientation(exif: bytes) -> bytes:
    """Return an EXIF block with its orientation set to 1 and all other bytes unchanged."""
    tag = _find_in_bytes(exif)
    if tag is None:
        return exif
    value = struct.pack(tag.format, UPRIGHT)
    return exif[: tag.offset] + value + exif[tag.offset + len(value) :]


def remove_thumbnail(exif: bytes) -> bytes:
    """Return an EXIF block without its thumbnail: IFD1, which has an orientation, and what it refers to.

    Bytes after all others, where cameras write it, are cut off; elsewhere the thumbnail becomes zeros. So all
    other offsets stay valid, also those within maker notes.
    """
    found = find_tiff(lambda offset, count: exif[offset : offset + count])
    if found is None:
        return exif
    start, order = found
    tiff = bytearray(exif[start:])
    (first,) = struct.unpack_from(f"{order}I", tiff, 4)
    entries, link = _read_directory(tiff, order, first)
    if link + 4 > len(tiff) or not any(tiff[link : link + 4]):
        return exif
    (second,) = struct.unpack_from(f"{order}I", tiff, link)
    tiff[link : link + 4] = bytes(4)
    used, pending, seen = 8, [first], set()
    while pending:
        entries, link = _read_directory(tiff, order, offset := pending.pop())
        seen.add(offset)
        used = max(used, link + 4, *(end for _, _, end in entries), 0)
        pending += [value for tag, value, _ in entries if tag in _SUBDIRECTORIES and value not in seen]
    values = {tag: value for tag, value, _ in _read_directory(tiff, order, second)[0]}
    for place, length in _THUMBNAILS.items():
        begin, end = values.get(place, 0), min(values.get(place, 0) + values.get(length, 0), len(tiff))
        tiff[begin:end] = bytes(max(0, end - begin))
    return exif[:start] + tiff[:used]


def _read_directory(tiff: bytes | bytearray, order: str, offset: int) -> tuple[list[_Entry], int]:
    """Return tag, value as an integer, and end of the data of each entry; and the offset of the next link."""
    if offset + 2 > len(tiff):
        return [], len(tiff)
    (count,) = struct.unpack_from(f"{order}H", tiff, offset)
    first = offset + 2
    count = min(count, (len(tiff) - first) // 12)
    entries = []
    for tag, kind, values, raw in struct.iter_unpack(f"{order}HHI4s", tiff[first : first + 12 * count]):
        (value,) = struct.unpack_from(order + ("H" if kind == 3 and values == 1 else "I"), raw)
        size = _VALUE_BYTES.get(kind, 1) * values
        entries.append((tag, value, value + size if size > 4 else 0))
    return entries, first + 12 * count


def find_tiff(peek: Peek) -> tuple[int, str] | None:
    """Return the offset and the byte order (`<` or `>`) of the TIFF file in an EXIF block, or `None`.

    Args:
        peek: Reads bytes of the block.
    """
    start = 0
    for _ in range(_MAX_PREFIXES):
        if peek(start, len(PREFIX)) == PREFIX:
            start += len(PREFIX)
    header = peek(start, 8)
    order = _BYTE_ORDERS.get(header[:4])
    return None if order is None or len(header) < 8 else (start, order)


def _find_in_bytes(exif: bytes) -> _Tag | None:
    return _find_orientation(lambda offset, count: exif[offset : offset + count], len(exif))


def _find_orientation(peek: Peek, size: int) -> _Tag | None:
    """Return the first orientation tag of IFD0, of type SHORT or LONG and with one value.

    Args:
        peek: Reads bytes of the block.
        size: Length of the block in bytes.
    """
    found = find_tiff(peek)
    if found is None:
        return None
    start, order = found
    directory = start + int(struct.unpack(f"{order}I", peek(start + 4, 4))[0])
    if directory + 2 > size:
        return None
    (count,) = struct.unpack(f"{order}H", peek(directory, 2))
    first = directory + 2
    entries = peek(first, min(count, (size - first) // 12) * 12)
    for index, (tag, kind, values, raw) in enumerate(struct.iter_unpack(f"{order}HHI4s", entries)):
        if tag == ORIENTATION and kind in _VALUE_FORMATS and values == 1:
            value_format = order + _VALUE_FORMATS[kind]
            value = int(struct.unpack_from(value_format, raw)[0])
            return _Tag(first + 12 * index + 8, value_format, value)
    return None
