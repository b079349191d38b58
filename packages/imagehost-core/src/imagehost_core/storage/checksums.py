"""Checksums of derivatives: CRC-32, which finds accidental damage, at several gigabytes per second.

A master has a SHA-256, which clients compare as well; derivatives can be created again from it.
"""

from __future__ import annotations

from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from imagehost_core.models import Image
from imagehost_core.storage.blob_store import MASTER, derivative_name
from imagehost_core.storage.staging import CHUNK_BYTES


def has_checksum(path: Path, expected: str | int) -> bool:
    """Return whether a file has a SHA-256, 64 hexadecimal digits, or a CRC-32."""
    if isinstance(expected, int):
        return file_checksum(path) == expected
    return file_sha256(path) == expected


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def recorded_checksum(image: Image, name: str) -> str | int | None:
    """Return the checksum of a file in the record of its image, or `None` if it has none."""
    if name == MASTER:
        return image.sha256
    names = (derivative_name(max(size)) for size in image.derivatives)
    return dict(zip(names, image.derivative_checksums, strict=False)).get(name)


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
