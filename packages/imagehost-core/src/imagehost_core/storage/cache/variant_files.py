"""The format of a stored variant: a header with a checksum, which detects corruption, and the data."""

from __future__ import annotations

import struct
from typing import BinaryIO
from zlib import crc32

_HEADER = struct.Struct("<4sIQ")
"""Magic bytes, CRC-32 and length of the data."""
_MAGIC = b"ihv1"
_PIECE_BYTES = 64 * 1024


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


def verify_variant(file: BinaryIO) -> bool:
    """Return whether a variant file at its beginning is intact; leave it at the beginning of the data."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return False
    magic, checksum, size = _HEADER.unpack(header)
    actual_checksum = actual_size = 0
    while piece := file.read(_PIECE_BYTES):
        actual_checksum, actual_size = crc32(piece, actual_checksum), actual_size + len(piece)
    file.seek(_HEADER.size)
    return bool(magic == _MAGIC and (size, checksum) == (actual_size, actual_checksum))
