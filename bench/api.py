"""Measure requests to the JSON API, and a bare Litestar handler that sends the same bytes.

    python -m bench.api [--seconds 2] [--rounds 3] [--images 1000] [--writes 0] [--request by-id]

Needs wrk. One server process, with a token, with rate limit windows that are counted but not exhausted, and
with the access log. The bare handler is an application of Litestar with one route, on uvicorn and uvloop and
without an access log. wrk has one thread, and 1 or 16 connections. Rounds alternate between imagehost and the
bare handler. The output has the medians, and the CPU time per response, which depends less on other load of
the machine. Pages and records are in memory until the next commit: with `--writes 10`, another process
commits ten times a second.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread

import attrs
from bench.peers import Load, MissingToolError, Peer, fetch, free_port, machine, run_server, tool, wrk

from imagehost_core import ImageHost
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.ids import new_image_id
from imagehost_core.testing import make_image
from imagehost_server.testing import running

WINDOWS = (
    "API_PER_MINUTE",
    "API_PER_HOUR",
    "API_PER_DAY",
    "UPLOADS_PER_MINUTE",
    "UNAUTHENTICATED_PER_MINUTE",
)
SETTINGS = {f"IMAGEHOST_LIMITS_{name}": str(10**9) for name in WINDOWS} | {
    "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false",
    "IMAGEHOST_LOG_BUFFERED": "true",
}
REQUESTS = ("list-of-20", "by-id", "gallery", "account")
CONNECTIONS = (1, 16)
PER_TRANSACTION = 1_000
BARE_APP = """
from litestar import Litestar, Response, get
BODY = open({body!r}, "rb").read()
@get("/")
async def handler() -> Response[bytes]:
    return Response(BODY, media_type="application/json")
app = Litestar([handler], openapi_config=None, logging_config=None)
"""


@contextmanager
def bare_litestar(directory: Path, body: bytes) -> Iterator[Peer]:
    """Serve bytes from memory by a Litestar application with one route."""
    port, name = free_port(), f"bare_{free_port()}"
    (directory / f"{name}.json").write_bytes(body)
    (directory / f"{name}.py").write_text(BARE_APP.format(body=str(directory / f"{name}.json")))
    command = [sys.executable, "-m", "uvicorn", "--app-dir", str(directory), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--ws", "none", "--loop", "uvloop", "--http", "httptools"]
    command += ["--no-access-log", "--no-server-header", "--no-proxy-headers", f"{name}:app"]
    with run_server(command, port, directory / f"{name}.log") as peer:
        yield peer


def insert_copies(data: Path, count: int) -> str:
    """Upload an image of `admin`, and insert copies of its record; return its id."""
    with ImageHost.open(data) as host:
        image = host.upload(make_image(), owner="admin", filename="cat.png", description="A cat on a sofa")
    database = SqliteDatabase(data / "imagehost.sqlite3", LockManager(data / "locks"))
    images = ImageRepository(database)
    for start in range(1, count, PER_TRANSACTION):
        with database.transaction() as transaction:
            for number in range(start, min(start + PER_TRANSACTION, count)):
                created_at = image.created_at + timedelta(seconds=number)
                images.insert(
                    transaction,
                    attrs.evolve(image, id=new_image_id(), created_at=created_at, updated_at=created_at),
                )
    database.close()
    return image.id


@contextmanager
def committing(data: Path, per_second: int) -> Iterator[None]:
    """Commit changes of the database until the block ends."""
    database, stopped = SqliteDatabase(data / "imagehost.sqlite3", LockManager(data / "locks")), Event()

    def commit() -> None:
        while not stopped.wait(1 / per_second):
            with database.transaction() as transaction:
                transaction.execute("UPDATE accounts SET created_at = created_at", {})

    thread = Thread(target=commit)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        database.close()


def compare(name: str, url: str, header: str, pid: int, directory: Path, seconds: int, rounds: int) -> None:
    """Print the rates of a request and of the bare handler."""
    status, _, body = fetch(url, Authorization=header)
    assert status == 200, body
    with bare_litestar(directory, body) as bare:
        for connections in CONNECTIONS:
            wrk(url, 1, connections, f"Authorization: {header}")
            loads: list[Load] = []
            references: list[Load] = []
            for _ in range(rounds):
                loads.append(wrk(url, seconds, connections, f"Authorization: {header}", pid=pid))
                references.append(wrk(bare.origin, seconds, connections, pid=bare.pid))
            load, reference = Load.median(loads), Load.median(references)
            shares = [theirs.cost / own.cost for own, theirs in zip(loads, references, strict=True)]
            print(
                f"  {name:18} {len(body):6,} bytes, {connections:2} connections: {load.rate:7,.0f} /s of "
                f"{reference.rate:7,.0f} ({load.rate / reference.rate:.1%}); CPU {load.cost:4.0f} µs of "
                f"{reference.cost:3.0f} ({reference.cost / load.cost:.1%}, in the rounds"
                f" {' '.join(f'{share:.1%}' for share in shares)}); p99 {load.p99:.1f} ms of "
                f"{reference.p99:.1f}" + (f"; {load.errors} ERRORS" if load.errors else ""),
                flush=True,
            )


def main() -> None:
    """Measure all requests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=1_000)
    parser.add_argument("--writes", type=int, default=0, help="commits per second meanwhile")
    parser.add_argument("--request", choices=REQUESTS, help="this request only")
    options = parser.parse_args()
    print(machine())
    try:
        tool("wrk")
    except MissingToolError as error:
        raise SystemExit(str(error)) from None
    with tempfile.TemporaryDirectory() as name, running(Path(name, "data"), variables=SETTINGS) as server:
        image_id = insert_copies(server.data, options.images)
        paths = ("/images", f"/images/{image_id}", "/gallery", "/account")
        requests = dict(zip(REQUESTS, paths, strict=True))
        if options.request:
            requests = {options.request: requests[options.request]}
        with committing(server.data, options.writes) if options.writes else nullcontext():
            for label, path in requests.items():
                compare(
                    label,
                    server.base_url + path,
                    f"Bearer {server.token}",
                    server.process.pid,
                    Path(name),
                    options.seconds,
                    options.rounds,
                )


if __name__ == "__main__":
    main()
