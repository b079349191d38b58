"""The metadata of an image file as blocks of bytes: EXIF, XMP and IPTC, without the wrapping of the format.

In JPEG, XMP and IPTC can be divided into several segments. In PNG they are texts, which can be compressed,
and those of ImageMagick are hexadecimal. Every block has at most 4 MiB, also after decompression.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

from attrs import frozen

from imagehost_core.formats import Format
from imagehost_core.headers.header import MAX_METADATA_BYTES, ImageHeader, MetadataKind
from imagehost_core.headers.reader import HeaderReader
from imagehost_core.headers.xmp import XMP_EXTENSION_LABEL, XMP_LABEL

_XMP_EXTENSION_HEADER = len(XMP_EXTENSION_LABEL) + 32 + 4 + 4
"""Bytes before a part of a long packet: the label, its hash, its length, and the offset (XMP part 3)."""
_IPTC_LABEL = b"Photoshop 3.0\0"
IPTC_RESOURCE = 0x0404
"""The number of IPTC among the image resources of Photoshop."""
_RAW_PROFILE = b"Raw profile type "
_NO_DIGIT = re.compile(rb"[^0-9A-Fa-f]")


@frozen
class MetadataBlocks:
    """The metadata of an image file; empty for what it does not have.

    Attributes:
        exif: The first EXIF block.
        xmp: The XMP packets, one after the other.
        iptc: The image resources that contain IPTC, one after the other; or its data sets alone.
    """

    exif: bytes = b""
    xmp: bytes = b""
    iptc: bytes = b""


def read_exif(reader: HeaderReader, header: ImageHeader) -> bytes:
    """Return the first EXIF block of a file with a header, or no bytes."""
    spans = (span for span in header.metadata_spans if span[0] is MetadataKind.EXIF)
    return next((_unwrapped(reader, header, start, end) for _, start, end in spans), b"")


def _unwrapped(reader: HeaderReader, header: ImageHeader, start: int, end: int) -> bytes:
    return _UNWRAP.get(header.format, _unchanged)(reader, start, end)[:MAX_METADATA_BYTES]


def read_blocks(reader: HeaderReader, header: ImageHeader) -> MetadataBlocks:
    """Return the metadata of a file.

    Args:
        reader: The file.
        header: Its header.
    """
    blocks: dict[MetadataKind, bytes] = {}
    for kind, start, end in header.metadata_spans:
        block = blocks.get(kind, b"")
        if kind is MetadataKind.ICC or (kind is MetadataKind.EXIF and block):
            continue
        blocks[kind] = (block + _unwrapped(reader, header, start, end))[:MAX_METADATA_BYTES]
    return MetadataBlocks(*(blocks.get(kind, b"") for kind in _KINDS))


_KINDS = (MetadataKind.EXIF, MetadataKind.XMP, MetadataKind.IPTC)


def _unchanged(reader: HeaderReader, start: int, end: int) -> bytes:
    return reader.peek(start, min(end - start, MAX_METADATA_BYTES))


def _jpeg(reader: HeaderReader, start: int, end: int) -> bytes:
    """Return the content of a segment without its label."""
    segment = _unchanged(reader, start, end)
    if segment.startswith(XMP_EXTENSION_LABEL):
        return segment[_XMP_EXTENSION_HEADER:]
    return segment.removeprefix(XMP_LABEL).removeprefix(_IPTC_LABEL)


def _png(reader: HeaderReader, start: int, end: int) -> bytes:
    """Return the content of a chunk, or of its text."""
    return png_text(reader.peek(start - 4, 4), _unchanged(reader, start, end))


def png_text(kind: bytes, chunk: bytes) -> bytes:
    """Return the text of a text chunk of a PNG, inflated; another chunk unchanged.

    Args:
        kind: The type of the chunk.
        chunk: Its content.
    """
    keyword, _, text = chunk.partition(b"\0")
    if kind == b"zTXt":
        text = inflate(text[1:])
    elif kind == b"iTXt":
        is_compressed = text[:1] == b"\1"
        # After the compression's flag and method: the language, and the translated keyword.
        text = text[2:].partition(b"\0")[2].partition(b"\0")[2]
        text = inflate(text) if is_compressed else text
    elif kind != b"tEXt":
        return chunk
    return _raw_profile(text) if keyword.startswith(_RAW_PROFILE) else text


def inflate(data: bytes) -> bytes:
    """Return decompressed metadata, at most `MAX_METADATA_BYTES`; nothing if it is malformed."""
    try:
        return zlib.decompressobj().decompress(data, MAX_METADATA_BYTES)
    except zlib.error:
        return b""


def _raw_profile(text: bytes) -> bytes:
    """Return the bytes of a profile that ImageMagick has written: name, length, and hexadecimal digits."""
    parts = text.split(None, 2)
    digits = _NO_DIGIT.sub(b"", parts[2]) if len(parts) == 3 else b""
    data = bytes.fromhex(digits[: len(digits) // 2 * 2].decode())
    return data.removeprefix(XMP_LABEL)


_UNWRAP: dict[Format, Callable[[HeaderReader, int, int], bytes]] = {Format.JPEG: _jpeg, Format.PNG: _png}
"""Formats that wrap metadata. WebP has it as it is, and so has GIF, after the name of the extension."""


MAX_TEXT = 200
"""The most characters of a text."""


def one_line(text: str) -> str:
    """Return a text in one line of at most `MAX_TEXT` characters, without those that cannot be printed."""
    words = "".join(character if character.isprintable() else " " for character in text).split()
    return " ".join(words)[:MAX_TEXT].strip()


def decode(raw: bytes) -> str:
    """Return a text in UTF-8, or in Latin-1 if it is none."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
