"""Metadata goes, pixels and profile stay, byte by byte, in each of the four formats."""

from __future__ import annotations

import re
from typing import Any

import pytest
from PIL import Image, PngImagePlugin

from imagehost_core.formats import Format
from imagehost_core.pixels.strip_metadata import strip_metadata

SECRET = b"made by somebody"
XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/">' + SECRET + b"</x:xmpmeta>"
PHOTOSHOP = b"Photoshop 3.0\x008BIM\x04\x04\0\0\0\0\0\x10" + SECRET


def exif() -> Image.Exif:
    made = Image.Exif()
    made[0x010F] = SECRET.decode()
    return made


def full(studio: Any, fmt: Format) -> bytes:
    """A file with everything in it that a format can carry."""
    image, profile = studio.noise(), studio.profile()
    data: bytes
    if fmt is Format.JPEG:
        data = studio.file(
            image, fmt, exif=exif(), xmp=XMP, icc_profile=profile, comment=SECRET, progressive=True
        )
        at = data.index(b"\xff\xdb")
        segment = b"\xff\xed" + (len(PHOTOSHOP) + 2).to_bytes(2, "big") + PHOTOSHOP
        return data[:at] + segment + b"\xff" + data[at:]  # a fill byte may stand before any marker
    if fmt is Format.PNG:
        text = PngImagePlugin.PngInfo()
        text.add_text("Author", SECRET.decode())
        text.add_text("Long", SECRET.decode(), zip=True)
        text.add_itxt("XML:com.adobe.xmp", XMP.decode())
        data = studio.file(image, fmt, exif=exif(), icc_profile=profile, pnginfo=text)
    elif fmt is Format.WEBP:
        data = studio.file(image, fmt, exif=exif().tobytes(), xmp=XMP, icc_profile=profile, lossless=True)
    else:
        data = studio.animation(fmt, comment=SECRET, loop=2)
        at = data.index(b"\x21\xff\x0bNETSCAPE2.0")
        packet = b"\x21\xff\x0bXMP DataXMP" + bytes([len(XMP)]) + XMP + b"\0"
        return data[:at] + packet + data[at:]
    return data


@pytest.mark.parametrize("fmt", [Format.JPEG, Format.PNG, Format.WEBP, Format.GIF])
def test_secrets_go_and_the_picture_stays(studio: Any, fmt: Format) -> None:
    data = full(studio, fmt)
    bare = strip_metadata(fmt, data)
    assert SECRET in data
    assert SECRET not in bare
    before, after = studio.opened(data), studio.opened(bare)
    assert after.tobytes() == before.tobytes()
    assert after.info.get("icc_profile") == before.info.get("icc_profile")
    assert after.info.get("loop") == before.info.get("loop")
    assert not dict(after.getexif())


@pytest.mark.parametrize("fmt", [Format.JPEG, Format.PNG, Format.WEBP, Format.GIF])
def test_stripping_twice_changes_nothing_more(studio: Any, fmt: Format) -> None:
    bare = strip_metadata(fmt, full(studio, fmt))
    assert strip_metadata(fmt, bare) == bare


def test_the_animation_of_a_webp_stays(studio: Any) -> None:
    data = studio.animation(Format.WEBP, exif=exif().tobytes())
    bare = strip_metadata(Format.WEBP, data)
    assert SECRET not in bare
    assert getattr(studio.opened(bare), "n_frames", 1) == 4


@pytest.mark.parametrize(
    ("fmt", "pattern", "replacement"),
    [(Format.JPEG, b"\xff\xdb", b"\x00\xdb"), (Format.GIF, rb"\x21\xf9\x04", b"\x99\xf9\x04")],
)
def test_a_file_not_built_as_its_format_says_is_a_value_error(
    studio: Any, fmt: Format, pattern: bytes, replacement: bytes
) -> None:
    data = studio.file(studio.noise(), fmt) if fmt is Format.JPEG else studio.animation(fmt)
    with pytest.raises(ValueError, match="expected"):
        strip_metadata(fmt, re.sub(pattern, replacement, data, count=1))
