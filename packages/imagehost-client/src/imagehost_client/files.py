"""Upload sources: paths, bytes and open files, with an optional file name.

An open file is sent from its current position, and rewound to it before a retry. A stream that is not
seekable (a pipe, a socket, an HTTP response) is first spooled to a temporary file, not into memory.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import AsyncIterable, Iterable, Iterator
from contextlib import suppress
from inspect import iscoroutinefunction
from pathlib import Path
from typing import BinaryIO, cast

from attrs import frozen

from imagehost_client._types import UPLOADABLE
from imagehost_client._types import Content as Content
from imagehost_client._types import Readable as Readable
from imagehost_client._types import Source as Source
from imagehost_client.errors import SourceChangedError, ValidationError

SPOOL_BYTES = 1 << 20
"""The size, in bytes, from which a spooled stream is written to disk."""

MEDIA_TYPES = {f".{name}": info.media_type for info in UPLOADABLE.values() for name in info.extensions}
"""Media types by file extension; directories are searched for these extensions."""


@frozen(kw_only=True)
class File:
    """An opened source, which can be sent several times.

    Attributes:
        name: The file name, without directories.
        size: The number of bytes from `offset` to the end.
        offset: The position in the stream where the content begins.
        stream: The content.
        close_on_done: Whether `close` closes the stream; a stream that the caller opened stays open.
    """

    name: str
    size: int
    offset: int
    stream: BinaryIO
    close_on_done: bool

    @property
    def media_type(self) -> str:
        """The media type for the name's extension; the host ignores it and inspects the content."""
        return MEDIA_TYPES.get(Path(self.name).suffix.lower(), "application/octet-stream")

    def rewind(self) -> None:
        """Seek to the start of the content."""
        self.stream.seek(self.offset)

    def close(self) -> None:
        """Close the stream, unless the caller opened it."""
        if self.close_on_done:
            self.stream.close()


def is_url(source: object) -> bool:
    """Return whether a source is a URL, whose image the host fetches."""
    return isinstance(source, str) and source.lower().startswith(("http://", "https://"))


def open_file(source: Source, filename: str | None = None) -> File:
    """Open `source` for an upload.

    Args:
        source: A path, bytes, a binary file, or `(name, content)`.
        filename: The file name to send instead of the source's.

    Raises:
        OSError: The file cannot be opened or read.
        ValidationError: The source has another type, or is a file in text mode.
    """
    content: object = source
    if isinstance(source, tuple):
        name, content = source
        filename = filename or name
    if iscoroutinefunction(getattr(content, "read", None)) and hasattr(content, "file"):
        # An `UploadFile` of Starlette or FastAPI.
        filename = filename or getattr(content, "filename", None)
        content = content.file
    if isinstance(content, (str, os.PathLike)):
        path = Path(content)
        return _measure(path.open("rb"), filename or path.name, close_on_done=True)
    if isinstance(content, (bytes, bytearray, memoryview)):
        return _measure(io.BytesIO(content), filename or "image", close_on_done=True)
    if isinstance(content, Readable) and not hasattr(content, "encoding"):
        stream_name = getattr(content, "name", None)
        name = Path(stream_name).name if isinstance(stream_name, str) else "image"
        return _measure(cast("BinaryIO", content), filename or name, close_on_done=False)
    expected = "a path, bytes, a binary file or (name, content), or for AsyncClient an asynchronous iterable,"
    raise ValidationError(
        f"expected {expected}{_advice(content)} for source but received {type(content).__name__}"
    )


def _advice(source: object) -> str:
    """Return what a program writes in place of a value that is no source; nothing if that is unknown."""
    package = type(source).__module__.partition(".")[0]
    if package in {"PIL", "numpy"}:
        image = "image" if package == "PIL" else "PIL.Image.fromarray(array)"
        return f" (buffer.getvalue() after {image}.save(buffer := io.BytesIO(), 'PNG'))"
    return " (b''.join(chunks))" if isinstance(source, Iterator) else ""


def _measure(stream: BinaryIO, name: str, *, close_on_done: bool) -> File:
    """Return a `File` with the stream's size and position; spool the stream if it is not seekable."""
    try:
        if not _is_seekable(stream):
            spooled = _spool(stream)
            if close_on_done:
                stream.close()
            stream, close_on_done = spooled, True
        offset = stream.tell()
        size = stream.seek(0, io.SEEK_END) - offset
        stream.seek(offset)
    except BaseException:
        if close_on_done:
            stream.close()
        raise
    return File(name=name, size=max(size, 0), offset=offset, stream=stream, close_on_done=close_on_done)


def _is_seekable(stream: BinaryIO) -> bool:
    seekable = getattr(stream, "seekable", None)
    return bool(seekable is not None and seekable())


def _spool(stream: BinaryIO) -> BinaryIO:
    from shutil import copyfileobj  # rarely needed, and slow to import

    copy = new_spool()
    try:
        copyfileobj(stream, copy)
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


def new_spool() -> BinaryIO:
    """Return a new temporary file, in memory until it exceeds `SPOOL_BYTES`; the caller closes it."""
    from tempfile import SpooledTemporaryFile  # slow to import

    return cast("BinaryIO", SpooledTemporaryFile(SPOOL_BYTES))


def source_changed(file: File, received: int) -> SourceChangedError:
    """Return the error for a file whose size differs from the announced one."""
    actual = "more" if received > file.size else str(received)
    return SourceChangedError(f"expected {file.size} bytes for {file.name} but received {actual}")


def expand_sources(sources: Iterable[Source] | Source) -> Iterator[Source]:
    """Return single files for sources that may be directories and glob patterns.

    A directory is replaced by the image files in it and its subdirectories, by extension; a string with
    `*`, `?` or `[` that is not an existing path by its matches (`**` matches subdirectories). Both are
    sorted by name. A pattern without matches is kept, so that opening it fails with its name.

    Args:
        sources: One source, or several.
    """
    from glob import glob, has_magic  # slow to import

    is_single = isinstance(
        sources, (str, os.PathLike, bytes, bytearray, memoryview, tuple, Readable, AsyncIterable)
    )
    for source in cast("Iterable[Source]", (sources,) if is_single else sources):
        if not isinstance(source, (str, os.PathLike)):
            yield source
            continue
        path = Path(source)
        if path.is_dir():
            yield from images_in(path)
        elif not path.exists() and has_magic(str(source)):
            matches: list[Source] = [*sorted(glob(str(source), recursive=True))]  # noqa: PTH207
            yield from matches or [source]
        else:
            yield source


def images_in(directory: Path) -> Iterator[Path]:
    """Yield the images in a directory and in those below it, sorted."""
    for path in sorted(directory.rglob("*")):
        if path.suffix.lower() in MEDIA_TYPES and path.is_file():
            yield path


_EXIF, _EXIF_BYTES = b"Exif\0\0", 1 << 17
"""The start of EXIF, and the first bytes of a JPEG that have it: it is an early segment of at most 64 KiB."""
_GPS_TAG, _LATITUDE_TAG = 0x8825, 2
"""The tags of EXIF for the address of the GPS directory, and for the latitude in it (CIPA DC-008, 4.6)."""


def has_place(path: str | os.PathLike[str]) -> bool:
    """Return whether a JPEG states in EXIF where it was taken; `False` for what cannot be read.

    A pipe is left alone: what is read from it would be missing in the upload.
    """
    if not Path(path).is_file():
        return False
    with suppress(OSError, struct.error, KeyError), Path(path).open("rb") as file:
        head, _, tiff = file.read(_EXIF_BYTES).partition(_EXIF)
        order = {b"II": "<", b"MM": ">"}[tiff[:2]]

        def tags(offset: int) -> dict[int, int]:
            (count,) = struct.unpack_from(f"{order}H", tiff, offset)
            entries = (struct.unpack_from(f"{order}H6xL", tiff, offset + 2 + 12 * n) for n in range(count))
            return dict(entries)

        first = tags(struct.unpack_from(f"{order}L", tiff, 4)[0])
        return head[:2] == b"\xff\xd8" and _GPS_TAG in first and _LATITUDE_TAG in tags(first[_GPS_TAG])
    return False
