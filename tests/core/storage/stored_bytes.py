"""The bytes of files in a directory from which a sweep may delete files at any time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def stored_bytes(directory: Path) -> int:
    """Return the bytes of all files below a directory, without those that are deleted meanwhile."""
    total = 0
    for parent, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(parent, name).stat().st_size
    return total
