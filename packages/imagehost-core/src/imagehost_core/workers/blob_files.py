"""Files for the blobs of a task result that are too large to hold in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self


class BlobFiles:
    """Numbered files in a directory. An exception in the `with` block deletes those written so far.

    Args:
        directory: An existing directory without files named `blob-*`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._paths: list[Path] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            for path in self._paths:
                path.unlink(missing_ok=True)

    def write(self, chunks: Iterator[bytes]) -> Path:
        """Write one blob to the next file and return its path.

        Raises:
            OSError: The file exists or cannot be written.
        """
        path = self._directory / f"blob-{len(self._paths)}"
        # Owner-only permissions: the file moves into the blob store as it is.
        path.touch(0o600, exist_ok=False)
        self._paths.append(path)
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
        return path
