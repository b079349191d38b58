"""Fixtures of the core's tests: sample values, child processes and a small file system."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.object_store import S3Server, shared_moto_server, shared_rclone_server, shared_s3_server
from tests.programs import Program

from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.models import Album, Image
from imagehost_core.settings import SQLITE


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Return an S3 server, whose credentials are in the environment; skip the test if there is none."""
    with shared_s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def moto_server() -> Iterator[S3Server]:
    """Return an S3 server of another make."""
    with shared_moto_server() as server:
        yield server


@pytest.fixture(scope="session")
def rclone_server() -> Iterator[S3Server]:
    """Return an S3 server whose objects are files, so that no key can be the directory of another."""
    with shared_rclone_server() as server:
        yield server


ENGINES = (SQLITE, pytest.param("postgres", marks=pytest.mark.external))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a host in modules with `EACH_ENGINE` with each engine.

    Child processes open the directory of a host with SQLite.
    """
    uses_host = "engine" in metafunc.fixturenames and "program" not in metafunc.fixturenames
    if uses_host and getattr(metafunc.module, "EACH_ENGINE", False):
        metafunc.parametrize("engine", ENGINES, indirect=True, scope="module")


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> str:
    """The engine of the hosts' databases: `sqlite`, or `postgres`."""
    return getattr(request, "param", SQLITE)


@pytest.fixture(scope="session")
def image() -> Image:
    """Return a public photo of 2725×2225 pixels, in album 7."""
    return Image(
        id=ImageId("4fTq0ZrXb81KcVnE"),
        account_id=AccountId(1),
        album_id=AlbumId(7),
        filename="cat.webp",
        original_filename="cat.jpg",
        description="",
        is_public=True,
        format=Format.WEBP,
        size=12_345,
        width=2725,
        height=2225,
        frames=1,
        has_alpha=False,
        sha256="ab" * 32,
        placeholder="3OcRJYB4d3h/iIeHeEh3eIhw+j2w",
        created_at=datetime(2026, 11, 21, 7, 26, 3, 120_000, UTC),
        updated_at=datetime(2026, 11, 21, 7, 26, 4, tzinfo=UTC),
    )


@pytest.fixture(scope="session")
def album(image: Image) -> Album:
    """Return album 7, with that photo in it."""
    return Album(
        id=AlbumId(7),
        account_id=AccountId(1),
        name="Cats",
        description="All of them",
        is_public=False,
        image_count=1,
        public_image_count=1,
        cover=image,
        created_at=datetime(2026, 11, 20, tzinfo=UTC),
        updated_at=datetime(2026, 11, 21, tzinfo=UTC),
    )


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    """Return a function that starts programs; they are killed at the end of the test."""
    with ExitStack() as cleanup:

        def start(text: str, *arguments: object) -> Program:
            program = Program(text, *arguments)
            cleanup.callback(program.kill)
            return program

        yield start


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Return a function that mounts a small file system; skip the test without the permission to mount."""
    disk = tmp_path / "disk"

    def mount(size: str = "1m", files: int = 100) -> Path:
        disk.mkdir()
        options = f"size={size},nr_inodes={files}"
        command = ["mount", "-t", "tmpfs", "-o", options, "imagehost-test", str(disk)]
        if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("NOT TESTED: a full disk, because mounting a file system is not permitted")
        return disk

    yield mount
    if disk.is_mount():
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
