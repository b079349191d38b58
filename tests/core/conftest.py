"""Values that the tests of the core start from; a test changes what it is about with `attrs.evolve`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest

from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.models import Album, Image


@pytest.fixture(scope="session")
def image() -> Image:
    """A public photo of 2725×2225 pixels, in album 7."""
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
    """An album with that photo in it."""
    return Album(
        id=AlbumId(7),
        account_id=AccountId(1),
        name="Cats",
        description="All of them",
        is_public=False,
        image_count=1,
        cover=image,
        created_at=datetime(2026, 11, 20, tzinfo=UTC),
        updated_at=datetime(2026, 11, 21, tzinfo=UTC),
    )


class Program:
    """Another process: a Python program that is given as text, and spoken to by lines.

    Args:
        text: The program; its indentation does not matter.
        arguments: What it finds in `sys.argv`, from 1.
    """

    def __init__(self, text: str, *arguments: object) -> None:
        command = [sys.executable, "-c", dedent(text), *map(str, arguments)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def hear(self) -> str:
        """Wait for the next line that it prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"expected a line of the program but it ended with {self._process.wait()}"
        return line.strip()

    def tell(self, line: str = "go on") -> None:
        """Send it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")

    def end(self) -> int:
        """Close its input, wait until it ends, and return how it ended."""
        self._process.communicate()
        return self._process.returncode

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def program() -> Iterator[Callable[..., Program]]:
    """Start programs, which are gone when the test ends."""
    with ExitStack() as started:

        def start(text: str, *arguments: object) -> Program:
            made = Program(text, *arguments)
            started.callback(made.kill)
            return made

        yield start


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Make a file system that can really be filled; skips where this user may not mount one."""
    disk = tmp_path / "disk"

    def mount(size: str = "1m", files: int = 100) -> Path:
        disk.mkdir()
        options = f"size={size},nr_inodes={files}"
        command = ["mount", "-t", "tmpfs", "-o", options, "imagehost-test", str(disk)]
        if sys.platform != "linux" or subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("NOT TESTED: a really full disk, for want of the right to mount one")
        return disk

    yield mount
    if disk.is_mount():
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
