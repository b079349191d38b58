"""The blob store in memory."""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from imagehost_core.errors import NotFoundError
from imagehost_core.ids import ImageId, delivery_not_found_text
from imagehost_core.storage.blob_store import MASTER, BlobStore


class MemoryBlobStore(BlobStore):
    """A blob store in memory, for tests and for programs that keep no files."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._images: dict[ImageId, dict[str, bytes]] = {}
        self._modified: dict[ImageId, datetime] = {}
        self._record: bytes | None = None

    def put(self, image_id: ImageId, files: Path) -> None:
        """Store the files of an image.

        Args:
            image_id: The id under which nothing is stored yet.
            files: A directory of files without subdirectories. It is deleted.

        Raises:
            FileExistsError: Files are stored under the id already; they stay as they are.
        """
        content = {path.name: path.read_bytes() for path in files.iterdir()}
        with self._lock:
            if image_id in self._images:
                raise FileExistsError(errno.EEXIST, "files are stored already", image_id)
            self._images[image_id] = content
            self._modified[image_id] = datetime.now(UTC)
        shutil.rmtree(files)

    def open(
        self,
        image_id: ImageId,
        name: str = MASTER,
        *,
        checksum: str | int | None = None,  # noqa: ARG002
        fresh: bool = False,  # noqa: ARG002
    ) -> BinaryIO:
        """Open one of an image's files for reading. The file stays readable if the image is deleted.

        Args:
            image_id: The image.
            name: The name that the file had when it was put.
            checksum: Not verified: the file is not copied.
            fresh: Without effect: nothing is cached.

        Raises:
            NotFoundError: The image has no such file, or nothing is stored under the id.
        """
        with self._lock:
            data = self._images.get(image_id, {}).get(name)
        if data is None:
            raise NotFoundError(delivery_not_found_text(image_id))
        return BytesIO(data)

    def delete(self, image_id: ImageId) -> None:
        """Delete all files of an image, if there are any."""
        with self._lock:
            self._images.pop(image_id, None)

    def replace_file(self, image_id: ImageId, name: str, file: Path) -> None:
        """Store one of the files of an image; the given file is deleted."""
        with self._lock:
            self._images[image_id][name] = file.read_bytes()
            self._modified[image_id] = datetime.now(UTC)
        file.unlink()

    def delete_file(self, image_id: ImageId, name: str) -> None:
        """Delete one of an image's files, if it is there."""
        with self._lock:
            self._images.get(image_id, {}).pop(name, None)

    def has(self, image_id: ImageId) -> bool:
        """Return whether files are stored under an id."""
        with self._lock:
            return image_id in self._images

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images, in any order."""
        with self._lock:
            image_ids = tuple(self._images)
        yield from image_ids

    def sizes(self, image_id: ImageId) -> Mapping[str, int]:
        """Return the size of each of an image's files in bytes, by name; empty if nothing is stored."""
        with self._lock:
            return {name: len(data) for name, data in self._images.get(image_id, {}).items()}

    def modified_at(self, image_id: ImageId) -> datetime | None:
        """Return when a file of an image was stored last, or `None`."""
        with self._lock:
            return self._modified[image_id] if image_id in self._images else None

    def read_record(self) -> bytes | None:
        """Return the record of the installation that the store belongs to, or `None`."""
        return self._record

    def write_record(self, data: bytes | None) -> None:
        """Store the record of the installation; `None` deletes it."""
        self._record = data
