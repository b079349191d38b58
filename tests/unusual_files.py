"""Image files that Pillow does not write: lossless and arithmetic JPEG, any chunks of PNG, frames of GIF."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from attrs import frozen
from PIL import Image


def jpeg_segment(marker: int, content: bytes) -> bytes:
    """Return a segment of a JPEG."""
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def lossless_jpeg(image: Image.Image, *extra_segments: bytes) -> bytes:
    """Return an image of mode `L` or `RGB` as a lossless JPEG (SOF3; ITU-T T.81, annex H).

    Each sample is predicted from the one to its left. Huffman codes of 4 bits stand for the lengths of the
    differences.
    """
    bands = len(image.getbands())
    pixels, stride = image.tobytes(), image.width * bands
    bits: list[str] = []
    for index, sample in enumerate(pixels):
        left, above = index % stride >= bands, index >= stride
        prediction = pixels[index - bands] if left else pixels[index - stride] if above else 128
        difference = sample - prediction
        length = abs(difference).bit_length()
        bits.append(f"{length:04b}")
        if length:
            bits.append(f"{difference + ((1 << length) - 1 if difference < 0 else 0):0{length}b}")
    text = "".join(bits)
    text += "1" * (-len(text) % 8)
    scan = int(text, 2).to_bytes(len(text) // 8, "big").replace(b"\xff", b"\xff\0")
    components = range(1, bands + 1)
    tables = b"".join(bytes((component, 0)) for component in components)
    frame = struct.pack(">BHHB", 8, image.height, image.width, bands)
    return b"".join(
        (
            b"\xff\xd8",
            *extra_segments,
            jpeg_segment(0xC3, frame + b"".join(bytes((component, 0x11, 0)) for component in components)),
            jpeg_segment(0xC4, bytes((0, 0, 0, 0, 9)) + bytes(12) + bytes(range(9))),
            jpeg_segment(0xDA, bytes((bands,)) + tables + b"\1\0\0"),
            scan,
            b"\xff\xd9",
        )
    )


def arithmetic_jpeg(width: int, height: int, *, progressive: bool = False, scan: bytes = b"") -> bytes:
    """Return a grey JPEG with arithmetic coding (SOF9 or SOF10).

    Any bytes but 0xff are a scan, also none: an arithmetic decoder reads zeros after the end (ITU-T
    T.81, D.1.8).
    """
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0"
    last_coefficient = 0 if progressive else 63
    return b"".join(
        (
            b"\xff\xd8",
            jpeg_segment(0xDB, bytes((0, *(16,) * 64))),
            jpeg_segment(0xCA if progressive else 0xC9, frame),
            jpeg_segment(0xDA, bytes((1, 1, 0, 0, last_coefficient, 0))),
            scan,
            b"\xff\xd9",
        )
    )


def png_chunks(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield the type of each chunk of a PNG, and the offset of its checksum."""
    offset = 8
    while offset < len(data):
        checksum = offset + 8 + int.from_bytes(data[offset : offset + 4], "big")
        yield data[offset + 4 : offset + 8], checksum
        offset = checksum + 4


def with_bad_checksum(data: bytes, offset: int, flip: int = 1) -> bytes:
    """Return a PNG with bits of the checksum at `offset` inverted.

    Args:
        data: A valid PNG.
        offset: Offset of a checksum.
        flip: The bits to invert, 1 to 2**32 - 1.
    """
    checksum = int.from_bytes(data[offset : offset + 4], "big") ^ flip
    return data[:offset] + checksum.to_bytes(4, "big") + data[offset + 4 :]


PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Samples of a pixel by colour type."""


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png_of_samples(
    rows: Sequence[Sequence[int]], colour_type: int, depth: int, *chunks: tuple[bytes, bytes]
) -> bytes:
    """Return a PNG of rows of samples, with more chunks before its pixels."""
    width = len(rows[0]) // PNG_CHANNELS[colour_type]
    data = b""
    for row in rows:
        bits = "".join(f"{sample:0{depth}b}" for sample in row)
        bits += "0" * (-len(bits) % 8)
        data += b"\0" + int(bits, 2).to_bytes(len(bits) // 8, "big")
    header = struct.pack(">IIBBBBB", width, len(rows), depth, colour_type, 0, 0, 0)
    parts = [(b"IHDR", header), *chunks, (b"IDAT", zlib.compress(data)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(*part) for part in parts)


GIF_COLOURS = ((255, 0, 0, 255), (0, 160, 0, 255), (0, 0, 255, 255), (250, 250, 250, 255))
"""The colour table of `gif`."""


@frozen
class GifFrame:
    """A frame of a GIF: place, indices of pixels in rows, disposal, and delay in hundredths of a second."""

    left: int
    top: int
    width: int
    indices: list[int]
    disposal: int = 0
    delay: int = 10
    transparent: int | None = None
    has_control: bool = True

    @property
    def height(self) -> int:
        return len(self.indices) // self.width


def gif(size: tuple[int, int], frames: list[GifFrame], background: int = 0) -> bytes:
    """Return a GIF of four colours. Its pixels are not compressed: a clear code precedes every second one."""
    parts = [
        b"GIF89a",
        struct.pack("<2H3B", *size, 0x81, background, 0),
        *(bytes(c[:3]) for c in GIF_COLOURS),
    ]
    for frame in frames:
        if frame.has_control:
            flags = frame.disposal << 2 | (frame.transparent is not None)
            parts.append(b"!\xf9\4" + struct.pack("<BHBx", flags, frame.delay, frame.transparent or 0))
        parts.append(b"," + struct.pack("<4HB", frame.left, frame.top, frame.width, frame.height, 0) + b"\2")
        codes = [
            code for n, index in enumerate(frame.indices) for code in ((4, index) if n % 2 == 0 else (index,))
        ]
        bits = sum(code << 3 * position for position, code in enumerate([*codes, 5]))
        data = bits.to_bytes(3 * (len(codes) + 1) // 8 + 1, "little")
        parts += [
            bytes((len(block),)) + block for block in (data[n : n + 255] for n in range(0, len(data), 255))
        ]
        parts.append(b"\0")
    return b"".join((*parts, b";"))
