"""A file with more than 4 MiB of metadata is accepted: the largest kinds are dropped, the rest is kept."""

from __future__ import annotations

import struct
import zlib
from io import BytesIO
from random import Random
from typing import Any

import pytest
from PIL import Image as PILImage
from tests.core.pixels.conftest import ImageFactory
from tests.oriented_files import LABEL, exif
from tests.unusual_files import jpeg_segment, png_chunk

from imagehost_core import ImageHost, inspect, render
from imagehost_core.headers.header import MAX_METADATA_BYTES
from imagehost_core.headers.scanner import scan

PROFILE = ImageFactory().icc_profile()
NOISE = Random(1).randbytes(64)
SMALL, LARGE = 1_000, MAX_METADATA_BYTES
XMP = b'<x:xmpmeta xmpNote:HasExtendedXMP="0123456789ABCDEF" dc:creator="A person" GDepth:Mime="image/png"/>'


def encode(fmt: str, **options: Any) -> bytes:
    file = BytesIO()
    block = LABEL * (fmt == "JPEG") + exif(6)
    ImageFactory().photo(40, 30).save(file, fmt, icc_profile=PROFILE, exif=block, **options)
    return file.getvalue()


def jpeg(marker: int, label: bytes, size: int) -> bytes:
    """Return a JPEG with metadata of a label in as many segments as they need."""
    count = -(-size // 60_000)
    segments = b"".join(jpeg_segment(marker, label + bytes(min(size, 60_000))) for _ in range(count))
    data = encode("JPEG", quality=90)
    return data[:2] + jpeg_segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0" + XMP) + segments + data[2:]


def png(kind: bytes, content: bytes, size: int) -> bytes:
    data = encode("PNG")
    return data[:33] + png_chunk(kind, content + bytes(size)) + data[33:]


def webp(fourcc: bytes, size: int) -> bytes:
    data = encode("WEBP", quality=90)
    flags = bytes([data[20] | (0x04 if fourcc == b"XMP " else 0)])
    body = data[8:20] + flags + data[21:] + fourcc + struct.pack("<I", size) + bytes(size)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def gif(size: int) -> bytes:
    data = encode("GIF")
    start = 13 + (3 << (data[10] & 7) + 1)
    return data[:start] + b"!\xfe" + (b"\xff" + bytes(255)) * (size // 255) + b"\0" + data[start:]


FILES = {
    "JPEG, extended XMP": lambda size: jpeg(0xE1, b"http://ns.adobe.com/xmp/extension/\0", size),
    "JPEG, comments": lambda size: jpeg(0xFE, b"", size),
    "JPEG, JUMBF": lambda size: jpeg(0xEB, b"JP\0", size),
    "JPEG, Photoshop": lambda size: jpeg(0xED, b"Photoshop 3.0\0", size),
    "PNG, text": lambda size: png(b"tEXt", b"Comment\0", size),
    "PNG, XMP": lambda size: png(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0", size),
    "PNG, unknown chunk": lambda size: png(b"prVt", b"", size),
    "WebP, XMP": lambda size: webp(b"XMP ", size),
    "WebP, unknown chunk": lambda size: webp(b"abcd", size),
    "GIF, comment": gif,
}


def read(host: ImageHost, path: str, query: str = "") -> bytes:
    with host.delivery.open(host.delivery.resolve(path, query)) as blob:
        return blob.read()


def pixels(data: bytes) -> bytes:
    return PILImage.open(BytesIO(data)).convert("RGB").tobytes()


@pytest.mark.parametrize("name", FILES)
def test_the_largest_kind_of_metadata_is_dropped(host: ImageHost, name: str) -> None:
    generate = FILES[name]
    small, large = generate(SMALL), generate(LARGE)
    kept = read(host, host.upload(small, owner="admin", convert_to_webp=False).id)
    stored = read(host, host.upload(large, owner="admin", convert_to_webp=False).id)
    assert len(kept) - 1_500 < len(stored) <= len(kept)
    assert pixels(stored) == pixels(kept)
    one, other = (PILImage.open(BytesIO(data)) for data in (kept, stored))
    assert one.info.get("icc_profile") == other.info.get("icc_profile")
    assert dict(one.getexif()) == dict(other.getexif())
    assert scan(BytesIO(stored), len(stored)).end_offset == len(stored)


@pytest.mark.parametrize(
    "options", [{}, {"remove_exif": True}, {"format": "png"}, {"format": "jpeg"}], ids=str
)
@pytest.mark.parametrize("name", FILES)
def test_a_file_with_much_metadata_is_accepted_in_each_way(
    host: ImageHost, name: str, options: dict[str, Any]
) -> None:
    data = FILES[name](LARGE)
    image = host.upload(data, owner="admin", **options)
    assert image.size < 20_000
    assert (image.width, image.height) == ((40, 30) if "GIF" in name else (30, 40))
    assert render(data, w=20).width == 20
    assert (inspect(data).width, inspect(data).height) == (image.width, image.height)


def test_a_packet_without_its_extension_does_not_claim_it(host: ImageHost) -> None:
    generate = FILES["JPEG, extended XMP"]
    small, large = (
        read(host, host.upload(generate(size), owner="admin", convert_to_webp=False).id)
        for size in (SMALL, LARGE)
    )
    assert (b"HasExtendedXMP" in small, b"GDepth" in small) == (True, True)
    assert (b"HasExtendedXMP" in large, b"GDepth" in large) == (False, False)
    assert b'dc:creator="A person"' in large


def test_metadata_up_to_the_limit_are_kept(host: ImageHost) -> None:
    data = png(b"tEXt", b"Comment\0", LARGE - 2_000)
    assert read(host, host.upload(data, owner="admin", convert_to_webp=False).id) == data
    several = (
        data[:33] + png_chunk(b"tEXt", b"Author\0A person") + png_chunk(b"prVt", bytes(3_000)) + data[33:]
    )
    stored = read(host, host.upload(several, owner="admin", convert_to_webp=False).id)
    assert b"Comment" not in stored
    assert b"A person" in stored
    assert b"prVt" in stored


def test_a_profile_is_dropped_last(host: ImageHost) -> None:
    data = encode("PNG")
    size = LARGE - 8_000
    icc = struct.pack(">I32x4s", size, b"acsp") + Random(2).randbytes(size - 40)
    profile, rest = (
        png_chunk(b"iCCP", b"name\0\0" + zlib.compress(icc, 0)),
        png_chunk(b"tEXt", bytes(9_000)),
    )
    start = data.index(b"iCCP") - 4
    data = data[:start] + profile + rest + data[data.index(b"eXIf") - 4 :]
    stored = read(host, host.upload(data, owner="admin", convert_to_webp=False).id)
    assert b"iCCP" in stored
    assert b"eXIf" in stored
    assert b"tEXt" not in stored
