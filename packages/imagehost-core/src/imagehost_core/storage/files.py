"""The store of masters and reductions: one folder an image, put in place by one rename."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from imagehost_core.errors import NotFoundError
from imagehost_core.ids import ImageId, no_image
from imagehost_core.storage.durable import make_folder, room_on_disk, sync_file, sync_folder
from imagehost_core.storage.folders import Folders
from imagehost_core.storage.staging import Staging

MASTER = "master"
"""The name of the master in its folder, without an extension: the record says what it is."""


def rung_name(side: int) -> str:
    """Return the name of the reduction whose longer side has that many pixels."""
    return f"rung-{side}"


class FileStore:
    """Masters and reductions in a data folder.

    Args:
        folders: The data folder.
        staging: This process's staging folder, on the same file system.
    """

    def __init__(self, folders: Folders, staging: Staging) -> None:
        self._folders = folders
        self._staging = staging
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
        with room_on_disk():
            for path in built.iterdir():
                sync_file(path)
            sync_folder(built)
            make_folder(home.parent)
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
            raise NotFoundError(no_image(image_id)) from error

    def delete(self, image_id: ImageId) -> None:
        """Remove all files of an image; when it returns, a power cut cannot bring them back."""
        home = self._folders.image(image_id)
        self._staging.discard(home)
        with suppress(FileNotFoundError):
            sync_folder(home.parent)

    def ids(self) -> Iterator[ImageId]:
        """Yield the ids of all images of which there are files."""
        for shelf in self._folders.images.iterdir():
            for home in shelf.iterdir():
                yield ImageId(home.name)
