"""Whether the time of an answer tells of what is somebody else's, or of which accounts there are.

Pairs of requests are asked in turn over one connection, so that whatever the machine does meanwhile falls on
both alike: another account's image and one that nobody has, and the same for keys and albums; a wrong
password for an account and for a name that nobody has. Printed are both medians, their difference, and how
far the difference of two *equal* requests strays by chance: what is no larger cannot be told apart.

    python bench/timing.py [--requests 3000]
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
"""Attempts to sign in of each kind: each takes a tenth of a second."""

Ask = Callable[[], float]


def asker(port: int, method: str, path: str, headers: dict[str, str], body: bytes | None = None) -> Ask:
    """Return a function that asks once and returns how long it took, in seconds."""
    connection = HTTPConnection("127.0.0.1", port)

    def ask() -> float:
        began = time.perf_counter()
        connection.request(method, path, body, headers)
        connection.getresponse().read()
        return time.perf_counter() - began

    return ask


def compare(name: str, one: Ask, other: Ask, turns: int) -> None:
    """Ask both in turn, and the one against itself, and print the medians in microseconds."""
    for ask in (one, other):
        for _ in range(max(2, turns // 20)):
            ask()
    times = [(one(), other(), one()) for _ in range(turns)]
    first, second, again = (1e6 * statistics.median(column) for column in zip(*times, strict=True))
    print(
        f"{name:40} foreign {first:9.1f} µs  missing {second:9.1f} µs  "
        f"difference {second - first:+7.1f} µs  by chance {again - first:+7.1f} µs"
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
            ("GET", f"/v1/keys/{key.key.id}", f"/v1/keys/{'0' * len(key.key.id)}"),
        ]
        for method, foreign, missing in pairs:
            one, other = (asker(server.port, method, path, token) for path in (foreign, missing))
            compare(f"{method} {foreign.rpartition('/')[0]}/…", one, other, options.requests)
        kind = {"Content-Type": "application/json"}
        words = (
            json.dumps({"username": user, "password": "wrong horse"}).encode() for user in ("ann", "eve")
        )
        one, other = (asker(server.port, "POST", "/v1/session", kind, body) for body in words)
        compare("POST /v1/session, a wrong password", one, other, PASSWORDS)


if __name__ == "__main__":
    main()
