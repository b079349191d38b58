"""Files of a directory that a running host changes meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def iter_entries(directory: Path) -> Iterator[Path]:
    """Yield all files and directories below a directory; one that is removed meanwhile is no error.

    `Path.rglob` raises `FileNotFoundError` for it.
    """
    for folder, folders, files in os.walk(directory):
        yield from (Path(folder, entry) for entry in (*folders, *files))


def iter_files(directory: Path) -> Iterator[Path]:
    """Yield all regular files below a directory."""
    return (path for path in iter_entries(directory) if path.is_file())
