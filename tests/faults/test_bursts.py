"""Bursts on four processes of the server across the border of a minute: never one over the limit."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import pytest

from imagehost_server.testing import RunningServer, running

NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in ("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UPLOADS_PER_MINUTE")
}
LIMITS = {"/v1/images": "API", "/v1/gallery": "UNAUTHENTICATED", "/v1/upload": "UPLOADS"}
"""What is asked for, and the limit that counts it. The gallery is asked without a token."""
LIMIT = 40
AROUND_SECONDS = 3.0
"""How long is asked before the border and after it."""
CLIENTS = 8


Seen = tuple[int, int, int]
"""Status, end of the window, and what remains in it."""


Bursts = tuple[int, dict[str, list[Seen]]]
"""The border, and what was answered under each path."""


def burst(server: RunningServer, path: str, until: float) -> list[Seen]:
    """Ask until a moment, and return what was answered."""
    headers = {} if path == "/v1/gallery" else {"Authorization": f"Bearer {server.token}"}
    seen: list[Seen] = []
    with httpx2.Client(base_url=server.origin, headers=headers, timeout=60) as client:
        while time.time() < until:
            answer = client.request("POST" if "upload" in path else "GET", path)
            reset, left = (int(answer.headers[f"x-ratelimit-{name}"]) for name in ("reset", "remaining"))
            seen.append((answer.status_code, reset, left))
    return seen


@pytest.fixture(scope="module")
def bursts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bursts]:
    """All bursts across one border, each on a server of its own: minutes are long."""
    with ExitStack() as opened:
        servers = {
            path: opened.enter_context(
                running(
                    tmp_path_factory.mktemp("bursts") / "data",
                    *("--workers", "4"),
                    variables={**NO_LIMITS, f"IMAGEHOST_LIMITS_{limit}_PER_MINUTE": str(LIMIT)},
                )
            )
            for path, limit in LIMITS.items()
        }
        border = (int(time.time() + AROUND_SECONDS) // 60 + 1) * 60
        time.sleep(border - AROUND_SECONDS - time.time())
        with ThreadPoolExecutor(CLIENTS * len(LIMITS)) as crew:
            asked = {
                path: [crew.submit(burst, server, path, border + AROUND_SECONDS) for _ in range(CLIENTS)]
                for path, server in servers.items()
            }
        yield border, {path: [one for each in asked[path] for one in each.result()] for path in asked}


@pytest.mark.parametrize("path", LIMITS)
def test_a_window_admits_exactly_its_limit_whichever_process_is_asked(bursts: Bursts, path: str) -> None:
    border, seen = bursts[0], bursts[1][path]
    admitted = Counter(reset for status, reset, _ in seen if status != 429)
    refused = Counter(reset for status, reset, _ in seen if status == 429)
    assert admitted == {border: LIMIT, border + 60: LIMIT}
    assert all(refused[reset] > LIMIT for reset in admitted), "the windows were asked for far more"
    for end in admitted:
        assert sorted(left for status, reset, left in seen if status != 429 and reset == end) == list(
            range(LIMIT)
        )
