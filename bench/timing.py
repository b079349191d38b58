"""Measure whether response times reveal resources of other accounts, or the names of accounts.

    python bench/timing.py [--requests 3000]

Pairs of requests alternate over one connection each: for an image of another account and for a missing one,
the same for keys and albums, and sign-ins with a wrong password for an existing and for a missing account.
The output has both medians, their difference, and the difference of two *equal* requests: a difference that
is no larger reveals nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.auth.passwords import hash_password
from imagehost_server.testing import running

LIMITS = (
    "API_PER_MINUTE",
    "API_PER_HOUR",
    "API_PER_DAY",
    "UNAUTHENTICATED_PER_MINUTE",
    "SIGN_INS_PER_MINUTE",
)
VARIABLES = {f"IMAGEHOST_LIMITS_{name}": "0" for name in LIMITS} | {"IMAGEHOST_LOG_ACCESS": "false"}
PASSWORDS = 40
"""The number of sign-ins of each kind; one takes a tenth of a second."""

TimedRequest = Callable[[], float]


def timed_request(
    port: int, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> TimedRequest:
    """Return a function that sends the request and returns its time, in seconds."""
    connection = HTTPConnection("127.0.0.1", port)

    def send() -> float:
        start = time.perf_counter()
        connection.request(method, path, body, headers)
        connection.getresponse().read()
        return time.perf_counter() - start

    return send


def compare(name: str, one: TimedRequest, other: TimedRequest, rounds: int) -> None:
    """Send both in turn, and the first one twice; print the medians in microseconds."""
    for send in (one, other):
        for _ in range(max(2, rounds // 20)):
            send()
    times = [(one(), other(), one()) for _ in range(rounds)]
    first, second, again = (1e6 * statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"{name:40} existing {first:9.1f} µs  missing {second:9.1f} µs  "
        f"difference {second - first:+7.1f} µs  noise {again - first:+7.1f} µs"
    )


def main() -> None:
    """Run all comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--requests", type=int, default=3_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, running(Path(name, "data"), variables=VARIABLES) as server:
        with ImageHost.open(server.data) as host:
            host.accounts.create("ann", password_hash=hash_password("correct horse"))
            bob = host.sessions.create(host.accounts.create("bob")).token
            image = host.upload(make_image(), owner="ann", is_public=False)
            album, key = host.albums.create(owner="ann", name="x"), host.keys.create(owner="ann")
        token = {"Authorization": f"Bearer {bob}"}
        pairs = [
            ("GET", f"/v1/images/{image.id}", f"/v1/images/{'0' * 16}"),
            ("DELETE", f"/v1/images/{image.id}", f"/v1/images/{'0' * 16}"),
            ("GET", f"/img/{image.id}", f"/img/{'0' * 16}"),
            ("GET", f"/v1/albums/{album.id}", "/v1/albums/999999999"),
            ("GET", f"/v1/keys/{key.id}", f"/v1/keys/{'0' * len(key.id)}"),
        ]
        for method, existing, missing in pairs:
            one, other = (timed_request(server.port, method, path, token) for path in (existing, missing))
            compare(f"{method} {existing.rpartition('/')[0]}/…", one, other, options.requests)
        content_type = {"Content-Type": "application/json"}
        bodies = (
            json.dumps({"username": user, "password": "wrong horse"}).encode() for user in ("ann", "eve")
        )
        one, other = (
            timed_request(server.port, "POST", "/v1/session", content_type, body) for body in bodies
        )
        compare("POST /v1/session, wrong password", one, other, PASSWORDS)


if __name__ == "__main__":
    main()
