"""Copies of the database in backups that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from imagehost_core import InternalError
from imagehost_core.maintenance.snapshot import Snapshot


def test_a_damaged_copy_is_an_internal_error(tmp_path: Path) -> None:
    (tmp_path / "copy").write_bytes(b"not a database" * 1_000)
    with pytest.raises(InternalError, match="expected a database at"):
        Snapshot(tmp_path / "copy").count_images(None)


def test_a_missing_copy_is_an_internal_error(tmp_path: Path) -> None:
    with pytest.raises(InternalError, match="unable to open database file"):
        Snapshot(tmp_path / "copy")
