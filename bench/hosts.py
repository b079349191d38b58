"""Measure one host on SQLite and a directory beside one and two hosts on PostgreSQL and an object store.

    python -m bench.hosts [DIRECTORY] [--rounds 3] [--seconds 4]

All run on the same machine: PostgreSQL and SeaweedFS take part of its cores, and two hosts share them, so the
ratios show what the engines cost, not what more machines gain. Four clients upload photographs of 0.7
megapixels, read pages of 20 records, request variants that were not requested before, and repeat one
variant; with two hosts each client uses one of them. Rounds alternate. Besides the rates it prints the CPU
time of the hosts, of PostgreSQL and of SeaweedFS for each request, which depends less on other load, and the
bytes that an image takes in the database and in the store.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from http.client import HTTPConnection
from itertools import count
from pathlib import Path

import psycopg
from attrs import define, field
from bench.peers import UNLIMITED, cpu_seconds, machine, upload
from bench.render import as_jpeg, sample_image
from tests.object_store import CREDENTIALS, run_s3_server
from tests.postgres import PostgresServer, run_postgres

from imagehost_server.testing import RunningServer, running

CLIENTS = 4
PHOTOGRAPH = (1024, 683)
UNLIMITED_REQUESTS = UNLIMITED | {"IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "0"}


@define
class Candidate:
    """Hosts of one service.

    Attributes:
        name: What is printed.
        hosts: The servers.
        image: The id of an image.
        pids: The ids of the processes whose CPU time is measured with their descendants, by what they are.
        widths: Numbers of variants that were not requested before.
        rates: The requests per second of each round, by kind.
        costs: The CPU time of a request in each round, in milliseconds, by kind and process.
    """

    name: str
    hosts: Sequence[RunningServer]
    image: str
    pids: Mapping[str, Sequence[int]]
    widths: count[int] = field(factory=count)
    rates: dict[str, list[float]] = field(factory=dict)
    costs: dict[str, list[dict[str, float]]] = field(factory=dict)

    @property
    def token(self) -> str:
        """The token of the first host that was started."""
        return self.hosts[0].token

    def measure(self, kind: str, send: Send, seconds: float) -> None:
        """Send requests of all clients for a number of seconds."""
        ends, responses = time.monotonic() + seconds, [0] * CLIENTS

        def client(number: int) -> None:
            connection = HTTPConnection("127.0.0.1", self.hosts[number % len(self.hosts)].port, timeout=60)
            while time.monotonic() < ends:
                send(self, connection)
                responses[number] += 1
            connection.close()

        before, start = self._cpu_milliseconds(), time.monotonic()
        threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        total = sum(responses)
        self.rates.setdefault(kind, []).append(total / (time.monotonic() - start))
        cost = {name: (value - before[name]) / total for name, value in self._cpu_milliseconds().items()}
        self.costs.setdefault(kind, []).append(cost)

    def cost(self, kind: str) -> dict[str, float]:
        """Return the median CPU time of a request, in milliseconds, by process."""
        return {name: statistics.median(each[name] for each in self.costs[kind]) for name in self.pids}

    def _cpu_milliseconds(self) -> dict[str, float]:
        return {name: 1e3 * sum(map(cpu_seconds, pids)) for name, pids in self.pids.items()}


Send = Callable[[Candidate, HTTPConnection], None]
"""Sends a request on a connection to one of the hosts."""


def exchange(connection: HTTPConnection, method: str, path: str, body: bytes = b"", **headers: str) -> None:
    """Send a request and read its response.

    Raises:
        RuntimeError: The response has another status than 200 and 201.
    """
    connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
    response = connection.getresponse()
    data = response.read()
    if response.status not in {200, 201}:
        raise RuntimeError(f"{method} {path}: {response.status} {data[:200]!r}")


def send_upload(photograph: bytes) -> Send:
    """Return the function that uploads a photograph."""
    head = b'--b\r\nContent-Disposition: form-data; name="image"; filename="a.jpg"\r\n\r\n'
    body, content_type = head + photograph + b"\r\n--b--\r\n", "multipart/form-data; boundary=b"

    def send(candidate: Candidate, connection: HTTPConnection) -> None:
        authorization = f"Bearer {candidate.token}"
        headers = {"Authorization": authorization, "Content_Type": content_type}
        exchange(connection, "POST", "/v1/upload", body, **headers)

    return send


def send_list(candidate: Candidate, connection: HTTPConnection) -> None:
    """Request the first page of images."""
    exchange(connection, "GET", "/v1/images", Authorization=f"Bearer {candidate.token}")


def send_cold(candidate: Candidate, connection: HTTPConnection) -> None:
    """Request a variant that was not requested before."""
    number = next(candidate.widths)
    query = f"w={300 + number % 300}&h={200 + number // 300}&fm=webp"
    exchange(connection, "GET", f"/img/{candidate.image}?{query}")


def send_warm(candidate: Candidate, connection: HTTPConnection) -> None:
    """Request a variant that each host has in memory."""
    exchange(connection, "GET", f"/img/{candidate.image}?w=299&fm=webp")


def report(kind: str, candidates: Sequence[Candidate]) -> None:
    """Print medians; ratios are to the first candidate."""
    base_rate = statistics.median(candidates[0].rates[kind])
    base_cost = sum(candidates[0].cost(kind).values())
    for candidate in candidates:
        rate, cost = statistics.median(candidate.rates[kind]), candidate.cost(kind)
        total, parts = sum(cost.values()), ", ".join(f"{name} {value:.2f}" for name, value in cost.items())
        print(
            f"{kind:7} {candidate.name:28} {rate:7.1f} /s ({rate / base_rate:.2f} ×); "
            f"CPU per request {total:6.2f} ms ({total / base_cost:.2f} ×): {parts}",
            flush=True,
        )


def file_bytes(directory: Path) -> int:
    """Return the bytes that the files of a directory occupy on the disk."""
    return sum(512 * path.stat().st_blocks for path in directory.rglob("*") if path.is_file())


@define
class Sizes:
    """What the images of both PostgreSQL databases take, in the databases and in the object store.

    Attributes:
        databases: The size of the databases, in bytes.
        files: The size of the files of the object store, in bytes.
        images: The number of images.
    """

    databases: int
    files: int
    images: int

    @classmethod
    def measure(cls, postgres: PostgresServer, names: Sequence[str], store: Path) -> Sizes:
        """Return the sizes now, after a VACUUM."""
        sizes = cls(0, file_bytes(store), 0)
        for name in names:
            postgres.execute("VACUUM", name)
            with psycopg.connect(postgres.url_of(name)) as connection:
                row = connection.execute(
                    "SELECT pg_database_size(current_database()), (SELECT count(*) FROM images)"
                ).fetchone()
            assert row is not None
            sizes.databases += row[0]
            sizes.images += row[1]
        return sizes

    def report(self, before: Sizes) -> None:
        """Print the bytes of an image."""
        images = self.images - before.images
        database, files = (self.databases - before.databases) / images, (self.files - before.files) / images
        print(f"{images} images: {database:,.0f} bytes each in PostgreSQL, {files:,.0f} in SeaweedFS")


def main() -> None:
    """Measure all requests with all candidates."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    options = parser.parse_args()
    os.environ |= CREDENTIALS
    print(machine())
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        (root / "s3").mkdir()
        store = stack.enter_context(run_s3_server(root / "s3"))
        postgres = stack.enter_context(run_postgres())
        photograph = as_jpeg(sample_image().resize(PHOTOGRAPH))

        def candidate(name: str, hosts: int, database: str = "") -> Candidate:
            shared = {}
            if database:
                postgres.execute(f"CREATE DATABASE {database}")
                shared = {
                    "IMAGEHOST_DATABASE": postgres.url_of(database),
                    "IMAGEHOST_STORAGE": store.url(database),
                }
            servers = [
                stack.enter_context(
                    running(root / f"{database or 'sqlite'}-{number}", variables=UNLIMITED_REQUESTS | shared)
                )
                for number in range(hosts)
            ]
            pids = {"hosts": [server.process.pid for server in servers]}
            if database:
                pids |= {"PostgreSQL": [postgres.pid], "SeaweedFS": [store.pid]}
            image = upload(servers[0], photograph)
            for server in servers * 4:
                send_warm(Candidate(name, servers, image, {}), HTTPConnection("127.0.0.1", server.port))
            return Candidate(name, servers, image, pids)

        candidates = [
            candidate("1, SQLite and directory", 1),
            candidate("1, PostgreSQL and SeaweedFS", 1, "one"),
            candidate("2, PostgreSQL and SeaweedFS", 2, "two"),
        ]
        requests: dict[str, Send] = {
            "upload": send_upload(photograph),
            "list": send_list,
            "cold": send_cold,
            "warm": send_warm,
        }
        before = Sizes.measure(postgres, ("one", "two"), root / "s3" / "data")
        for kind, send in requests.items():
            for _ in range(options.rounds):
                for each in candidates:
                    each.measure(kind, send, options.seconds)
            report(kind, candidates)
            if kind == "upload":
                print(f"{len(photograph):,} bytes uploaded each; ", end="")
                Sizes.measure(postgres, ("one", "two"), root / "s3" / "data").report(before)
        print(machine())


if __name__ == "__main__":
    main()
