"""Checksums of derivatives: CRC-32, which finds accidental damage, at several gigabytes per second.

A master has a SHA-256, which clients compare as well; derivatives can be created again from it.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from imagehost_core.storage.staging import CHUNK_BYTES


def checksum(file: BinaryIO) -> int:
    """Return the CRC-32 of a file from its position to its end."""
    value = 0
    while chunk := file.read(CHUNK_BYTES):
        value = crc32(chunk, value)
    return value


def file_checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    with path.open("rb") as file:
        return checksum(file)
