"""The format of a stored variant: a header with a checksum, which detects corruption, and the data."""

from __future__ import annotations

import struct
from zlib import crc32

_HEADER = struct.Struct("<4sIQ")
"""Magic bytes, CRC-32 and length of the data."""
_MAGIC = b"ihv1"


def encode_variant(data: bytes) -> bytes:
    """Return the content of the file of a variant."""
    return _HEADER.pack(_MAGIC, crc32(data), len(data)) + data


def decode_variant(content: bytes) -> bytes | None:
    """Return the data of a variant file, or `None` if the file is corrupt."""
    if len(content) < _HEADER.size:
        return None
    magic, checksum, size = _HEADER.unpack_from(content)
    data = content[_HEADER.size :]
    return data if magic == _MAGIC and size == len(data) and checksum == crc32(data) else None
