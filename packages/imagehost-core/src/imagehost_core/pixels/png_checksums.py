"""Checksums of PNG chunks: Pillow rejects a file for a bad one in its metadata, and libpng does not.

Source: Portable Network Graphics, third edition (W3C), sections 5.3, 5.4 and 13.2.
"""

from __future__ import annotations

import zlib

from imagehost_core.errors import FieldError, ValidationError

_SIGNATURE_BYTES = 8
_ANCILLARY_BIT = 0x20
"""The bit of a chunk type's first byte that tells ancillary chunks from critical ones (section 5.4)."""
_PIXEL_CHUNKS = frozenset({b"tRNS", b"acTL", b"fcTL", b"fdAT"})
"""The ancillary chunks that are a part of the pixels: transparency and the frames of an animation."""


def repair_checksums(data: bytes) -> bytes:
    """Return a PNG with valid checksums in all chunks; `data` itself if they are valid.

    An ancillary chunk with a bad checksum is dropped, as libpng does; one that is a part of the pixels gets a
    valid checksum instead. Decoders then check its content.

    Args:
        data: A whole file whose structure the header scan has accepted.

    Raises:
        ValidationError: A critical chunk (IHDR, PLTE, IDAT, IEND) has a bad checksum.
    """
    parts: list[bytes] = []
    view = memoryview(data)
    offset, unchanged_from = _SIGNATURE_BYTES, 0
    while offset + 12 <= len(data):
        end = offset + 12 + int.from_bytes(view[offset : offset + 4], "big")
        if end > len(data):
            break
        kind = data[offset + 4 : offset + 8]
        checksum = zlib.crc32(view[offset + 4 : end - 4])
        if checksum != int.from_bytes(view[end - 4 : end], "big"):
            if not kind[0] & _ANCILLARY_BIT:
                raise ValidationError(errors=[_damaged_chunk(kind, offset)])
            parts.append(data[unchanged_from:offset])
            if kind in _PIXEL_CHUNKS:
                parts += data[offset : end - 4], checksum.to_bytes(4, "big")
            unchanged_from = end
        offset = end
        if kind == b"IEND":
            break
    if not unchanged_from:
        return data
    return b"".join((*parts, data[unchanged_from:]))


def _damaged_chunk(kind: bytes, offset: int) -> FieldError:
    expected = f"a PNG with a valid checksum in every {kind.decode('latin-1')}"
    return FieldError("the image", expected, f"another checksum in the one at offset {offset:,}")
