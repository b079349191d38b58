"""Folders that are watched: their new and changed images, each when it is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from attrs import define, field, frozen

from imagehost_client.files import expand_sources

LOOK_SECONDS = 1.0
"""The time between two looks at the folders, in seconds."""


@frozen
class Version:
    """The state of a file: another one means that it was changed."""

    size: int
    modified: int


@define
class FolderWatch:
    """The images in folders and their subfolders, of which only new ones are returned.

    A file is complete when two consecutive looks find it unchanged, so that a file is not read while another
    program writes it.

    Attributes:
        folders: The folders.
    """

    folders: tuple[Path, ...]
    _known: dict[Path, Version] = field(factory=dict)
    _last: dict[Path, Version] = field(factory=dict)

    def ignore_existing(self) -> None:
        """Regard the images that are there now as known."""
        self._known = self._look()

    def look(self) -> list[Path]:
        """Return the images that are complete, and are new or changed since they were returned."""
        found = self._look()
        complete = [
            path
            for path, version in found.items()
            if version.size and self._last.get(path) == version and self._known.get(path) != version
        ]
        self._known = {path: version for path, version in self._known.items() if path in found}
        self._known |= {path: found[path] for path in complete}
        self._last = found
        return complete

    def retry(self, paths: Iterable[Path]) -> None:
        """Return these images again at the next look."""
        for path in paths:
            self._known.pop(path, None)

    def _look(self) -> dict[Path, Version]:
        versions = {}
        for path in expand_sources(list(self.folders)):
            assert isinstance(path, Path)
            try:
                status = path.stat()
            except OSError:
                continue  # deleted meanwhile
            versions[path] = Version(status.st_size, status.st_mtime_ns)
        return versions


def watch(folders: FolderWatch, wait: Callable[[float], object]) -> Iterator[list[Path]]:
    """Return the new images of each look that found some, without end.

    Args:
        folders: The folders.
        wait: A function that waits for seconds.
    """
    while True:
        images = folders.look()
        if images:
            yield images
        wait(LOOK_SECONDS)
