"""What can be uploaded: paths, bytes, open files, and all of these with a name.

A file that is open already is sent from where it stands, and goes back there for another try. One that
cannot go back (a pipe, a socket, a response) is first copied to a temporary file, so memory stays flat.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Protocol, cast, runtime_checkable

from attrs import frozen

from imagehost_client.errors import SourceChangedError

SPOOL_BYTES = 1 << 20
"""Bytes of a source that cannot seek which are kept in memory before a file is made."""

MEDIA_TYPES: dict[str, str] = {
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
    ".gif": "image/gif",
}
"""What may be uploaded, by the extension of its name: folders are searched for these."""


@runtime_checkable
class Readable(Protocol):
    """An open file, as far as an upload needs it."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, or none at the end."""


Content = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable
"""A path, bytes, or a file opened in binary mode."""
Source = Content | tuple[str, Content]
"""What `upload` takes: content, or a name and content."""


@frozen(kw_only=True)
class File:
    """A source that is ready to be sent, as often as needed.

    Attributes:
        name: The file's name, without folders.
        size: Bytes from `offset` to the end.
        offset: Where reading begins.
        stream: What is read.
        owned: Whether `close` closes the stream; what a caller opened, the caller closes.
    """

    name: str
    size: int
    offset: int
    stream: BinaryIO
    close_on_done: bool

    @property
    def media_type(self) -> str:
        """The type that the name promises; the host looks at the content alone."""
        return MEDIA_TYPES.get(Path(self.name).suffix.lower(), "application/octet-stream")

    def rewind(self) -> None:
        """Go back to where the source began."""
        self.stream.seek(self.offset)

    def close(self) -> None:
        """Close what was opened for this upload."""
        if self.close_on_done:
            self.stream.close()


def open_file(source: Source, filename: str | None = None) -> File:
    """Return `source` ready to be sent.

    Args:
        source: A path, bytes, a binary file, or `(name, content)`.
        filename: The name to send instead of the source's own.

    Raises:
        OSError: A path cannot be opened, or a file not be read.
        TypeError: It is none of these, or a file in text mode.
    """
    content: object = source
    if isinstance(source, tuple):
        name, content = source
        filename = filename or name
    if isinstance(content, (str, os.PathLike)):
        path = Path(content)
        return _ready(path.open("rb"), filename or path.name, owned=True)
    if isinstance(content, (bytes, bytearray, memoryview)):
        return _ready(io.BytesIO(content), filename or "image", owned=True)
    if isinstance(content, Readable) and not hasattr(content, "encoding"):
        own = getattr(content, "name", None)
        name = Path(own).name if isinstance(own, str) else "image"
        return _ready(cast("BinaryIO", content), filename or name, owned=False)
    raise TypeError(
        "expected a path, bytes, a binary file or (name, content) for source "
        f"but received {type(content).__name__}"
    )


def _ready(stream: BinaryIO, name: str, *, owned: bool) -> File:
    try:
        if not _seekable(stream):
            stream, given, was_owned, owned = _spooled(stream), stream, owned, True
            if was_owned:
                given.close()
        offset = stream.tell()
        size = stream.seek(0, io.SEEK_END) - offset
        stream.seek(offset)
    except BaseException:
        if owned:
            stream.close()
        raise
    return File(name=name, size=max(size, 0), offset=offset, stream=stream, close_on_done=owned)


def _seekable(stream: BinaryIO) -> bool:
    seekable = getattr(stream, "seekable", None)
    return bool(seekable is not None and seekable())


def _spooled(stream: BinaryIO) -> BinaryIO:
    from shutil import copyfileobj  # rarely needed, and slow to import
    from tempfile import SpooledTemporaryFile

    copy = SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 - it outlives this call
    try:
        copyfileobj(stream, copy)
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return cast("BinaryIO", copy)


def source_changed(file: File, received: int) -> SourceChangedError:
    """Return the error for a file that no longer has the size that was promised to the host."""
    more = "more" if received > file.size else str(received)
    return SourceChangedError(f"expected {file.size} bytes for {file.name} but received {more}")


def expand_sources(sources: Iterable[Source] | Source) -> Iterator[Source]:
    """Return every single source of several: folders and patterns become the images in them.

    A folder stands for the images in it and below it, told by their extensions; a text with `*`, `?` or
    `[` that is no file's name for what matches it (`**` reaches below). Both come sorted by name.
    A pattern that matches nothing stays as it is, so that opening it fails by its name.

    Args:
        sources: One source, or several.
    """
    from glob import glob, has_magic  # slow to import

    alone = isinstance(sources, (str, os.PathLike, bytes, bytearray, memoryview, tuple, Readable))
    for source in cast("Iterable[Source]", (sources,) if alone else sources):
        if not isinstance(source, (str, os.PathLike)):
            yield source
            continue
        path = Path(source)
        if path.is_dir():
            yield from _images_in(path)
        elif not path.exists() and has_magic(str(source)):
            found: list[Source] = [*sorted(glob(str(source), recursive=True))]  # noqa: PTH207
            yield from found or [source]
        else:
            yield source


def _images_in(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in MEDIA_TYPES and path.is_file():
            yield path
