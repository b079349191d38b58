"""Copies of the files of images from one blob store into another, verified by their checksums."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from hashlib import file_digest, sha256
from io import BufferedReader
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, cast
from zlib import crc32

from attrs import field, frozen

from imagehost_core.errors import NotFoundError
from imagehost_core.models import Image
from imagehost_core.storage import MASTER, BlobStore, StagingArea
from imagehost_core.storage.blob_store import derivative_name
from imagehost_core.storage.checksums import checksum
from imagehost_core.storage.durable import OWNER_ONLY_DIR, open_owner_only, translate_disk_full
from imagehost_core.storage.staging import CHUNK_BYTES


class CopyStatus(Enum):
    """The result of copying the files of an image.

    `PRESENT`: the target had them already. `INCOMPLETE`: the target has the master, and those derivatives
    that are intact; a check with repair creates the others. `DAMAGED`: the master is missing, or has another
    SHA-256 than its record; the target has no files of the image.
    """

    COPIED = "copied"
    PRESENT = "present"
    INCOMPLETE = "incomplete"
    DAMAGED = "damaged"


@frozen
class _Derivative:
    """A derivative that a record names.

    Attributes:
        name: The name of its file.
        checksum: Its CRC-32; `None` if the version that stored it has recorded none.
    """

    name: str
    checksum: int | None


class _UnreadableError(Exception):
    """A file of the source is missing, or the disk cannot read it."""


@frozen
class ImageFileCopier:
    """The copier of the files of images from one store into another. Thread-safe."""

    _source: BlobStore = field(repr=False)
    _target: BlobStore = field(repr=False)
    _staging: StagingArea = field(repr=False)

    def copy(self, image: Image, *, may_exist: bool) -> CopyStatus:
        """Copy the files that the record of an image names, unless the target has them.

        What else the target has under the id is deleted.

        Args:
            image: The image.
            may_exist: Whether the target may have files of the image.

        Raises:
            FileExistsError: The target has files of the image although it must not.
            InsufficientStorageError: The target is full.
            UnavailableError: One of the stores does not respond in time.
        """
        if may_exist and self._is_present(image):
            return CopyStatus.PRESENT
        with self._staging.temporary_directory() as directory:
            files = directory / "files"
            files.mkdir(OWNER_ONLY_DIR)
            status = self._stage(image, files)
            if may_exist:
                self._target.delete(image.id)
            if status is not CopyStatus.DAMAGED:
                self._target.put(image.id, files)
        return status

    def _is_present(self, image: Image) -> bool:
        """Return whether the target has exactly the files that the record names, and they are intact."""
        derivatives = tuple(_derivatives(image))
        sizes = self._target.sizes(image.id)
        if sizes.keys() != {MASTER, *(each.name for each in derivatives)} or sizes[MASTER] != image.size:
            return False
        try:
            with self._target.open(image.id, fresh=True) as file:
                if file_digest(cast("BufferedReader", file), "sha256").hexdigest() != image.sha256:
                    return False
            return all(self._is_intact(image, derivative) for derivative in derivatives)
        except NotFoundError:
            return False

    def _is_intact(self, image: Image, derivative: _Derivative) -> bool:
        with self._target.open(image.id, derivative.name, fresh=True) as file:
            received = checksum(file)
        expected = derivative.checksum
        if expected is None:
            with self._source.open(image.id, derivative.name, fresh=True) as file:
                expected = checksum(file)
        return received == expected

    def _stage(self, image: Image, files: Path) -> CopyStatus:
        """Copy the intact files of an image into a directory."""
        try:
            digest, _ = self._read(image, MASTER, files)
        except _UnreadableError:
            return CopyStatus.DAMAGED
        if digest != image.sha256:
            return CopyStatus.DAMAGED
        status = CopyStatus.COPIED
        for derivative in _derivatives(image):
            try:
                _, received = self._read(image, derivative.name, files)
                is_intact = derivative.checksum in (None, received)
            except _UnreadableError:
                is_intact = False
            if not is_intact:
                (files / derivative.name).unlink(missing_ok=True)
                status = CopyStatus.INCOMPLETE
        return status

    def _read(self, image: Image, name: str, files: Path) -> tuple[str, int]:
        """Copy a file of the source into a directory, and return its SHA-256 and its CRC-32.

        Raises:
            _UnreadableError: The source has no such file, or cannot read it.
        """
        digest, value = sha256(), 0
        try:
            source = self._source.open(image.id, name, fresh=True)
        except (NotFoundError, OSError) as error:
            raise _UnreadableError from error
        with source, translate_disk_full(), open_owner_only(files / name, "xb") as target:
            while chunk := _read_chunk(source):
                digest.update(chunk)
                value = crc32(chunk, value)
                target.write(chunk)
        return digest.hexdigest(), value


def _read_chunk(file: BinaryIO) -> bytes:
    try:
        return file.read(CHUNK_BYTES)
    except OSError as error:
        raise _UnreadableError from error


def _derivatives(image: Image) -> Iterator[_Derivative]:
    # The earliest versions have recorded no checksums.
    for size, expected in zip_longest(image.derivatives, image.derivative_checksums):
        yield _Derivative(derivative_name(max(size)), expected)
