"""Correction of the alpha flag in animated WebP files.

Where every frame is an opaque rectangle, libwebp's encoder clears the flag even if the frames leave parts of
the canvas transparent (RFC 9649, section 2.7.1.1). libwebp's decoder returns the alpha regardless, but Pillow
discards it where the flag is not set.
"""

from __future__ import annotations

_FLAGS_OFFSET = 20
"""The offset of the VP8X flags: after `RIFF`, size, `WEBP`, `VP8X`, size."""
_ALPHA = 0b0001_0000
_ANIMATION = 0b0000_0010


def set_alpha_flag(data: bytes) -> bytes:
    """Return an animated WebP with its alpha flag set; any other file unchanged."""
    flags = data[_FLAGS_OFFSET : _FLAGS_OFFSET + 1]
    if data[12:16] != b"VP8X" or not flags or not flags[0] & _ANIMATION:
        return data
    return data[:_FLAGS_OFFSET] + bytes([flags[0] | _ALPHA]) + data[_FLAGS_OFFSET + 1 :]
