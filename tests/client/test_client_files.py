"""Upload sources: streams, paths, directories and patterns."""

from __future__ import annotations

import io
import os
import struct
import tempfile
import threading
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_client.errors import ValidationError
from imagehost_client.files import SPOOL_BYTES, expand_sources, has_place, open_file


class Pipe(io.RawIOBase):
    """A stream that is not seekable."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._content.readinto(buffer)


class Minimal:
    """A file with only a `read` method."""

    def __init__(self, content: bytes) -> None:
        self._content = io.BytesIO(content)

    def read(self, size: int = -1, /) -> bytes:
        return self._content.read(size)


@given(st.binary(max_size=2000), st.integers(0, 2500))
def test_an_open_file_is_read_from_its_position_repeatedly(content: bytes, offset: int) -> None:
    stream = io.BytesIO(content)
    stream.seek(offset)
    file = open_file(stream)
    for _ in range(3):
        file.rewind()
        assert file.stream.read() == content[offset:]
    assert file.size == len(content[offset:])
    file.close()
    assert not stream.closed


@pytest.mark.parametrize("make", [Pipe, Minimal])
@pytest.mark.parametrize("size", [0, 5, SPOOL_BYTES + 1])
def test_a_stream_that_is_not_seekable_is_spooled(make: Any, size: int) -> None:
    content = os.urandom(size)
    file = open_file(make(content))
    for _ in range(2):
        file.rewind()
        assert file.stream.read() == content
    assert (file.size, file.name) == (size, "image")
    file.close()
    assert file.stream.closed


@pytest.mark.parametrize("content", [b"abc", bytearray(b"abc"), memoryview(b"abc")])
def test_bytes_like_objects_are_accepted(content: bytes) -> None:
    file = open_file(content)
    assert (file.stream.read(), file.size, file.name) == (b"abc", 3, "image")
    file.close()


def test_a_path_is_opened_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "Käse.PNG"
    path.write_bytes(b"abc")
    for source in (path, str(path)):
        file = open_file(source)
        assert (file.name, file.size, file.media_type) == ("Käse.PNG", 3, "image/png")
        file.close()
        assert file.stream.closed


def test_a_file_name_is_part_of_the_source_or_an_argument(tmp_path: Path) -> None:
    assert open_file(("a.webp", b"x")).name == "a.webp"
    assert open_file(("a.webp", b"x"), "b.gif").media_type == "image/gif"
    assert open_file(b"x", "c.jpg").media_type == "image/jpeg"
    assert open_file(b"x", "c.xyz").media_type == "application/octet-stream"
    with (tmp_path / "d.png").open("wb+") as stream:
        assert open_file(stream).name == "d.png"
    with tempfile.TemporaryFile() as unnamed:
        assert open_file(unnamed).name == "image"


def test_a_file_in_text_mode_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    with (tmp_path / "a.png").open() as stream, pytest.raises(ValidationError, match="binary"):
        open_file(stream)  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="StringIO"):
        open_file(io.StringIO("x"))  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [None, 7, [b"x"], object()])
def test_an_invalid_source_is_rejected_with_its_type(source: Any) -> None:
    with pytest.raises(ValidationError, match=type(source).__name__):
        open_file(source)


def write_photograph(path: Path, order: bytes, gps: tuple[int, ...]) -> Path:
    """Write the start of a JPEG whose EXIF has a GPS directory with some tags."""
    sign = "<" if order == b"II" else ">"
    entries = b"".join(struct.pack(f"{sign}HHLL", tag, 1, 1, 0) for tag in gps)
    directory = struct.pack(f"{sign}HHHLL", 1, 0x8825, 4, 1, 26) + bytes(4)
    tiff = order + struct.pack(f"{sign}HL", 42, 8) + directory + struct.pack(f"{sign}H", len(gps)) + entries
    path.write_bytes(b"\xff\xd8\xff\xe1" + struct.pack(">H", len(tiff) + 8) + b"Exif\0\0" + tiff)
    return path


@pytest.mark.parametrize("order", [b"II", b"MM"])
@pytest.mark.parametrize(("gps", "expected"), [((0, 1, 2, 3, 4), True), ((0,), False), ((), False)])
def test_a_photograph_has_a_place_if_its_gps_directory_has_a_latitude(
    order: bytes, gps: tuple[int, ...], expected: bool, tmp_path: Path
) -> None:
    assert has_place(write_photograph(tmp_path / "a.jpg", order, gps)) is expected


@given(st.binary(max_size=60), st.booleans())
def test_a_file_of_any_bytes_has_a_place_or_none(content: bytes, is_exif: bool) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.jpg"
        path.write_bytes((b"\xff\xd8\xff\xe1\0\x60Exif\0\0II*\0" if is_exif else b"") + content)
        assert has_place(path) in (True, False)
    assert not has_place(path)


def test_a_missing_path_is_a_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "none.png")


def test_a_source_that_cannot_be_read_is_closed() -> None:
    class Broken(Pipe):
        def read(self, _: int = -1, /) -> bytes:
            raise OSError("disk on fire")

    with pytest.raises(OSError, match="fire"):
        open_file(Broken(b""))


def test_an_os_pipe_is_accepted(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(fifo, os.O_WRONLY)
    os.write(writer, b"through a pipe")
    os.close(writer)
    stream: IO[bytes] = os.fdopen(reader, "rb")
    file = open_file(stream)
    assert file.stream.read() == b"through a pipe"
    file.close()
    stream.close()


def test_a_fifo_path_is_spooled_and_closed(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe.png"
    os.mkfifo(fifo)
    writer = threading.Thread(target=fifo.write_bytes, args=(b"through a pipe",))
    writer.start()
    file = open_file(fifo)
    writer.join()
    assert (file.stream.read(), file.size, file.name) == (b"through a pipe", 14, "pipe.png")
    file.close()


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="a file without a size is needed")
def test_a_file_without_a_size_is_closed() -> None:
    with pytest.raises(OSError, match="argument"):
        open_file("/proc/self/mem")


def make(directory: Path, *names: str) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def test_a_directory_is_expanded_to_its_images_recursively(tmp_path: Path) -> None:
    make(tmp_path, "b.PNG", "a.jpg", "sub/c.webp", "notes.txt", ".hidden")
    (tmp_path / "folder.png").mkdir()
    assert list(expand_sources(tmp_path)) == [
        tmp_path / "a.jpg",
        tmp_path / "b.PNG",
        tmp_path / "sub" / "c.webp",
    ]


def test_a_pattern_is_expanded_to_its_matches(tmp_path: Path) -> None:
    make(tmp_path, "b.png", "a.png", "sub/c.png")
    assert list(expand_sources(f"{tmp_path}/*.png")) == [f"{tmp_path}/a.png", f"{tmp_path}/b.png"]
    assert f"{tmp_path}/sub/c.png" in list(expand_sources([f"{tmp_path}/**/*.png"]))
    assert list(expand_sources([f"{tmp_path}/*.gif"])) == [f"{tmp_path}/*.gif"]


def test_an_existing_path_is_not_a_pattern(tmp_path: Path) -> None:
    make(tmp_path, "a[1].png", "a1.png")
    assert list(expand_sources(str(tmp_path / "a[1].png"))) == [str(tmp_path / "a[1].png")]


def test_a_single_source_is_a_list_of_one(tmp_path: Path) -> None:
    assert list(expand_sources(b"abc")) == [b"abc"]
    assert list(expand_sources(("a.png", b"abc"))) == [("a.png", b"abc")]
    stream = io.BytesIO()
    assert list(expand_sources(stream)) == [stream]
    assert list(expand_sources([b"2", b"1"])) == [b"2", b"1"]
    assert list(expand_sources(["missing.png"])) == ["missing.png"]
