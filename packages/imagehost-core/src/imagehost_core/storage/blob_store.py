"""The store of masters and reductions: one folder an image, put in place by one rename."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from imagehost_core.errors import NotFoundError
from imagehost_core.ids import ImageId, delivery_not_found_text, parse_image_id
from imagehost_core.storage.durable import (
    OWNER_ONLY_DIR,
    make_folder,
    sync_file,
    sync_folder,
    translate_disk_full,
)
from imagehost_core.storage.layout import DataLayout
from imagehost_core.storage.staging import StagingArea

MASTER = "master"
"""The name of the master in its folder, without an extension: the record says what it is."""


def derivative_name(side: int) -> str:
    """Return the name of the reduction whose longer side has that many pixels."""
    return f"derivative-{side}"


class LocalBlobStore:
    """Masters and reductions in a data folder.

    Args:
        folders: The data folder.
        staging: This process's staging folder, on the same file system.
    """

    def __init__(self, folders: DataLayout, staging: StagingArea) -> None:
        self._folders = folders
        self._staging = staging
        self._synced_shards: set[Path] = set()
        make_folder(folders.images)

    def put(self, image_id: ImageId, built: Path) -> None:
        """Store a folder of files as an image's; when it returns, they survive a power cut.

        Args:
            image_id: Whose they are; nothing is stored under it yet.
            built: The folder; it is moved away.

        Raises:
            InsufficientStorageError: The disk has no room.
        """
        home = self._folders.image(image_id)
        with translate_disk_full():
            for path in built.iterdir():
                sync_file(path)
            sync_folder(built)
            self._ensure_shard(home.parent)
            built.rename(home)
            sync_folder(home.parent)

    def open(self, image_id: ImageId, name: str = MASTER) -> BinaryIO:
        """Return one of an image's files, opened for reading.

        Raises:
            NotFoundError: There is none: the image has just been deleted.
        """
        try:
            return (self._folders.image(image_id) / name).open("rb")
        except FileNotFoundError as error:
            raise NotFoundError(delivery_not_found_text(image_id)) from error

    def delete(self, image_id: ImageId) -> None:
        """Remove all files of an image; when it returns, a power cut cannot bring them back."""
        self._staging.remove_tree_atomically(self._folders.image(image_id))

    def has(self, image_id: ImageId) -> bool:
        """Return whether there are files of an image."""
        return self._folders.image(image_id).is_dir()

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images of which there are files; what is not ours is passed over."""
        for home in self._folders.images.glob("*/*"):
            with suppress(NotFoundError):
                image_id = parse_image_id(home.name)
                if home == self._folders.image(image_id):
                    yield image_id

    def _ensure_shard(self, shelf: Path) -> None:
        """Make the folder that names an image's.

        That it is there does not say that it is durable: another process may have made it a moment
        ago, and still be waiting for the disk. So each process waits for itself, once a shelf.
        """
        if shelf not in self._synced_shards:
            shelf.mkdir(OWNER_ONLY_DIR, exist_ok=True)
            sync_folder(shelf.parent)
            self._synced_shards.add(shelf)
