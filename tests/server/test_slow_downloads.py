"""Downloads at steady low rates, over minutes."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from tests.slow_downloads import require_whole_download
from tests.waiting import PATIENCE

from imagehost_server.testing import running


@pytest.mark.slow
@pytest.mark.external
def test_a_download_at_a_steady_low_rate_is_completed(tmp_path: Path, no_limits: dict[str, str]) -> None:
    with running(tmp_path / "data", variables=no_limits) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE) as client:
            require_whole_download(client)
