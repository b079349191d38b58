"""Removal of EXIF, XMP, IPTC and comments from a file without re-encoding its pixels.

Everything that decoders do not need to show the same image is removed: comments, timestamps, previews, maker
notes, and bytes between the segments of a JPEG and the blocks of a GIF. The ICC profile stays.

Of more metadata than `MAX_METADATA_BYTES`, only the largest kinds are removed, until the rest fits.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator

from imagehost_core.formats import Format
from imagehost_core.headers.header import MAX_METADATA_BYTES
from imagehost_core.pixels.gif import (
    APPLICATION,
    EXTENSION,
    GRAPHIC_CONTROL,
    LOOP_COUNTS,
    SCREEN_BYTES,
    TRAILER,
    colour_table_bytes,
    iter_blocks,
)
from imagehost_core.pixels.png import SIGNATURE_BYTES, iter_chunks


def strip_metadata(fmt: Format, data: bytes) -> bytes:
    """Return the file without metadata.

    Args:
        fmt: JPEG, PNG, WebP or GIF.
        data: A whole file that a decoder has accepted.

    Raises:
        ValueError: The file is malformed.
        IndexError: The file is truncated.
    """
    return _FILTERS[fmt](data, lambda kind, _size: kind in (_SHOWN, _ICC))


def drop_excess_metadata(fmt: Format, data: bytes) -> bytes:
    """Return the file with at most `MAX_METADATA_BYTES` of metadata, or `data` itself.

    The largest kinds are dropped as a whole, EXIF and the ICC profile last.

    Args:
        fmt: JPEG, PNG, WebP or GIF.
        data: A whole file whose structure the header scan has accepted.

    Raises:
        ValueError: The file is malformed.
        IndexError: The file is truncated.
    """
    if len(data) <= MAX_METADATA_BYTES:
        return data
    sizes = Counter[bytes]()

    def count(kind: bytes, size: int) -> bool:
        sizes[kind] += size
        return True

    _FILTERS[fmt](data, count)
    metadata = [kind for kind in sizes if kind not in (_SHOWN, _FURTHER_IMAGES)]
    excess = sum(sizes[kind] for kind in metadata) - MAX_METADATA_BYTES
    dropped = set[bytes]()
    for kind in sorted(metadata, key=lambda kind: (kind == _ICC, kind == _EXIF, -sizes[kind])):
        if excess > 0:
            dropped.add(kind)
            excess -= sizes[kind]
    return _FILTERS[fmt](data, lambda kind, _size: kind not in dropped) if dropped else data


_SHOWN, _ICC, _EXIF, _FURTHER_IMAGES = b"", b"icc", b"exif", b"further images"
"""Kinds of parts of a file: what an image is shown by, metadata, and what follows a JPEG. The kinds of other
metadata are what a format tells them by: a marker, a label, a type, a keyword."""

_IsKept = Callable[[bytes, int], bool]
"""Returns whether a part is kept, by its kind and its size in bytes."""


_JPEG_EOI, _JPEG_SOS, _JPEG_COM = 0xD9, 0xDA, 0xFE
_JPEG_MARKER = re.compile(rb"\xff[\xc0-\xc7\xc9-\xcf\xd8-\xef\xfe]")
"""The markers of segments and of the end; the header scan explains the others. Decoders skip fill bytes, and
other bytes between segments."""
_JPEG_APPS = range(0xE0, 0xF0)
_JPEG_SHOWN_APPS = {0xE0: b"JFIF\0", 0xEE: b"Adobe"}
"""The application segments that affect how the image is shown, by marker, with the start of their content."""
_JPEG_LABELS = {(0xE1, b"Exif"): _EXIF, (0xE2, b"ICC_PROFILE"): _ICC}
_MAX_LABEL = 80
"""The most bytes of a label of a segment, or of the keyword of a PNG's text."""


def _filter_jpeg(data: bytes, is_kept: _IsKept) -> bytes:
    view = memoryview(data)
    parts = [view[:2]]
    offset, in_pixels = 2, False
    while True:
        found = _JPEG_MARKER.search(data, offset)
        if found is None:
            raise ValueError(f"expected a marker after byte {offset} but received none")
        start = found.start()
        if in_pixels:
            parts.append(view[offset:start])
        marker = data[start + 1]
        if marker == _JPEG_EOI:
            end = len(data) if is_kept(_FURTHER_IMAGES, len(data) - start - 2) else start + 2
            parts.append(view[start:end])
            return b"".join(parts)
        offset = start + 2 + max(2, int.from_bytes(data[start + 2 : start + 4], "big"))
        label = data[start + 4 : min(offset, start + 4 + _MAX_LABEL)]
        if is_kept(_jpeg_kind(marker, label), offset - start):
            parts.append(view[start:offset])
        # Metadata can follow after the pixels of each scan.
        in_pixels = marker == _JPEG_SOS


def _jpeg_kind(marker: int, label: bytes) -> bytes:
    if marker == _JPEG_COM:
        return b"comment"
    if marker not in _JPEG_APPS or label.startswith(_JPEG_SHOWN_APPS.get(marker, b"\xff\xff")):
        return _SHOWN
    label = label.partition(b"\0")[0]
    return _JPEG_LABELS.get((marker, label), b"%d %b" % (marker, label))


_PNG_CHUNKS = frozenset(
    b"IHDR PLTE IDAT IEND tRNS acTL fcTL fdAT cICP iCCP sRGB gAMA cHRM mDCV cLLI sBIT bKGD pHYs".split()
)
"""The chunks that affect how the image is shown."""


_PNG_KINDS = {**dict.fromkeys(_PNG_CHUNKS, _SHOWN), b"iCCP": _ICC, b"eXIf": _EXIF}
_PNG_TEXTS = (b"tEXt", b"zTXt", b"iTXt")


def _filter_png(data: bytes, is_kept: _IsKept) -> bytes:
    # Neighbours are one span: a file can have 190,000 chunks.
    spans = [(0, SIGNATURE_BYTES)]
    for fourcc, start, end in iter_chunks(data):
        kind = _PNG_KINDS.get(fourcc, fourcc)
        if kind in _PNG_TEXTS:
            kind += data[start + 8 : min(end - 4, start + 8 + _MAX_LABEL)].partition(b"\0")[0]
        if is_kept(kind, end - start):
            first, last = spans[-1]
            if last == start:
                spans[-1] = (first, end)
            else:
                spans.append((start, end))
    return b"".join(data[start:end] for start, end in spans)


_WEBP_KINDS = {
    **dict.fromkeys((b"VP8X", b"VP8 ", b"VP8L", b"ALPH", b"ANIM", b"ANMF"), _SHOWN),
    b"ICCP": _ICC,
    b"EXIF": _EXIF,
}
_WEBP_FLAGS = {b"ICCP": 0b0010_0000, b"EXIF": 0b0000_1000, b"XMP ": 0b0000_0100}
"""The VP8X flags of what a file has (RFC 9649, section 2.7)."""


WEBP_HEADER_BYTES = 12
"""Bytes before the first chunk: `RIFF`, size, `WEBP`."""
_WEBP_FRAME_HEADER_BYTES = 16
"""Bytes of an ANMF chunk before those of its frame."""


def _filter_webp(data: bytes, is_kept: _IsKept) -> bytes:
    container = memoryview(data)[: 8 + int.from_bytes(data[4:8], "little")]
    parts = _filter_riff_chunks(container, WEBP_HEADER_BYTES, is_kept)
    size = len(b"WEBP") + sum(map(len, parts))
    return b"".join((b"RIFF", struct.pack("<I", size), b"WEBP", *parts))


def _filter_riff_chunks(data: memoryview, offset: int, is_kept: _IsKept) -> list[bytes | memoryview]:
    """Return the parts of the chunks from an offset that are kept, also within the frames of an animation."""
    chunks = [
        (fourcc, content)
        for fourcc, content in iter_riff_chunks(data, offset)
        if is_kept(_WEBP_KINDS.get(fourcc, fourcc), len(content) + 8)
    ]
    present = {fourcc for fourcc, _ in chunks}
    missing = sum(flag for fourcc, flag in _WEBP_FLAGS.items() if fourcc not in present)
    parts: list[bytes | memoryview] = []
    for fourcc, content in chunks:
        if fourcc == b"ANMF" and offset == WEBP_HEADER_BYTES:
            frame = _filter_riff_chunks(content, _WEBP_FRAME_HEADER_BYTES, is_kept)
            content = memoryview(b"".join((content[:_WEBP_FRAME_HEADER_BYTES], *frame)))
        elif fourcc == b"VP8X":
            content = memoryview(bytes([content[0] & ~missing]) + content[1:])
        parts += fourcc, struct.pack("<I", len(content)), content, bytes(len(content) % 2)
    return parts


def webp_profile(data: bytes) -> bytes | None:
    """Return the ICC profile of a WebP, or `None`."""
    chunks = iter_riff_chunks(memoryview(data), WEBP_HEADER_BYTES)
    return next((bytes(content) for fourcc, content in chunks if fourcc == b"ICCP"), None)


def drop_webp_profile(data: bytes) -> bytes:
    """Return a WebP without its ICC profile."""
    return _filter_webp(data, lambda kind, _size: kind != _ICC)


def iter_riff_chunks(data: memoryview, offset: int) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the type and the content of each chunk from an offset on."""
    while offset + 8 <= len(data):
        length = int.from_bytes(data[offset + 4 : offset + 8], "little")
        yield bytes(data[offset : offset + 4]), data[offset + 8 : offset + 8 + length]
        offset += 8 + length + length % 2


def webp_bitstreams(data: bytes | memoryview, offset: int = WEBP_HEADER_BYTES) -> Iterator[bytes]:
    """Yield `VP8 ` or `VP8L` for each frame of a WebP: whether it was encoded with or without losses."""
    for fourcc, content in iter_riff_chunks(memoryview(data), offset):
        if fourcc == b"ANMF":
            yield from webp_bitstreams(content, _WEBP_FRAME_HEADER_BYTES)
        elif fourcc in (b"VP8 ", b"VP8L"):
            yield fourcc


_GIF_KEPT_APPLICATIONS = (*LOOP_COUNTS, b"ICCRGBG1012")
"""The application extensions that affect how a GIF is shown: loop count and ICC profile."""


def _filter_gif(data: bytes, is_kept: _IsKept) -> bytes:
    parts = [data[: SCREEN_BYTES + colour_table_bytes(data[10])]]
    for begin, end in iter_blocks(data):
        label, application = data[begin + 1 : begin + 2], data[begin + 3 : begin + 14]
        is_extension = data[begin : begin + 1] == EXTENSION
        # At the end of a file, the content of an extension may be missing. With a terminator it would be
        # empty, which the header scan does not accept.
        is_shown = begin + 2 < len(data) and (
            label == GRAPHIC_CONTROL or (label == APPLICATION and application in _GIF_KEPT_APPLICATIONS)
        )
        kind = _SHOWN if is_shown or not is_extension else label + application
        if is_kept(kind, end - begin):
            # The terminator of the last sub-blocks may be missing.
            parts.append(data[begin:end].ljust(end - begin, b"\0"))
    return b"".join((*parts, TRAILER))


_FILTERS: dict[Format, Callable[[bytes, _IsKept], bytes]] = {
    Format.JPEG: _filter_jpeg,
    Format.PNG: _filter_png,
    Format.WEBP: _filter_webp,
    Format.GIF: _filter_gif,
}
