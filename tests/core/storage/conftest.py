"""Fixtures of the storage tests: an empty data directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from imagehost_core.storage import DataLayout, StagingArea


@pytest.fixture
def layout(tmp_path: Path) -> DataLayout:
    """An empty data directory."""
    return DataLayout(tmp_path)


@pytest.fixture
def staging(layout: DataLayout) -> Iterator[StagingArea]:
    """The staging area of this process, without a limit on free disk space."""
    area = StagingArea(layout.staging, 0)
    yield area
    area.close()
