"""Bursts of requests to four server processes around the start of a minute: the limit is never exceeded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx2
import pytest
from tests.faults.conftest import NO_LIMITS
from tests.waiting import PATIENCE

from imagehost_server.testing import RunningServer, running

LIMITS = {"/v1/images": "API", "/v1/gallery": "UNAUTHENTICATED", "/v1/upload": "UPLOADS"}
"""The paths of the requests and the limits that count them. The gallery is requested without a token."""
LIMIT = 40
CLIENTS = 8
SECONDS_BEFORE = 5.0
"""How long the burst lasts before the minute starts."""
REJECTIONS = LIMIT // CLIENTS + 1
"""The rejections in the new minute after which a client ends: all clients together exceed the limit."""

Response = tuple[int, int, int]
"""Status, end of the window as a Unix timestamp, and remaining requests in the window."""
Bursts = tuple[int, dict[str, list[Response]]]
"""The start of the new minute as a Unix timestamp, and the responses by path."""


def burst(server: RunningServer, path: str, border: int) -> list[Response]:
    """Send requests until enough were rejected in the minute that starts at `border`."""
    headers = {} if path == "/v1/gallery" else {"Authorization": f"Bearer {server.token}"}
    responses: list[Response] = []
    rejections = 0
    with httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE) as client:
        while rejections < REJECTIONS and time.time() < border + 50:
            response = client.request("POST" if "upload" in path else "GET", path)
            reset, remaining = (
                int(response.headers[f"x-ratelimit-{name}"]) for name in ("reset", "remaining")
            )
            responses.append((response.status_code, reset, remaining))
            rejections += response.status_code == 429 and reset > border
    return responses


@pytest.fixture(scope="module")
def bursts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bursts]:
    """Send all bursts around the start of the same minute, each to its own server."""
    with ExitStack() as cleanup:
        servers = {
            path: cleanup.enter_context(
                running(
                    tmp_path_factory.mktemp("bursts") / "data",
                    *("--workers", "4"),
                    variables={**NO_LIMITS, f"IMAGEHOST_LIMITS_{limit}_PER_MINUTE": str(LIMIT)},
                )
            )
            for path, limit in LIMITS.items()
        }
        border = (int(time.time() + SECONDS_BEFORE) // 60 + 1) * 60
        time.sleep(border - SECONDS_BEFORE - time.time())
        with ThreadPoolExecutor(CLIENTS * len(LIMITS)) as threads:
            futures = {
                path: [threads.submit(burst, server, path, border) for _ in range(CLIENTS)]
                for path, server in servers.items()
            }
        yield border, {path: [item for each in futures[path] for item in each.result()] for path in futures}


@pytest.mark.parametrize("path", LIMITS)
def test_all_processes_together_admit_exactly_the_limit_per_window(bursts: Bursts, path: str) -> None:
    border, responses = bursts[0], bursts[1][path]
    admitted = Counter(reset for status, reset, _ in responses if status != 429)
    rejected = Counter(reset for status, reset, _ in responses if status == 429)
    assert admitted == {border: LIMIT, border + 60: LIMIT}
    assert all(rejected[reset] > LIMIT for reset in admitted), "too few requests were sent"
    for end in admitted:
        remaining = sorted(left for status, reset, left in responses if status != 429 and reset == end)
        assert remaining == list(range(LIMIT))
