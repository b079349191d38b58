"""A bounded view of a file: random reads and forward searches that hold one page in memory.

A scan moves forward, and a page is read only where the last one does not reach: so a whole scan reads
hardly more bytes than the file has, however often it asks.
"""

from __future__ import annotations

import re
from typing import BinaryIO

from imagehost_core.errors import FieldError, ValidationError, quote_value

PAGE = 256 * 1024
"""Bytes that are read at once and held: few reads for a file of 50 MB, little memory for many scans."""


def damaged_file(expected: str, received: str) -> ValidationError:
    """Return the refusal of a picture whose structure is wrong.

    Contract 2: *422: an image that is recognised but damaged*.
    """
    return ValidationError(errors=[FieldError("image", expected, received)])


def fourcc(code: bytes) -> str:
    """Return a chunk's four-character code as it may be shown."""
    return quote_value(str(code, "latin-1"))


class HeaderReader:
    """The first `size` bytes of a seekable file.

    Args:
        file: The file; offsets count from its very beginning.
        size: Its length in bytes. Nothing beyond is ever read.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.size = size
        self._file = file
        self._page = b""
        self._base = 0
        self._parts = 0

    def count_parts(self, most: int, parts: int = 1) -> None:
        """Count parts (segments, chunks, blocks) of the picture.

        A file of millions of tiny parts is no picture that an encoder writes, but work without end for
        whoever walks it.

        Args:
            most: How many there may be in all.
            parts: How many more there are now.

        Raises:
            ValidationError: There are more.
        """
        self._parts += parts
        if self._parts > most:
            raise damaged_file(f"at most {most:,} parts in the file", f"{self._parts:,} or more")

    def read_exactly(self, offset: int, count: int) -> bytes:
        """Return exactly `count` bytes from `offset`.

        Raises:
            ValidationError: The file ends before.
        """
        data = self.peek(offset, count)
        if len(data) < count:
            raise self.truncated(offset + count)
        return data

    def peek(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes from `offset`: fewer where the file ends."""
        if count > PAGE:
            return self._read(offset, count)
        index = offset - self._base
        if not 0 <= index <= len(self._page) - count:
            self._page, self._base, index = self._read(offset, PAGE), offset, 0
        return self._page[index : index + count]

    def buffer_at(self, offset: int) -> tuple[bytes, int]:
        """Return the page that holds the byte at `offset`, and its index there.

        Raises:
            ValidationError: The file ends before.
        """
        if not self.peek(offset, 1):
            raise self.truncated(offset + 1)
        return self._page, offset - self._base

    def search(self, pattern: re.Pattern[bytes], offset: int, width: int) -> int | None:
        """Return the offset of the next match of `pattern` from `offset` on, or `None`.

        Args:
            pattern: What to look for.
            offset: Where to begin.
            width: How many bytes each match has.
        """
        while len(self.peek(offset, width)) == width:
            match = pattern.search(self._page, offset - self._base)
            if match is not None:
                return self._base + match.start()
            offset = self._base + len(self._page) - width + 1
        return None

    def require_length(self, end: int) -> None:
        """Refuse a file that ends before `end`, without reading up to there.

        Raises:
            ValidationError: It does.
        """
        if end > self.size:
            raise self.truncated(end)

    def truncated(self, end: int) -> ValidationError:
        """Return the refusal of a file that ends before `end`."""
        return damaged_file(
            f"a whole file of at least {end:,} bytes", f"one cut short after {self.size:,} bytes"
        )

    def _read(self, offset: int, count: int) -> bytes:
        wanted = min(count, self.size - offset)
        data = b""
        if wanted > 0:
            self._file.seek(offset)
            while len(data) < wanted and (more := self._file.read(wanted - len(data))):
                data += more
        return data
