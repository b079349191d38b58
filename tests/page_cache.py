"""Whether a file system says what is in the page cache."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


def require_nowait(directory: Path) -> None:
    """Skip a test where reads cannot be refused instead of waiting: another system than Linux, or tmpfs."""
    if sys.platform == "linux":
        path = directory / "probe"
        path.write_bytes(b"1")
        with path.open("rb") as file:
            try:
                os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
            except OSError:
                pass
            else:
                return
    pytest.skip("this file system does not say what is in the page cache")
