"""Further images in a JPEG file, after the end of the first: those that an index of the file names.

Two indexes are in use, often together: MPF (CIPA DC-007), with offsets, and the directory of a container in
XMP, with lengths (Ultra HDR, motion photos). A gain map is such an image; a video that follows is none, and
so is everything that no index names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from attrs import frozen

from imagehost_core.headers.reader import HeaderReader
from imagehost_core.headers.xmp import ContainerItem, container_items

MPF_LABEL = b"MPF\0"
_BYTE_ORDERS = {b"II*\0": "<", b"MM\0*": ">"}
_IMAGES = 0xB002
"""The tag with the index entries, of 16 bytes each."""
_ENTRY_BYTES = 16
MAX_IMAGES = 16
"""The most images of an index; cameras write two or three."""

Span = tuple[int, int]
EndOfImage = Callable[[int, int], int | None]
"""Returns the offset of the end of the JPEG between two offsets, or `None` if there is none."""


@frozen
class FurtherImages:
    """The further images of a file.

    Attributes:
        spans: Offsets of the first byte and of the end of each, in order.
        is_mpf_valid: Whether the file has all images that MPF names, if it names any.
        missing: The items of the container that the file does not have, or that are no images.
    """

    spans: tuple[Span, ...] = ()
    is_mpf_valid: bool = True
    missing: tuple[ContainerItem, ...] = ()


NO_FURTHER_IMAGES = FurtherImages()


def find_further_images(
    reader: HeaderReader, end: int, mpf: Span | None, xmp: bytes, end_of_image: EndOfImage
) -> FurtherImages:
    """Return the further images of a file.

    Args:
        reader: The file.
        end: Offset of the end of the first image.
        mpf: Offsets of the TIFF file of the MPF segment and of its end.
        xmp: The XMP packet.
        end_of_image: Finds the end of a further image.
    """
    found: dict[int, int] = {}

    def is_image(start: int, size: int) -> bool:
        stop = found.get(start)
        # One after the other, so that no byte is scanned for several images.
        if stop is None and max(end, *found.values(), 0) <= start <= start + size <= reader.size:
            stop = end_of_image(start, start + size)
        if stop is None or stop > start + size:
            return False
        found[start] = stop
        return True

    named = () if mpf is None else _mpf_images(reader.peek(mpf[0], mpf[1] - mpf[0]), mpf[0])
    is_mpf_valid = named is not None and all(is_image(start, size) for start, size in named)
    if not is_mpf_valid:
        found.clear()
    # The first item is the first image, whatever its length is said to be.
    items = container_items(xmp)[:MAX_IMAGES]
    missing = []
    start = end + (items[0].padding if items else 0)
    for item in items[1:]:
        if item.is_video or not is_image(start, item.length):
            missing.append(item)
        start += item.length + item.padding
    return FurtherImages(tuple(sorted(found.items())), is_mpf_valid, tuple(missing))


def _mpf_images(tiff: bytes, base: int) -> tuple[tuple[int, int], ...] | None:
    """Return offset and size of each image but the first one; `None` if the index is malformed."""
    order = _BYTE_ORDERS.get(tiff[:4])
    try:
        (directory,) = struct.unpack_from(f"{order}I", tiff, 4)
        (count,) = struct.unpack_from(f"{order}H", tiff, directory)
        for index in range(count):
            tag, _, length, offset = struct.unpack_from(f"{order}HHII", tiff, directory + 2 + 12 * index)
            if tag == _IMAGES:
                entries = tiff[offset : offset + length]
                others = range(_ENTRY_BYTES, min(len(entries), MAX_IMAGES * _ENTRY_BYTES), _ENTRY_BYTES)
                parsed = (struct.unpack_from(f"{order}4xII", entries, entry) for entry in others)
                return tuple((base + place, size) for size, place in parsed)
    except struct.error:
        return None
    return ()
