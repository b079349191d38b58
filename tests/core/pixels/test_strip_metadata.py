"""Stripping removes metadata and keeps pixels and colour profile, in each of the four formats."""

from __future__ import annotations

import re
from typing import Any

import pytest
from PIL import Image, PngImagePlugin

from imagehost_core.formats import Format
from imagehost_core.pixels.strip_metadata import strip_metadata

SECRET = b"Jane Doe"
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/">' + SECRET + b"</x:xmpmeta>"
PHOTOSHOP = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x10" + SECRET


def exif() -> Image.Exif:
    tags = Image.Exif()
    tags[0x010F] = SECRET.decode()
    return tags


def with_all_metadata(factory: Any, fmt: Format) -> bytes:
    """Return a file with all kinds of metadata that its format supports."""
    image, profile = factory.noise(), factory.icc_profile()
    data: bytes
    if fmt is Format.JPEG:
        data = factory.encode(
            image, fmt, exif=exif(), xmp=XMP, icc_profile=profile, comment=SECRET, progressive=True
        )
        at = data.index(b"\xff\xdb")
        segment = b"\xff\xed" + (len(PHOTOSHOP) + 2).to_bytes(2, "big") + PHOTOSHOP
        return data[:at] + segment + b"\xff" + data[at:]  # with a fill byte before the next marker
    if fmt is Format.PNG:
        text = PngImagePlugin.PngInfo()
        text.add_text("Author", SECRET.decode())
        text.add_text("Long", SECRET.decode(), zip=True)
        text.add_itxt("XML:com.adobe.xmp", XMP.decode())
        data = factory.encode(image, fmt, exif=exif(), icc_profile=profile, pnginfo=text)
    elif fmt is Format.WEBP:
        data = factory.encode(image, fmt, exif=exif().tobytes(), xmp=XMP, icc_profile=profile, lossless=True)
    else:
        data = factory.animation(fmt, comment=SECRET, loop=2)
        at = data.index(b"\x21\xff\x0bNETSCAPE2.0")
        packet = b"\x21\xff\x0bXMP DataXMP" + bytes([len(XMP)]) + XMP + b"\0"
        return data[:at] + packet + data[at:]
    return data


@pytest.mark.parametrize("fmt", [Format.JPEG, Format.PNG, Format.WEBP, Format.GIF])
def test_metadata_is_removed_and_pixels_and_profile_are_kept(factory: Any, fmt: Format) -> None:
    data = with_all_metadata(factory, fmt)
    stripped = strip_metadata(fmt, data)
    assert SECRET in data
    assert SECRET not in stripped
    before, after = factory.decode(data), factory.decode(stripped)
    assert after.tobytes() == before.tobytes()
    assert after.info.get("icc_profile") == before.info.get("icc_profile")
    assert after.info.get("loop") == before.info.get("loop")
    assert not dict(after.getexif())


@pytest.mark.parametrize("fmt", [Format.JPEG, Format.PNG, Format.WEBP, Format.GIF])
def test_stripping_is_idempotent(factory: Any, fmt: Format) -> None:
    stripped = strip_metadata(fmt, with_all_metadata(factory, fmt))
    assert strip_metadata(fmt, stripped) == stripped


def test_the_frames_of_an_animated_webp_are_kept(factory: Any) -> None:
    data = factory.animation(Format.WEBP, exif=exif().tobytes())
    stripped = strip_metadata(Format.WEBP, data)
    assert SECRET not in stripped
    assert getattr(factory.decode(stripped), "n_frames", 1) == 4


@pytest.mark.parametrize(
    ("fmt", "pattern", "replacement"),
    [(Format.JPEG, b"\xff\xdb", b"\x00\xdb"), (Format.GIF, rb"\x21\xf9\x04", b"\x99\xf9\x04")],
)
def test_a_malformed_file_is_a_value_error(
    factory: Any, fmt: Format, pattern: bytes, replacement: bytes
) -> None:
    data = factory.encode(factory.noise(), fmt) if fmt is Format.JPEG else factory.animation(fmt)
    with pytest.raises(ValueError, match="expected"):
        strip_metadata(fmt, re.sub(pattern, replacement, data, count=1))
