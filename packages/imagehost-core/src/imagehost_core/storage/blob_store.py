"""The interface of blob stores: the files of each image, its master and derivatives, stored as one unit.

A master has a SHA-256, which clients compare as well. A derivative has a CRC-32, which finds accidental
damage at several gigabytes per second; it can be created again from the master.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO, Protocol
from zlib import crc32

from imagehost_core.ids import ImageId
from imagehost_core.models import Image
from imagehost_core.storage.staging import CHUNK_BYTES

MASTER = "master"
"""The file name of a master. It has no extension: the image's record has the format."""

DERIVATIVE_PREFIX = "derivative-"


def derivative_name(side: int) -> str:
    """Return the file name of the derivative whose longer side has that many pixels."""
    return f"{DERIVATIVE_PREFIX}{side}"


class BlobStore(Protocol):
    """A store of each image's files. All methods are thread-safe.

    What only a store on other machines does is inherited by others: they cache nothing on the host, and the
    image's lock excludes all their uploads.

    A store on other machines raises UnavailableError from any method if it does not respond in time.
    """

    def put(self, image_id: ImageId, files: Path) -> None:
        """Store the files of an image. When this returns, the store's durability holds for them.

        Args:
            image_id: The id under which nothing is stored yet.
            files: A directory of a master and other files, without subdirectories. It is moved or deleted.

        Raises:
            FileExistsError: Files are stored under the id already; they stay as they are.
            InsufficientStorageError: The store is full; nothing is stored under the id.
        """

    def open(
        self,
        image_id: ImageId,
        name: str = MASTER,
        *,
        checksum: str | int | None = None,
        fresh: bool = False,
    ) -> BinaryIO:
        """Open one of an image's files for reading. The file stays readable if the image is deleted.

        Args:
            image_id: The image.
            name: The name that the file had when it was put.
            checksum: The SHA-256 or the CRC-32 of the file in the image's record. A store that copies files
                from other machines verifies it.
            fresh: Whether to read what is stored now and cache nothing, as a check or a backup does.

        Raises:
            NotFoundError: The image has no such file, or nothing is stored under the id.
            InternalError: The stored file has another checksum.
        """

    def delete(self, image_id: ImageId) -> None:
        """Delete all files of an image, if there are any.

        Raises:
            OSError: Some of them could not be deleted; try again.
        """

    def replace_file(self, image_id: ImageId, name: str, file: Path) -> None:
        """Store one of the files of an image that has files, in place of another under the name.

        Args:
            image_id: The image.
            name: The name.
            file: A file on the file system of the staging area; it is moved.

        Raises:
            InsufficientStorageError: The store is full.
        """

    def delete_file(self, image_id: ImageId, name: str) -> None:
        """Delete one of an image's files, if it is there.

        Raises:
            OSError: It could not be deleted.
        """

    def evict(self, image_id: ImageId) -> None:  # noqa: ARG002
        """Delete the copies of an image's files that this host has cached, if it caches any.

        Call it once the record is deleted: no download in progress is cached afterwards.

        Raises:
            OSError: Some of them could not be deleted; try again.
        """
        return

    def cached_ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images of which this host has cached files, in any order."""
        return iter(())

    def has(self, image_id: ImageId) -> bool:
        """Return whether files are stored under an id."""

    @property
    def upload_grace_seconds(self) -> float:
        """The age from which files without a record belong to no upload in progress on another host."""
        return 0

    def may_be_uploading(self, image_id: ImageId) -> bool:  # noqa: ARG002
        """Return whether files without a record may be those of an upload in progress on another host.

        The caller holds the image's lock, which excludes uploads on this host.
        """
        return False

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images, in any order. Changes meanwhile may be seen or not."""

    def sizes(self, image_id: ImageId) -> Mapping[str, int]:
        """Return the size of each of an image's files in bytes, by name; empty if nothing is stored."""

    def check_ready(self) -> None:
        """Raise an error unless the store responds."""
        return

    def unknown_paths(self) -> Iterator[str]:
        """Yield the paths, relative to the store, of what is in it but can belong to no image."""
        return iter(())

    def modified_at(self, image_id: ImageId) -> datetime | None:
        """Return when a file of an image was stored last, by the clock of the store; `None` without files."""

    def read_record(self) -> bytes | None:
        """Return the record of the installation that the store belongs to, or `None`."""

    def write_record(self, data: bytes | None) -> None:
        """Store the record of the installation durably, in place of another; `None` deletes it."""

    def close(self) -> None:
        """Stop the work in the background."""
        return


def is_file_name(name: str) -> bool:
    """Return whether a text can be the name of an image's file: one segment of a path."""
    return name not in {"", ".", ".."} and "/" not in name and "\0" not in name and os.sep not in name


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
