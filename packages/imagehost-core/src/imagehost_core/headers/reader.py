"""A bounded view of a file: random reads and forward searches with one page in memory.

A scan moves forward, and a new page is read only when the last one does not contain the requested bytes. So
a whole scan reads little more than the size of the file, however many reads it makes.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from imagehost_core.errors import ValidationError, quote_value

PAGE_BYTES = 256 * 1024
"""Size of a page: few reads for a file of 50 MB, little memory for many concurrent scans."""


def damaged_file(expected: str, received: str) -> ValidationError:
    """Return the error for an image of a supported format whose structure is invalid."""
    return ValidationError.of("image", expected, received)


def fourcc(code: bytes) -> str:
    """Return a chunk's four-character code in quotes, for error messages."""
    return quote_value(str(code, "latin-1"))


class HeaderReader:
    """The first `size` bytes of a seekable file.

    Args:
        file: The file; offsets count from its first byte.
        size: Length in bytes; nothing beyond is read.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.size = size
        self._file = file
        self._page = b""
        self._base = 0
        self._parts = 0

    def until(self, end: int) -> HeaderReader:
        """Return a view of the same file that ends at an offset, at most at that of this one."""
        return HeaderReader(self._file, min(end, self.size))

    def count_parts(self, limit: int, parts: int = 1) -> None:
        """Count parts (segments, chunks, blocks) of the file.

        No encoder writes files of millions of tiny parts, and scanning them would take too long.

        Args:
            limit: The most parts of the file.
            parts: Number of parts to add.

        Raises:
            ValidationError: The file has more parts.
        """
        self._parts += parts
        if self._parts > limit:
            raise damaged_file(f"at most {limit:,} parts in the file", f"{self._parts:,} or more")

    def read_exactly(self, offset: int, count: int) -> bytes:
        """Return exactly `count` bytes from `offset`.

        Raises:
            ValidationError: The file ends before that.
        """
        data = self.peek(offset, count)
        if len(data) < count:
            raise self.truncated(offset + count)
        return data

    def peek(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`: fewer at the end of the file."""
        if count > PAGE_BYTES:
            return self._read(offset, count)
        index = offset - self._base
        if not 0 <= index <= len(self._page) - count:
            self._page, self._base, index = self._read(offset, PAGE_BYTES), offset, 0
        return self._page[index : index + count]

    def buffer_at(self, offset: int) -> tuple[bytes, int]:
        """Return the page that holds the byte at `offset`, and its index there.

        Raises:
            ValidationError: The file ends before that.
        """
        if not self.peek(offset, 1):
            raise self.truncated(offset + 1)
        return self._page, offset - self._base

    def search(self, pattern: re.Pattern[bytes], offset: int, width: int) -> int | None:
        """Return the offset of the next match of `pattern` from `offset` on, or `None`.

        Args:
            pattern: Pattern whose matches all have the same length.
            offset: Offset to start from.
            width: Length of a match in bytes.
        """
        while len(self.peek(offset, width)) == width:
            match = pattern.search(self._page, offset - self._base)
            if match is not None:
                return self._base + match.start()
            offset = self._base + len(self._page) - width + 1
        return None

    def require_length(self, end: int) -> None:
        """Raise ValidationError if the file ends before `end`, without reading up to there."""
        if end > self.size:
            raise self.truncated(end)

    def truncated(self, end: int) -> ValidationError:
        """Return the error for a file that ends before `end`."""
        return damaged_file(
            f"a whole file of at least {end:,} bytes", f"one cut short after {self.size:,} bytes"
        )

    def _read(self, offset: int, count: int) -> bytes:
        remaining = min(count, self.size - offset)
        data = b""
        if remaining > 0:
            self._file.seek(offset)
            while len(data) < remaining and (chunk := self._file.read(remaining - len(data))):
                data += chunk
        return data
