"""ZIP archives that are written while they are sent (PKWARE's APPNOTE.TXT, version 6.3.10).

Nothing is compressed, because images are already. The size and the CRC-32 of a file come before its data, and
not in a data descriptor behind it: programs that read an archive as a stream cannot tell where a stored file
ends otherwise. Names are such as Windows can write, and times are in UTC.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import chain, count
from typing import IO
from unicodedata import normalize

from attrs import define, field

from imagehost_core.uploads import with_suffix

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR_64 = struct.Struct("<4sIQI")
_OFFSET_64 = struct.Struct("<2HQ")
"""The extra field of ZIP64 (4.5.3) of a file whose header is behind the first 4 GiB."""
_TIME = struct.Struct("<2HBI")
"""Info-ZIP's extended timestamp: the time of the last change, in seconds since 1970 in UTC."""
_MAX_16 = 0xFFFF
_MAX_32 = 0xFFFF_FFFF
_STORED, _VERSION, _VERSION_64, _UNIX = 0, 20, 45, 3 << 8
_UTF_8 = 0x800
"""The flag of names in UTF-8."""
_MODE = 0o100644 << 16
"""The mode of a regular file, as Unix programs write it."""
_EARLIEST = datetime(1980, 1, 1, tzinfo=UTC)
_LATEST = datetime(2107, 12, 31, 23, 59, 58, tzinfo=UTC)
"""The times that the format knows."""

_UNWRITABLE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]|[. ](?=[. ]*$)')
"""What a name of a file of Windows cannot contain, or end in."""
_DEVICES = re.compile(r"(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]) *(\.|$)", re.IGNORECASE)
"""Names that Windows reserves for devices, with any extension."""


def portable_name(name: str) -> str:
    """Return a file name that every system can write, with `_` for what one cannot.

    Args:
        name: A name of at least one character.
    """
    written = _UNWRITABLE.sub("_", name)
    return with_suffix(f"_{written}" if _DEVICES.match(written) else written, "")


@define
class ArchiveNames:
    """The names of an archive, which differ without regard to case and to the form of accents.

    So Windows and macOS, which do not tell such names apart, keep all files.
    """

    # Hashes take half of the memory of names. Where two names have one, the second is treated as taken.
    _taken: set[int] = field(factory=set)

    def add(self, name: str, suffix: str) -> str:
        """Return a portable name that is not taken, and take it.

        Args:
            name: The name of a file.
            suffix: What its stem has at the end if the name is taken.
        """
        name = portable_name(name)
        suffixes = chain(("", f"-{suffix}"), (f"-{suffix}-{number}" for number in count(2)))
        candidates = ((each, hash(_folded(each))) for each in (with_suffix(name, end) for end in suffixes))
        free, key = next(each for each in candidates if each[1] not in self._taken)
        self._taken.add(key)
        return free


def _folded(name: str) -> str:
    """Return a key of names that are equal by Unicode's canonical caseless matching (D145)."""
    return normalize("NFD", normalize("NFD", name).casefold())


@define
class ZipWriter:
    """The headers of an archive.

    Attributes:
        directory: An empty file for the central directory.
        size: The bytes of the archive so far.
        count: The number of its files.
    """

    directory: IO[bytes]
    size: int = 0
    count: int = 0

    def add(self, name: str, modified_at: datetime, size: int, checksum: int) -> bytes:
        """Return the header of a file, whose data follows.

        Args:
            name: Its name.
            modified_at: Its time.
            size: Its size in bytes, below 4 GiB.
            checksum: Its CRC-32.
        """
        encoded = name.encode()
        flags = 0 if name.isascii() else _UTF_8
        time = min(max(modified_at.astimezone(UTC), _EARLIEST), _LATEST)
        days = (time.year - 1980) << 9 | time.month << 5 | time.day
        seconds = time.hour << 11 | time.minute << 5 | time.second // 2
        sizes = checksum, size, size
        extra = _TIME.pack(0x5455, 5, 1, int(time.timestamp()) & _MAX_32)
        header = _LOCAL.pack(
            b"PK\3\4", _VERSION, flags, _STORED, seconds, days, *sizes, len(encoded), len(extra)
        )
        header += encoded + extra
        version = _VERSION
        if self.size >= _MAX_32:
            version = _VERSION_64
            extra += _OFFSET_64.pack(1, 8, self.size)
        self.directory.write(
            _CENTRAL.pack(
                b"PK\1\2", _UNIX | version, version, flags, _STORED, seconds, days, *sizes, len(encoded),
                len(extra), 0, 0, 0, _MODE, min(self.size, _MAX_32),
            )
            + encoded
            + extra
        )  # fmt: skip
        self.size += len(header) + size
        self.count += 1
        return header

    def end(self, piece_bytes: int) -> Iterator[bytes]:
        """Yield the central directory and the end of the archive.

        Args:
            piece_bytes: The bytes to read at a time.
        """
        start = self.size
        length = self.directory.tell()
        self.directory.seek(0)
        while piece := self.directory.read(piece_bytes):
            yield piece
        if self.count >= _MAX_16 or start >= _MAX_32 or length >= _MAX_32:
            counts = self.count, self.count, length, start
            yield _END_64.pack(b"PK\6\6", 44, _UNIX | _VERSION_64, _VERSION_64, 0, 0, *counts)
            yield _LOCATOR_64.pack(b"PK\6\7", 0, start + length, 1)
        files = min(self.count, _MAX_16)
        yield _END.pack(b"PK\5\6", 0, 0, files, files, min(length, _MAX_32), min(start, _MAX_32), 0)
