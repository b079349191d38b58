"""What counting costs: the share of `GET /images/{id}` that goes into limits of requests.

Two servers run side by side on equal folders, one that counts and one whose limits are all off. One client
asks both in turn over connections that stay open, so that whatever else the machine does falls on both alike.
Printed are the medians and their difference. The goal is at most 15 %.

    python bench/limits.py [--requests 4000] [--workers 1]
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
QUIET = {"IMAGEHOST_LOG_ACCESS": "false", "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false"}


@frozen
class Contestant:
    """A server, and the request that it is asked."""

    server: RunningServer
    connection: HTTPConnection
    path: str
    headers: dict[str, str]

    def ask(self) -> float:
        """Return how long one request takes, in seconds."""
        began = time.perf_counter()
        self.connection.request("GET", self.path, headers=self.headers)
        answer = self.connection.getresponse()
        answer.read()
        taken = time.perf_counter() - began
        assert answer.status == 200
        return taken


def contestant(stack: ExitStack, folder: Path, workers: int, limit: int) -> Contestant:
    """Start a server whose windows all have that limit; 0 = none."""
    limits = {f"IMAGEHOST_LIMITS_{name}": str(limit) for name in WINDOWS}
    flags = ("--workers", str(workers))
    server = stack.enter_context(running(folder, *flags, variables={**QUIET, **limits}))
    with ImageHost.open(folder) as host:
        image = host.upload(make_image(), owner="admin")
        token = host.keys.create(owner="admin").token
    connection = HTTPConnection("127.0.0.1", server.port)
    stack.callback(connection.close)
    return Contestant(server, connection, f"/v1/images/{image.id}", {"Authorization": f"Bearer {token}"})


def main() -> None:
    """Ask both, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        counting = contestant(stack, Path(name, "counting"), options.workers, 10**9)
        free = contestant(stack, Path(name, "free"), options.workers, 0)
        for one in (counting, free):
            for _ in range(200):
                one.ask()
        taken = [(counting.ask(), free.ask()) for _ in range(options.requests)]
    with_, without = (1e6 * statistics.median(times) for times in zip(*taken, strict=True))
    print(
        f"GET /images/{{id}}: {with_:.0f} µs with limits, {without:.0f} µs without: {1 - without / with_:.1%}"
    )


if __name__ == "__main__":
    main()
