"""Where the blobs of an answer go when they are too large to be held: a file for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self


class BlobFiles:
    """Files in a folder, numbered in order. After an exception in its `with` block none is left.

    Args:
        folder: A folder that exists, with nothing in it that is named like this.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            for path in self._paths:
                path.unlink(missing_ok=True)

    def write(self, pieces: Iterator[bytes]) -> Path:
        """Write the pieces of one blob to the next file and return its path.

        Raises:
            OSError: The disk is full, or there is a file of that name.
        """
        path = self._folder / f"blob-{len(self._paths)}"
        # Its owner's alone: it is what is going to be stored.
        path.touch(0o600, exist_ok=False)
        self._paths.append(path)
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        return path
