"""Programs that unpack ZIP archives, with what the server sends: files, and streams without their end.

Each program writes every file of an archive into a directory; those that take a stream get it by a pipe.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from zipfile import ZipFile
from zlib import crc32

import httpx2
import pytest
from attrs import frozen
from tests.outside.packages import install_npm, install_python
from tests.server.in_process import serving
from tests.server.web.conftest import SETTINGS
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.web.zip_archive import ZipWriter

NPM = {"fflate": "0.8.3", "yauzl": "3.4.0"}
PYPI = {"stream-unzip": "0.0.101"}

YAUZL = """
const { createWriteStream } = require('fs')
const { pipeline } = require('stream')
const [archive, ...members] = process.argv.slice(1)
const check = (error) => { if (error) throw error }
require('yauzl').open(archive, { lazyEntries: true }, (error, zip) => {
  check(error)
  zip.on('error', check)
  zip.on('entry', (entry) => {
    if (members.length && !members.includes(entry.fileName)) return zip.readEntry()
    zip.openReadStream(entry, (error, stream) => {
      check(error)
      pipeline(stream, createWriteStream(entry.fileName), (error) => { check(error); zip.readEntry() })
    })
  })
  zip.readEntry()
})
"""
FFLATE = """
const { appendFileSync } = require('fs')
const members = process.argv.slice(1)
const unzip = new (require('fflate').Unzip)((file) => {
  file.ondata = (error, data) => {
    if (error) throw error
    if (!members.length || members.includes(file.name)) appendFileSync(file.name, data)
  }
  file.start()
})
process.stdin.on('data', (data) => unzip.push(data))
process.stdin.on('end', () => unzip.push(new Uint8Array(), true))
"""
STREAM_UNZIP = """
import os, sys
from stream_unzip import stream_unzip
members = sys.argv[1:]
for name, _, chunks in stream_unzip(iter(lambda: sys.stdin.buffer.read(65536), b"")):
    with open(name.decode() if not members or name.decode() in members else os.devnull, "wb") as file:
        for chunk in chunks:
            file.write(chunk)
"""
ZIPFILE = """
import sys, zipfile
zipfile.ZipFile(sys.argv[1]).extractall(members=sys.argv[2:] or None)
"""


@frozen
class Programs:
    """Where the programs of npm and PyPI are."""

    node_modules: Path
    python: Path


@frozen
class Unzipper:
    """A program.

    Attributes:
        command: Its command line, with `{archive}` for the path of the archive. Names of files, by default
            all, follow it.
        is_stream: Whether it reads the archive from a pipe instead.
        keeps_times: Whether it gives files the times that the archive has in UTC.
    """

    command: tuple[str, ...]
    is_stream: bool = False
    keeps_times: bool = True

    def unpack(self, archive: Path, directory: Path, programs: Programs, *members: str) -> None:
        """Unpack an archive, or some of its files, into a new directory."""
        directory.mkdir()
        values = {"{archive}": str(archive), "{python}": str(programs.python)}
        variables = {**os.environ, "NODE_PATH": str(programs.node_modules), "TZ": "Asia/Tokyo"}
        # Java takes the encoding of names from the locale.
        variables |= {"LC_ALL": "C.UTF-8", "UNZIP": ""}
        command = [values.get(argument, argument) for argument in (*self.command, *members)]
        if shutil.which(command[0]) is None:
            pytest.skip(f"NOT TESTED with {command[0]}: it is not installed")
        with archive.open("rb") as file:
            source = ("cat",) if self.is_stream else ("true",)
            with subprocess.Popen(source, stdin=file, stdout=subprocess.PIPE) as pipe:
                subprocess.run(
                    command, cwd=directory, env=variables, stdin=pipe.stdout, stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE, check=True, timeout=PATIENCE,
                )  # fmt: skip


UNZIPPERS = {
    "unzip": Unzipper(("unzip", "-qq", "{archive}")),
    "7z": Unzipper(("7z", "x", "-y", "{archive}")),
    "bsdtar": Unzipper(("bsdtar", "-xf", "{archive}")),
    "bsdtar from a pipe": Unzipper(("bsdtar", "-xf", "-"), is_stream=True),
    "zipfile": Unzipper(("{python}", "-c", ZIPFILE, "{archive}"), keeps_times=False),
    "jar": Unzipper(("jar", "xf", "{archive}")),
    "jar from a pipe": Unzipper(("jar", "x"), is_stream=True),
    "yauzl": Unzipper(("node", "-e", YAUZL, "{archive}"), keeps_times=False),
    "fflate from a pipe": Unzipper(("node", "-e", FFLATE), is_stream=True, keeps_times=False),
    "stream-unzip": Unzipper(("{python}", "-c", STREAM_UNZIP), is_stream=True, keeps_times=False),
}
NAMES = (
    "plain.png",
    "plain.png",
    "PLAIN.png",
    'a:b*c?"<>|.png',
    "CON.png",
    "dots. .png...",
    "é 東京 🗼.png",
    "x" * 251 + ".png",
    "x" * 251 + ".png",
)
"""File names of the images of the album, some of which Windows cannot write."""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    directory = tmp_path_factory.mktemp("unzippers")
    return Programs(install_npm(directory / "npm", NPM), install_python(directory / "pypi", PYPI) / "python")


@frozen
class Archive:
    """An archive, and the data and the times of its files."""

    path: Path
    files: dict[str, bytes]
    times: dict[str, int]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    """The archive of a public album, as the server sends it."""
    path = tmp_path_factory.mktemp("archive") / "images.zip"
    with ImageHost.open(":memory:", settings=SETTINGS) as host, serving(host, SETTINGS) as origin:
        album = host.albums.create("Harbour", owner="admin")
        images = [
            host.upload(make_image(40 + number, 30), owner="admin", album_id=album.id, filename=name)
            for number, name in enumerate(NAMES)
        ]
        data = [host.render(image).data for image in images]
        path.write_bytes(httpx2.get(f"{origin}/a/{album.id}/images.zip").content)
    with ZipFile(path) as opened:
        names = opened.namelist()
    files, times = {}, {}
    for name, image, content in zip(names, reversed(images), reversed(data), strict=True):
        files[name], times[name] = content, int(image.created_at.timestamp())
    return Archive(path, files, times)


@pytest.mark.parametrize("name", UNZIPPERS)
def test_an_unzipper_writes_every_file_of_an_album(
    programs: Programs, archive: Archive, tmp_path: Path, name: str
) -> None:
    unzipper = UNZIPPERS[name]
    unzipper.unpack(archive.path, tmp_path / "unpacked", programs)
    unpacked = list((tmp_path / "unpacked").iterdir())
    assert {path.name: path.read_bytes() for path in unpacked} == archive.files
    if unzipper.keeps_times:
        assert {path.name: int(path.stat().st_mtime) for path in unpacked} == archive.times


def write_archive(path: Path, files: Iterable[tuple[str, int, bytes]], size: int = 0) -> None:
    """Write an archive of files, each with zeros before its last bytes, which take no space on the disk.

    Args:
        path: Where to write it.
        files: The name, the CRC-32 and the last bytes of each file.
        size: The number of zeros.
    """
    with TemporaryFile() as directory, path.open("wb") as file:
        writer = ZipWriter(directory)
        for name, checksum, end in files:
            file.write(writer.add(name, datetime(2026, 1, 2, tzinfo=UTC), size + len(end), checksum))
            file.seek(size, os.SEEK_CUR)
            file.write(end)
        file.writelines(writer.end(2**16))


@pytest.fixture(scope="module")
def archive_of_many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of 70,000 files, which contain their names."""
    path = tmp_path_factory.mktemp("many") / "images.zip"
    names = [f"{number}.png" for number in range(70_000)]
    write_archive(path, ((name, crc32(name.encode()), name.encode()) for name in names))
    return path


@pytest.mark.parametrize("name", UNZIPPERS)
def test_an_unzipper_finds_the_first_and_the_last_of_70_000_files(
    programs: Programs, archive_of_many: Path, tmp_path: Path, name: str
) -> None:
    members = ("0.png", "69999.png")
    UNZIPPERS[name].unpack(archive_of_many, tmp_path / "unpacked", programs, *members)
    unpacked = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "unpacked").iterdir()}
    assert unpacked == {member: member for member in members}


@pytest.fixture(scope="module")
def archive_of_5_gb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of ten large files, which end with their names."""
    path, size = tmp_path_factory.mktemp("large") / "images.zip", 500 * 10**6
    zeros = crc32(bytes(size))
    names = [f"{number}.png" for number in range(10)]
    write_archive(path, ((name, crc32(name.encode(), zeros), name.encode()) for name in names), size)
    return path


@pytest.mark.parametrize("name", UNZIPPERS)
def test_an_unzipper_reads_a_file_behind_5_gb(
    programs: Programs, archive_of_5_gb: Path, tmp_path: Path, name: str
) -> None:
    UNZIPPERS[name].unpack(archive_of_5_gb, tmp_path / "unpacked", programs, "9.png")
    [unpacked] = (tmp_path / "unpacked").iterdir()
    with unpacked.open("rb") as file:
        file.seek(500 * 10**6)
        assert (unpacked.name, file.read()) == ("9.png", b"9.png")
    unpacked.unlink()
