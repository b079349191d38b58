"""Backup archives: a stream with the files of a data directory, in a format that common tools read.

An archive is a tar file compressed with Zstandard. Its members have the names that the files have in the data
directory, and a fixed order:

```
backup.json              when and since when the backup was taken
imagehost.sqlite3        the copy of the database
secret                   the key of signed URLs
imagehost.toml           the settings, if there is such a file
images/ab/<id>/<name>    masters and derivatives, in ascending order
skipped                  the ids of images whose files could not be read, one a line
SHA256SUMS               the SHA-256 of each member above, as `sha256sum` writes them
```

Archives in one stream follow one another. A reader trusts nothing: each member has a known name, its place
and a maximum size, and is a regular file, so an archive can name no path outside the directory. `tarfile`
parses the blocks of headers only, because as a reader it accepts extensions of any size.
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO

from attrs import field, frozen

from imagehost_core.errors import ValidationError, quote_value
from imagehost_core.ids import ImageId, is_image_id
from imagehost_core.storage.layout import shard

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

INFO, DATABASE, SECRET, SETTINGS = "backup.json", "imagehost.sqlite3", "secret", "imagehost.toml"
IMAGES, SKIPPED, CHECKSUMS = "images", "skipped", "SHA256SUMS"
COMPRESSION_LEVEL = 1
"""The fastest level: the files of images do not compress, and the database does at any level."""
MAX_IMAGE_FILE_BYTES = 2**30
"""More than the pixels of the largest image take without compression: 150 million of 4 bytes."""
CHUNK_BYTES = 2**20
"""Bytes to copy at a time: 1 MiB."""
CHECKSUMS_IN_MEMORY_BYTES = 2**24
"""Bytes of checksums above which they are kept in a file: those of about 70,000 images."""
_BLOCK = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK)
"""The end of a tar file (POSIX.1-2024, pax, "ustar Interchange Format")."""
_IMAGE_FILE = re.compile(
    r"images/([0-9A-Za-z]{2})/([0-9A-Za-z]{16})/(master|derivative-[1-9][0-9]{0,4})", re.ASCII
)


@frozen
class _MemberKind:
    """A kind of member.

    Attributes:
        name: The member's name; `images` stands for the files of all images.
        max_bytes: The largest size.
        is_required: Whether an archive without it is incomplete.
    """

    name: str
    max_bytes: int
    is_required: bool = True


_KINDS = (
    _MemberKind(INFO, 2**16),
    _MemberKind(DATABASE, 2**44),
    _MemberKind(SECRET, 2**12),
    _MemberKind(SETTINGS, 2**20, is_required=False),
    _MemberKind(IMAGES, MAX_IMAGE_FILE_BYTES, is_required=False),
    _MemberKind(SKIPPED, 2**28),
    _MemberKind(CHECKSUMS, 2**40),
)
"""The kinds of members in their order."""


def image_member(image_id: ImageId, name: str) -> str:
    """Return the name of the member with a file of an image."""
    return f"{IMAGES}/{shard(image_id)}/{image_id}/{name}"


class ArchiveWriter:
    """A writer of one archive.

    Args:
        stream: The stream; it is not closed.
        scratch: A directory for a temporary file.
        modified_at: The modification time of all members, in seconds since 1970.
    """

    def __init__(self, stream: BinaryIO, scratch: Path, modified_at: int) -> None:
        options: dict[int, int] = {
            zstd.CompressionParameter.compression_level: COMPRESSION_LEVEL,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        self._stream = stream
        self._compressor = zstd.ZstdCompressor(options=options)
        self._checksums = _Checksums(scratch)
        self._modified_at = modified_at

    def add(self, name: str, file: BinaryIO, size: int) -> str:
        """Append a member, and return its SHA-256 as 64 hexadecimal digits.

        Args:
            name: Its name.
            file: A file at the beginning of the member's content.
            size: Bytes of the content.

        Raises:
            EOFError: The file has fewer bytes.
        """
        self._write_header(name, size)
        digest, left = sha256(), size
        while left:
            chunk = file.read(min(left, CHUNK_BYTES))
            if not chunk:
                raise EOFError(f"expected {size} bytes in {name} but received {size - left}")
            digest.update(chunk)
            self._write(chunk)
            left -= len(chunk)
        self._write(_padding(size))
        self._checksums.add(digest.hexdigest(), name)
        return digest.hexdigest()

    def add_bytes(self, name: str, data: bytes) -> None:
        """Append a member with a content in memory."""
        self.add(name, BytesIO(data), len(data))

    def finish(self) -> None:
        """Append the checksums and the end of the archive."""
        file, size = self._checksums.rewind()
        self._write_header(CHECKSUMS, size)
        while chunk := file.read(CHUNK_BYTES):
            self._write(chunk)
        self._write(_padding(size) + _END)
        self._stream.write(self._compressor.flush())

    def close(self) -> None:
        """Delete the temporary file."""
        self._checksums.close()

    def _write(self, data: bytes) -> None:
        if compressed := self._compressor.compress(data):
            self._stream.write(compressed)

    def _write_header(self, name: str, size: int) -> None:
        header = tarfile.TarInfo(name)
        header.size, header.mode, header.mtime = size, 0o600, self._modified_at
        self._write(header.tobuf(tarfile.GNU_FORMAT))


@frozen
class Member:
    """A member of an archive that is being read.

    Attributes:
        name: Its name.
        size: Bytes of its content.
        image_id: The image whose file it is, or `None`.
    """

    name: str
    size: int
    image_id: ImageId | None
    _reader: ArchiveReader = field(repr=False)

    def chunks(self) -> Iterator[bytes]:
        """Yield the content; it must be read to its end before the next member."""
        return self._reader.chunks(self)

    def read(self) -> bytes:
        """Return the content of a small member."""
        return b"".join(self.chunks())


class ArchiveReader:
    """A reader of a stream with one archive or several.

    Args:
        stream: The stream; it is not closed.
        scratch: A directory for a temporary file; by default that of the system.
    """

    def __init__(self, stream: BinaryIO, scratch: Path | None = None) -> None:
        self._file = zstd.ZstdFile(stream, "rb")
        self._scratch = scratch
        self._checksums = _Checksums(scratch)
        self._next_block = b""

    def has_archive(self) -> bool:
        """Return whether another archive begins here.

        Raises:
            ValidationError: The stream is not compressed with Zstandard, or is truncated.
        """
        self._next_block = self._read_up_to(_BLOCK)
        return self._next_block != b""

    def members(self) -> Iterator[Member]:
        """Yield the members of an archive, and verify their checksums after the last.

        Raises:
            ValidationError: The archive is damaged, truncated or contains what no backup contains. What was
                read of it before must not be used.
        """
        self._checksums.close()
        self._checksums = _Checksums(self._scratch)
        block, position, previous = self._next_block, 0, ""
        while True:
            name, size = _parse_header(block)
            position, image_id = _place(name, size, position, previous)
            member = Member(name, size, image_id, self)
            if name == CHECKSUMS:
                self._verify(member)
                return
            yield member
            block, previous = self._read(_BLOCK), name

    def chunks(self, member: Member) -> Iterator[bytes]:
        """Yield the content of the current member, and note its checksum."""
        digest, left = sha256(), member.size
        while left:
            chunk = self._read(min(left, CHUNK_BYTES))
            digest.update(chunk)
            left -= len(chunk)
            yield chunk
        self._read_padding(member.size)
        self._checksums.add(digest.hexdigest(), member.name)

    def close(self) -> None:
        """Delete the temporary file."""
        self._checksums.close()
        self._file.close()

    def _verify(self, member: Member) -> None:
        """Raise ValidationError unless the checksums of the archive are those of what was read."""
        file, size = self._checksums.rewind()
        if member.size != size:
            raise _invalid(f"{size} bytes of {CHECKSUMS}", f"{member.size} bytes")
        for line in file:
            if self._read(len(line)) != line:
                raise _invalid(f"the checksum of {_name_in(line)} as in {CHECKSUMS}", "a different content")
        self._read_padding(size)
        if self._read(len(_END)) != _END:
            raise _invalid("the end of the archive", "other data")

    def _read_padding(self, size: int) -> None:
        padding = _padding(size)
        if self._read(len(padding)) != padding:
            raise _invalid("zeros after a member", "other data")

    def _read(self, size: int) -> bytes:
        data = self._read_up_to(size)
        if len(data) < size:
            raise _invalid("a whole archive", "a truncated one")
        return data

    def _read_up_to(self, size: int) -> bytes:
        data = bytearray()
        with _translate_stream_errors():
            while len(data) < size and (chunk := self._file.read(size - len(data))):
                data += chunk
        return bytes(data)


class _Checksums:
    """The SHA-256 of the members of an archive, in the format of `sha256sum`."""

    def __init__(self, scratch: Path | None) -> None:
        directory = None if scratch is None else str(scratch)
        self._file = SpooledTemporaryFile(CHECKSUMS_IN_MEMORY_BYTES, dir=directory)  # noqa: SIM115

    def add(self, digest: str, name: str) -> None:
        self._file.write(f"{digest}  {name}\n".encode())

    def rewind(self) -> tuple[SpooledTemporaryFile[bytes], int]:
        """Return the file at its beginning, and its size in bytes."""
        size = self._file.tell()
        self._file.seek(0)
        return self._file, size

    def close(self) -> None:
        self._file.close()


def _parse_header(block: bytes) -> tuple[str, int]:
    """Return the name and the size of a member from a header of a regular file."""
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    except (tarfile.HeaderError, UnicodeDecodeError) as error:
        raise _invalid("the header of a member", "other data") from error
    if header.type != tarfile.REGTYPE:
        raise _invalid("regular files", f"{quote_value(header.name)}, which is none")
    return header.name, header.size


def _place(name: str, size: int, position: int, previous: str) -> tuple[int, ImageId | None]:
    """Return the position of the member after this one among the kinds, and the image whose file this is.

    Raises:
        ValidationError: There is no such member at this place, or it is too large.
    """
    image_id = _image_of(name)
    expected_name = name if image_id is None else IMAGES
    for index, kind in enumerate(_KINDS[position:], position):
        if kind.name == expected_name:
            if not 0 <= size <= kind.max_bytes:
                raise _invalid(f"at most {kind.max_bytes} bytes in {name}", f"{size} bytes")
            if image_id is None:
                return index + 1, None
            if previous.startswith(f"{IMAGES}/") and name <= previous:
                raise _invalid("files of images in ascending order", f"{name} after {previous}")
            return index, image_id
        if kind.is_required:
            raise _invalid(kind.name, quote_value(name))
    raise _invalid("the end of the archive", quote_value(name))


def _image_of(name: str) -> ImageId | None:
    match = _IMAGE_FILE.fullmatch(name)
    if match is None:
        return None
    image_id = match[2]
    return image_id if is_image_id(image_id) and shard(image_id) == match[1] else None


def _padding(size: int) -> bytes:
    return bytes(-size % _BLOCK)


def _name_in(line: bytes) -> str:
    return line.decode().rstrip("\n").partition("  ")[2]


def _invalid(expected: str, received: str) -> ValidationError:
    return ValidationError(f"expected {expected} in the backup but received {received}")


@contextmanager
def _translate_stream_errors() -> Iterator[None]:
    try:
        yield
    except EOFError as error:
        raise _invalid("a whole archive", "a truncated one") from error
    except zstd.ZstdError as error:
        raise _invalid("data compressed with Zstandard", "other or damaged data") from error
