"""Image files that Pillow does not write: lossless and arithmetic JPEG, and PNG with bad checksums."""

from __future__ import annotations

import struct
from collections.abc import Iterator

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


def arithmetic_jpeg(width: int, height: int, *, progressive: bool = False) -> bytes:
    """Return a grey JPEG with arithmetic coding (SOF9 or SOF10).

    Its scan is empty: an arithmetic decoder reads zeros after the end of the data (ITU-T T.81, D.1.8).
    """
    frame = struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0"
    last_coefficient = 0 if progressive else 63
    return b"".join(
        (
            b"\xff\xd8",
            jpeg_segment(0xDB, bytes((0, *(16,) * 64))),
            jpeg_segment(0xCA if progressive else 0xC9, frame),
            jpeg_segment(0xDA, bytes((1, 1, 0, 0, last_coefficient, 0))),
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
