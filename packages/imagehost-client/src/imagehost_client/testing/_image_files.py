"""Image files for tests: size and format from the header, and generators of small PNG and GIF files."""

from __future__ import annotations

import struct
import zlib

from attrs import frozen

from imagehost_client.errors import UnsupportedMediaTypeError, ValidationError

MEDIA_TYPES: dict[str, str] = {
    "jpeg": "image/jpeg",
    "png": "image/png",
    "webp": "image/webp",
    "gif": "image/gif",
}
EXTENSIONS: dict[str, str] = {"jpeg": "jpg", "png": "png", "webp": "webp", "gif": "gif"}

_DISPLAYABLE_FRAMES = {0xC0, 0xC1, 0xC2}
"""The JPEG markers of frames that browsers display (ITU-T T.81, table B.1): Huffman-coded and lossy."""
_FRAMES = _DISPLAYABLE_FRAMES | {0xC3, 0xC9, 0xCA}
"""The JPEG markers of all frames that the host decodes, also lossless and arithmetic ones."""
_HIERARCHICAL_FRAMES = {0xC5, 0xC6, 0xC7, 0xCB, 0xCD, 0xCE, 0xCF}
_PIXEL_CHUNKS = {b"tRNS", b"acTL", b"fcTL", b"fdAT"}
"""The ancillary PNG chunks that are a part of the pixels."""


@frozen
class ImageInfo:
    """Properties of an image, read from its header.

    Attributes:
        length: Bytes up to the end of the image data, where the format tells it; the rest is dropped.
        is_displayable: Whether browsers display the file as it is.
        content: The repaired file, where it differs from the sent one.
    """

    format: str
    width: int
    height: int
    frames: int = 1
    alpha: bool = False
    length: int | None = None
    is_displayable: bool = True
    content: bytes | None = None


def read_image_info(data: bytes, name: str) -> ImageInfo:
    """Return the properties of an image file.

    Args:
        data: The content of the file.
        name: The file name, for errors.

    Raises:
        UnsupportedMediaTypeError: The content is not JPEG, PNG, WebP or GIF.
        ValidationError: The header is corrupt.
    """
    if data.startswith(b"\xff\xd8\xff"):
        reader = _jpeg
    elif data.startswith(b"\x89PNG\r\n\x1a\n"):
        reader = _png
    elif data.startswith((b"GIF87a", b"GIF89a")):
        reader = _gif
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        reader = _webp
    else:
        raise UnsupportedMediaTypeError(
            f"expected JPEG, PNG, WebP or GIF for {name} but received another content"
        )
    try:
        info = reader(data)
    except (struct.error, IndexError, ValueError):
        info = None
    if info is None or info.width < 1 or info.height < 1:
        raise ValidationError(f"expected a complete image for {name} but received a corrupt one")
    return info


def make_png(width: int = 2, height: int = 2, colour: tuple[int, int, int] = (200, 80, 40)) -> bytes:
    """Return a PNG filled with one colour.

    Args:
        width: Pixels.
        height: Pixels.
        colour: Red, green and blue, 0–255.
    """
    rows = (b"\x00" + bytes(colour) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(rows)), _chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def make_gif(frames: int = 2) -> bytes:
    """Return an animated GIF of 1×1 pixel.

    Args:
        frames: The number of frames, from 1.
    """
    header = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + b"\x00\x00\x00\xff\xff\xff"
    frame = b"\x21\xf9\x04\x00\x0a\x00\x00\x00" + b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0)
    return header + (frame + b"\x02\x02\x44\x01\x00") * frames + b"\x3b"


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _png(data: bytes) -> ImageInfo | None:
    width, height, _, colour = struct.unpack(">IIBB", data[16:26])
    if data[12:16] != b"IHDR":
        return None
    at, kind, chunks = 8, b"", [data[:8]]
    while kind != b"IEND":
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        chunks.append(_repaired_chunk(kind, data[at : at + 12 + length]))
        at += 12 + length
    if at > len(data):
        return None
    content = b"".join(chunks)
    repaired = None if content == data[:at] else content
    return ImageInfo("png", width, height, alpha=colour in {4, 6}, length=at, content=repaired)


def _repaired_chunk(kind: bytes, chunk: bytes) -> bytes:
    """Return a PNG chunk with a valid checksum; one of metadata with a bad one becomes empty.

    Raises:
        ValueError: A critical chunk has a bad checksum.
    """
    checksum = struct.pack(">I", zlib.crc32(chunk[4:-4]))
    if chunk[-4:] == checksum:
        return chunk
    if not kind[0] & 0x20:
        raise ValueError("bad checksum")
    return chunk[:-4] + checksum if kind in _PIXEL_CHUNKS else b""


def _gif(data: bytes) -> ImageInfo | None:
    width, height, flags = struct.unpack("<HHB", data[6:11])
    frames, end = _gif_frames(data, 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0))
    return ImageInfo("gif", width, height, frames, length=end) if frames else None


def _gif_frames(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of frames, and the offset after the last block (GIF89a, appendix A)."""
    frames = 0
    while data[at] != 0x3B:
        if data[at] == 0x2C:
            frames += 1
            flags = data[at + 9]
            at += 11 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
        elif data[at] == 0x21:
            at += 2
        else:
            raise ValueError("unknown block")
        while data[at]:
            at += data[at] + 1
        at += 1
    return frames, at + 1


def _jpeg(data: bytes) -> ImageInfo | None:
    at = 2
    while data[at] == 0xFF:
        marker, length = struct.unpack(">BH", data[at + 1 : at + 4])
        if marker in _HIERARCHICAL_FRAMES:
            return None
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", data[at + 5 : at + 9])
            return ImageInfo("jpeg", width, height, is_displayable=marker in _DISPLAYABLE_FRAMES)
        at += 2 + length
    return None


def _webp(data: bytes) -> ImageInfo | None:
    kind, body = data[12:16], data[20:]
    length = 8 + int.from_bytes(data[4:8], "little")
    if kind == b"VP8X":
        width, height = (int.from_bytes(body[at : at + 3], "little") + 1 for at in (4, 7))
        frames = data.count(b"ANMF") if body[0] & 0x02 else 1
        return ImageInfo("webp", width, height, max(frames, 1), bool(body[0] & 0x10), length)
    if kind == b"VP8L":
        bits = int.from_bytes(body[1:5], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        return ImageInfo("webp", width, height, alpha=bool(bits >> 28 & 1), length=length)
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", body[6:10])
        return ImageInfo("webp", width & 0x3FFF, height & 0x3FFF, length=length)
    return None
