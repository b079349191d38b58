"""The one bit of an animated WebP that libwebp gets wrong: whether anything shows through.

Where every frame is an opaque rectangle on an empty canvas, libwebp's encoder says that the file has
no alpha, though what the frames leave free is transparent (RFC 9649, section 2.7.1.1); its decoder
has it right, but Pillow asks the bit and throws the alpha away.
"""

from __future__ import annotations

_FLAGS = 20
"""Where the flags of VP8X stand: after `RIFF`, size, `WEBP`, `VP8X`, size."""
_ALPHA = 0b0001_0000
_ANIMATION = 0b0000_0010


def set_alpha_flag(data: bytes) -> bytes:
    """Return an animated WebP that says that it has alpha; any other file as it is."""
    if data[12:16] != b"VP8X" or not data[_FLAGS : _FLAGS + 1] or not data[_FLAGS] & _ANIMATION:
        return data
    return data[:_FLAGS] + bytes([data[_FLAGS] | _ALPHA]) + data[_FLAGS + 1 :]
