"""Files that cost a scanner or a decoder much time for their size: millions of tiny parts, padding, bombs.

Each generator takes the size of the file, in bytes, and returns at most so many.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

from PIL import Image
from tests.unusual_files import jpeg_segment

SIDE = 16
Generator = Callable[[int], bytes]


def _saved(image: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def _repeat(part: bytes, size: int) -> bytes:
    return part * (size // len(part))


# JPEG.

_COLOUR = Image.new("RGB", (SIDE, SIDE), (200, 30, 40))
_JPEG = _saved(_COLOUR, "JPEG")
_START_OF_SCAN = _JPEG.index(b"\xff\xda")
_SCAN_DATA = _START_OF_SCAN + 2 + int.from_bytes(_JPEG[_START_OF_SCAN + 2 : _START_OF_SCAN + 4], "big")
_END = len(_JPEG) - 2
_RESTARTS = b"".join(bytes((0xFF, code)) for code in range(0xD0, 0xD8))


def _jpeg(part: bytes, offset: int, count: int = 0) -> Generator:
    """Repeat a part at an offset of a small JPEG, `count` times or as often as the size allows."""

    def generate(size: int) -> bytes:
        parts = part * count if count else _repeat(part, size - len(_JPEG))
        return _JPEG[:offset] + parts + _JPEG[offset:]

    return generate


def progressive_jpeg(side: int, scans: int) -> bytes:
    """Return a grey progressive JPEG whose later scans refine all coefficients and change none.

    Each passes over the whole image; its data is runs of empty blocks (ITU-T T.81, G.1.2.3).
    """
    image = _saved(Image.new("L", (side, side), 128), "JPEG", progressive=True)
    start = image.index(b"\xff\xda")
    end = image.index(b"\xff\xc4", start)
    table = jpeg_segment(0xC4, b"\x10\1" + bytes(15) + b"\xe0")
    scan = jpeg_segment(0xDA, bytes((1, 1, 0, 1, 63, 0x10)))
    # A run is 15 bits and spans 2¹⁴ blocks or more.
    data = bytes((side // 8 + 1) ** 2 // 8_192 + 64)
    return image[:end] + (table + scan + data) * (scans - 1) + b"\xff\xd9"


# PNG.


def _chunk(kind: bytes, content: bytes = b"") -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)


def _png(part: bytes = b"", count: int = 0, *, pixels: bytes = b"", after: bool = False) -> Generator:
    """Repeat a chunk before or after the pixels of a small PNG."""

    def generate(size: int) -> bytes:
        head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
        data = _chunk(b"IDAT", pixels or zlib.compress(bytes(SIDE * (SIDE + 1))))
        parts = part * count if count else _repeat(part, size - 200) if part else b""
        chunks = (data, parts) if after else (parts, data)
        return b"".join((b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", head), *chunks, _chunk(b"IEND")))

    return generate


def _zlib_bomb(size: int) -> bytes:
    """Return `size` zeros, a multiple of 1 MiB, compressed: a block of 1 MiB, repeated (RFC 1950, 1951)."""
    compressor = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    block = compressor.compress(bytes(2**20)) + compressor.flush(zlib.Z_FULL_FLUSH)
    checksum = struct.pack(">HH", size % 65_521, 1)
    return b"\x78\xda" + block * (size >> 20) + compressor.flush() + checksum


# GIF.

_FRAME = b"," + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\2\2\x44\1\0"
_CONTROL = b"!\xf9\4\x04\0\0\0\0"


def _gif(before: bytes = b"", after: bytes = b"", count: int = 0, *, screen: int = 1) -> Generator:
    """Repeat blocks before or after the frame of a small GIF."""

    def generate(size: int) -> bytes:
        head = b"GIF89a" + struct.pack("<HHB", screen, screen, 0x80) + b"\0\0" + b"\0\0\0\xff\xff\xff"
        first, last = (
            part * count if count else _repeat(part, size - 99) if part else b"" for part in (before, after)
        )
        return head + first + _FRAME + last + b";"

    return generate


def _gif_blocks(head: bytes) -> Generator:
    """Return a GIF with an extension or a frame of sub-blocks of one byte."""
    return lambda size: _gif(after=head + b"\1a" * (size // 2 - 99) + b"\0", count=1)(size)


# WebP.


def _riff(*chunks: tuple[bytes, bytes]) -> bytes:
    body = b"WEBP" + b"".join(
        kind + struct.pack("<I", len(content)) + content + bytes(len(content) % 2) for kind, content in chunks
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _uint24(value: int) -> bytes:
    return struct.pack("<I", value)[:3]


def _webp(part: bytes, count: int = 0) -> Generator:
    """Append chunks to a small WebP."""

    def generate(size: int) -> bytes:
        parts = part * count if count else _repeat(part, size - 200)
        body = _saved(_COLOUR, "WEBP")[8:] + parts
        return b"RIFF" + struct.pack("<I", len(body)) + body

    return generate


def animated_webp(canvas: int, frames: int) -> Generator:
    """Return an animation of tiny frames on a canvas."""

    def generate(_size: int) -> bytes:
        pixels = _saved(_COLOUR, "WEBP", lossless=True)[12:]
        box = bytes(6) + 2 * _uint24(SIDE - 1) + _uint24(40) + b"\0"
        return _riff(
            (b"VP8X", b"\2\0\0\0" + 2 * _uint24(canvas - 1)),
            (b"ANIM", bytes(6)),
            *[(b"ANMF", box + pixels)] * frames,
        )

    return generate


ACCEPTED = ""

HOSTILE_FILES: dict[str, tuple[Generator, str]] = {
    "JPEG: fill bytes before the tables": (_jpeg(b"\xff", 2), "bytes between the segments"),
    "JPEG: fill bytes before the pixels": (_jpeg(b"\xff", _START_OF_SCAN), "bytes between the segments"),
    "JPEG: fill bytes in the pixels": (_jpeg(b"\xff\xff\xff\0", _SCAN_DATA), "bytes between the segments"),
    "JPEG: fill bytes before the end": (_jpeg(b"\xff", _END), "bytes between the segments"),
    "JPEG: zeros before the pixels": (_jpeg(b"\0", _START_OF_SCAN), "bytes between the segments"),
    "JPEG: stuffed bytes before the pixels": (_jpeg(b"\xff\0", _START_OF_SCAN), "bytes between the segments"),
    "JPEG: stuffed bytes in the pixels": (_jpeg(b"\xff\0", _SCAN_DATA), ACCEPTED),
    "JPEG: restarts before the tables": (_jpeg(b"\xff\xd0", 2), "bytes between the segments"),
    "JPEG: restarts in the pixels": (_jpeg(b"\xff\xd0", _SCAN_DATA), ACCEPTED),
    "JPEG: restarts in order": (_jpeg(_RESTARTS, _SCAN_DATA), ACCEPTED),
    "JPEG: restarts before the end": (_jpeg(b"\xff\xd0", _END), ACCEPTED),
    "JPEG: markers without segment": (_jpeg(b"\xff\1", 2), "bytes between the segments"),
    "JPEG: reserved markers in the pixels": (_jpeg(b"\xff\2", _SCAN_DATA), ACCEPTED),
    "JPEG: empty comments": (_jpeg(jpeg_segment(0xFE, b""), 2), "parts in the file"),
    "JPEG: empty application segments": (_jpeg(jpeg_segment(0xE1, b""), 2), "parts in the file"),
    "JPEG: empty Huffman tables": (_jpeg(jpeg_segment(0xC4, b""), _START_OF_SCAN), "parts in the file"),
    "JPEG: empty quantisation tables": (_jpeg(jpeg_segment(0xDB, b""), _START_OF_SCAN), "parts in the file"),
    "JPEG: 2,000 empty tables": (_jpeg(jpeg_segment(0xC4, b""), _START_OF_SCAN, 2_000), ACCEPTED),
    "JPEG: full quantisation tables": (
        _jpeg(jpeg_segment(0xDB, (b"\0" + b"\1" * 64) * 1_000), _START_OF_SCAN),
        ACCEPTED,
    ),
    "JPEG: numbers of lines": (_jpeg(jpeg_segment(0xDC, b"\0\1"), _END), "parts in the file"),
    "JPEG: restart intervals": (_jpeg(jpeg_segment(0xDD, b"\0\1"), _START_OF_SCAN), "parts in the file"),
    "JPEG: starts of image": (_jpeg(b"\xff\xd8", 2), "one start-of-image marker"),
    "JPEG: empty scans": (_jpeg(jpeg_segment(0xDA, b""), _END), "parts in the file"),
    "JPEG: 101 scans": (lambda _size: progressive_jpeg(SIDE, 101), "at most 100 JPEG scans"),
    "JPEG: 100 scans of 100 megapixels": (lambda _size: progressive_jpeg(10_000, 100), ACCEPTED),
    "JPEG: comments of 64 KiB": (_jpeg(jpeg_segment(0xFE, bytes(65_533)), 2), ACCEPTED),
    "PNG: empty pixel chunks": (_png(_chunk(b"IDAT"), after=True), "parts in the file"),
    "PNG: empty texts": (_png(_chunk(b"tEXt")), "parts in the file"),
    "PNG: 190,000 empty texts": (_png(_chunk(b"tEXt"), 190_000), ACCEPTED),
    "PNG: 190,000 empty pixel chunks": (_png(_chunk(b"IDAT"), 190_000, after=True), ACCEPTED),
    "PNG: 190,000 palettes": (_png(_chunk(b"PLTE", b"abc"), 190_000), ACCEPTED),
    "PNG: unknown chunks": (_png(_chunk(b"abCd")), "parts in the file"),
    "PNG: compressed texts of 1 MiB": (_png(_chunk(b"zTXt", b"a\0\0" + _zlib_bomb(2**20)), 2_000), ACCEPTED),
    "PNG: a compressed profile of 256 MiB": (
        lambda size: _png(_chunk(b"iCCP", b"a\0\0" + _zlib_bomb(2**28)), 1)(size),
        ACCEPTED,
    ),
    "PNG: 256 MiB after the pixels": (lambda size: _png(pixels=_zlib_bomb(2**28))(size), ACCEPTED),
    "GIF: zeros before a frame": (_gif(b"\0"), "bytes between the blocks"),
    "GIF: zeros after a frame": (_gif(after=b"\0"), "bytes between the blocks"),
    "GIF: empty comments": (_gif(b"!\xfe\0"), "parts in the file"),
    "GIF: comments after a frame": (_gif(after=b"!\xfe\1a\0"), "parts in the file"),
    "GIF: graphic controls": (_gif(_CONTROL), "parts in the file"),
    "GIF: a comment of short blocks": (_gif_blocks(b"!\xfe"), "parts in the file"),
    "GIF: pixels of short blocks": (_gif_blocks(_FRAME[:-4]), "parts in the file"),
    "GIF: frames of 1×1": (_gif(after=_FRAME), "parts in the file"),
    "GIF: 40,000 frames of 1×1": (_gif(after=_FRAME, count=40_000), "at most 1,000 frames"),
    "GIF: 999 frames of 1×1 on 387×387": (_gif(after=_CONTROL + _FRAME, count=999, screen=387), ACCEPTED),
    "GIF: 16 frames of 1×1 on 3000×3000": (_gif(after=_CONTROL + _FRAME, count=15, screen=3_000), ACCEPTED),
    "WebP: empty chunks": (_webp(b"abcd" + bytes(4)), "parts in the file"),
    "WebP: 19,000 empty chunks": (_webp(b"abcd" + bytes(4), 19_000), ACCEPTED),
    "WebP: 1,000 frames of 16×16 on 387×387": (animated_webp(387, 1_000), ACCEPTED),
    "WebP: 16 frames of 16×16 on 3000×3000": (animated_webp(3_000, 16), ACCEPTED),
}
"""For each file its generator, and a part of the scan's error, or `ACCEPTED`."""
