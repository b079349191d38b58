"""Bursts on four processes of the server across the border of a minute: never one over the limit."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest

from imagehost_server.testing import RunningServer, running

NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in ("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UPLOADS_PER_MINUTE")
}
LIMIT = 40
AROUND_SECONDS = 3.0
"""How long is asked before the border and after it."""
CLIENTS = 8


Seen = tuple[int, int, int]
"""Status, end of the window, and what remains in it."""


def burst(server: RunningServer, path: str, headers: dict[str, str], until: float) -> list[Seen]:
    """Ask until a moment, and return what was answered."""
    seen: list[Seen] = []
    with httpx2.Client(base_url=server.origin, headers=headers, timeout=60) as client:
        while time.time() < until:
            answer = client.request("POST" if "upload" in path else "GET", path)
            reset, left = (int(answer.headers[f"x-ratelimit-{name}"]) for name in ("reset", "remaining"))
            seen.append((answer.status_code, reset, left))
    return seen


@pytest.mark.parametrize(
    ("path", "known"), [("/v1/images", True), ("/v1/gallery", False), ("/v1/upload", True)]
)
def test_a_window_admits_exactly_its_limit_whichever_process_is_asked(
    tmp_path: Path, path: str, known: bool
) -> None:
    name = {"/v1/images": "API", "/v1/gallery": "UNAUTHENTICATED", "/v1/upload": "UPLOADS"}[path]
    variables = {**NO_LIMITS, f"IMAGEHOST_LIMITS_{name}_PER_MINUTE": str(LIMIT)}
    with running(tmp_path / "data", "--workers", "4", variables=variables) as server:
        headers = {"Authorization": f"Bearer {server.token}"} if known else {}
        border = (int(time.time() + AROUND_SECONDS) // 60 + 1) * 60
        time.sleep(border - AROUND_SECONDS - time.time())
        with ThreadPoolExecutor(CLIENTS) as crew:
            asked = [
                crew.submit(burst, server, path, headers, border + AROUND_SECONDS) for _ in range(CLIENTS)
            ]
        seen = [one for each in asked for one in each.result()]
    admitted = Counter(reset for status, reset, _ in seen if status != 429)
    refused = Counter(reset for status, reset, _ in seen if status == 429)
    assert admitted == {border: LIMIT, border + 60: LIMIT}
    assert all(refused[reset] > LIMIT for reset in admitted), "the windows were asked for far more"
    for end in admitted:
        assert sorted(left for status, reset, left in seen if status != 429 and reset == end) == list(
            range(LIMIT)
        )
