"""Orientation and thumbnail of EXIF: read the tag, reset it, and remove what no longer fits the pixels.

Files state their orientation in more ways than browsers read. All browsers apply a tag of type SHORT, in a
JPEG after one label and in a PNG without any; `Orientation` tells whether a block is of that form.

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

TRANSPOSED = frozenset({5, 6, 7, 8})
"""The EXIF orientations that exchange width and height."""
PREFIX = b"Exif\0\0"
"""The identifier before the TIFF file in JPEG; some files of other formats have it in error."""

LABEL = b"Exif\0"
"""The part of the identifier that decoders compare; the sixth byte is a pad byte of any value."""
_MAX_PREFIXES = 2
"""Pillow puts a prefix before the EXIF of a PNG, which may have one in error already."""
_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_VALUE_BYTES = {3: 2, 4: 4, 5: 8, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
"""Bytes of a value by the tag's type; 1 for the others."""
_SUBDIRECTORIES = (0x8769, 0x8825, 0xA005)
"""The tags that refer to the directories of the camera, of the place, and of interoperability."""
_THUMBNAILS = {0x0201: 0x0202, 0x0111: 0x0117}
"""The tags of IFD1 with the offset and with the length of a thumbnail: JPEG, and one uncompressed strip."""
_SHORT, _LONG = 3, 4
_VALUE_FORMATS = {_SHORT: "H", _LONG: "I"}
"""The `struct` format of a value by the tag's type."""

_Entry = tuple[int, int, int]

Peek = Callable[[int, int], bytes]
"""Returns up to so many bytes (second argument) of the EXIF block from an offset (first argument)."""


@frozen
class Orientation:
    """The orientation tag of an EXIF block.

    Attributes:
        value: 1 to 8.
        kind: The tag's type: SHORT, or in error LONG.
        order: The byte order, `<` or `>`.
        tiff_offset: Offset of the TIFF file in the block, in bytes: the length of what labels it.
        entry_offset: Offset of the directory's entry in the block, in bytes.
    """

    value: int = UPRIGHT
    kind: int = _SHORT
    order: str = "<"
    tiff_offset: int = 0
    entry_offset: int = 0

    def is_applied_by_browsers(self, label: int) -> bool:
        """Return whether browsers rotate and mirror the image so, in a format whose EXIF they read.

        Args:
            label: Bytes of the label that the format has before the TIFF file.
        """
        return self.value == UPRIGHT or (self.kind == _SHORT and self.tiff_offset == label)


def scan_orientation(reader: HeaderReader, span: tuple[int, int] | None) -> Orientation:
    """Return the orientation tag of the EXIF block in a file; one of 1 if it is missing or malformed.

    Args:
        reader: The file.
        span: Offsets in bytes of the block's first byte and of the byte after its last, or `None` if the
            file has no EXIF.

    Raises:
        ValidationError: The file ends before the block does.
    """
    if span is None:
        return Orientation()
    start, end = span

    def peek(offset: int, count: int) -> bytes:
        return reader.read_exactly(start + offset, max(0, min(count, end - start - offset)))

    return _find_orientation(peek, end - start) or Orientation()


def read_orientation(exif: bytes) -> int:
    """Return the orientation, 1 to 8, of an EXIF block; 1 if it is missing or malformed."""
    tag = _find_in_bytes(exif)
    return UPRIGHT if tag is None else tag.value


def reset_orientation(exif: bytes) -> bytes:
    """Return an EXIF block with its orientation set to 1 and all other bytes unchanged."""
    tag = _find_in_bytes(exif)
    if tag is None:
        return exif
    offset, value = tag.entry_offset + 8, struct.pack(tag.order + _VALUE_FORMATS[tag.kind], UPRIGHT)
    return exif[:offset] + value + exif[offset + len(value) :]


def standard_exif(exif: bytes) -> bytes | None:
    """Return the TIFF file of an EXIF block whose orientation is not 1, with a tag that browsers apply.

    Returns:
        `None` if the orientation is 1 or missing: browsers need no tag to show the image upright.
    """
    tag = _find_in_bytes(exif)
    if tag is None or tag.value == UPRIGHT:
        return None
    entry = struct.pack(f"{tag.order}HHIH2x", ORIENTATION, _SHORT, 1, tag.value)
    end = tag.entry_offset + len(entry)
    return exif[tag.tiff_offset : tag.entry_offset] + entry + exif[end:]


def exif_of_orientation(orientation: int) -> bytes:
    """Return a TIFF file with no other tag."""
    entry = struct.pack("<HHIH2x", ORIENTATION, _SHORT, 1, orientation)
    return struct.pack("<4sIH", b"II*\0", 8, 1) + entry + bytes(4)


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
        begin = values.get(place, 0)
        end = min(values.get(place, 0) + values.get(length, 0), len(tiff))
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
        if peek(start, len(LABEL)) == LABEL:
            start += len(PREFIX)
    header = peek(start, 8)
    order = _BYTE_ORDERS.get(header[:4])
    return None if order is None or len(header) < 8 else (start, order)


def _find_in_bytes(exif: bytes) -> Orientation | None:
    return _find_orientation(lambda offset, count: exif[offset : offset + count], len(exif))


def _find_orientation(peek: Peek, size: int) -> Orientation | None:
    """Return the first orientation of IFD0 with one value in range, of type SHORT if there is one, or LONG.

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
    tags: dict[int, Orientation] = {}
    for index, (tag, kind, values, raw) in enumerate(struct.iter_unpack(f"{order}HHI4s", entries)):
        if tag == ORIENTATION and kind in _VALUE_FORMATS and values == 1:
            (value,) = struct.unpack_from(order + _VALUE_FORMATS[kind], raw)
            if 1 <= value <= 8:
                tags.setdefault(kind, Orientation(value, kind, order, start, first + 12 * index))
    return tags.get(_SHORT) or tags.get(_LONG)
