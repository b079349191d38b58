"""Measure the share of `GET /images/{id}` that rate limiting takes.

    python bench/limits.py [--requests 4000] [--workers 1]

Two servers run on equal data directories, one with rate limits and one without. One client sends requests to
both in turn over persistent connections, so that other load of the machine affects both alike. The output has
the medians and their difference.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

from attrs import frozen

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

WINDOWS = ("API_PER_MINUTE", "API_PER_HOUR", "API_PER_DAY", "UPLOADS_PER_MINUTE")
SETTINGS = {"IMAGEHOST_LOG_ACCESS": "false", "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false"}


@frozen
class Target:
    """A server, and the request to measure."""

    server: RunningServer
    connection: HTTPConnection
    path: str
    headers: dict[str, str]

    def send(self) -> float:
        """Send the request; return its time, in seconds."""
        start = time.perf_counter()
        self.connection.request("GET", self.path, headers=self.headers)
        response = self.connection.getresponse()
        response.read()
        seconds = time.perf_counter() - start
        assert response.status == 200
        return seconds


def start_target(stack: ExitStack, directory: Path, workers: int, limit: int) -> Target:
    """Start a server with a limit for all windows; 0 for none."""
    limits = {f"IMAGEHOST_LIMITS_{name}": str(limit) for name in WINDOWS}
    flags = ("--workers", str(workers))
    server = stack.enter_context(running(directory, *flags, variables={**SETTINGS, **limits}))
    with ImageHost.open(directory) as host:
        image = host.upload(make_image(), owner="admin")
        token = host.keys.create(owner="admin").token
    connection = HTTPConnection("127.0.0.1", server.port)
    stack.callback(connection.close)
    return Target(server, connection, f"/v1/images/{image.id}", {"Authorization": f"Bearer {token}"})


def main() -> None:
    """Measure both servers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        limited = start_target(stack, Path(name, "limited"), options.workers, 10**9)
        unlimited = start_target(stack, Path(name, "unlimited"), options.workers, 0)
        for target in (limited, unlimited):
            for _ in range(200):
                target.send()
        times = [(limited.send(), unlimited.send()) for _ in range(options.requests)]
    with_, without = (1e6 * statistics.median(values) for values in zip(*times, strict=True))
    print(
        f"GET /images/{{id}}: {with_:.0f} µs with limits, {without:.0f} µs without: {1 - without / with_:.1%}"
    )


if __name__ == "__main__":
    main()
