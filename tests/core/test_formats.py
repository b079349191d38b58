"""The table of formats, and format detection from content."""

from __future__ import annotations

import mimetypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.formats import BY_EXTENSION, FORMATS, SNIFF_BYTES, UPLOADABLE, Format, sniff

HEADS = {
    Format.JPEG: [b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01", b"\xff\xd8\xff\xdb", b"\xff\xd8\xff\xe1"],
    Format.PNG: [b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"],
    Format.GIF: [b"GIF89a\x01\x00\x01\x00", b"GIF87a"],
    Format.WEBP: [b"RIFF\x24\x00\x00\x00WEBPVP8 ", b"RIFF\xff\xff\xff\xffWEBP"],
}


def test_jpeg_png_webp_and_gif_can_be_uploaded() -> None:
    assert set(UPLOADABLE) == {Format.JPEG, Format.PNG, Format.WEBP, Format.GIF}


def test_webp_and_gif_are_encoded_animated() -> None:
    assert {fmt for fmt, info in FORMATS.items() if info.animated} == {Format.WEBP, Format.GIF}


def test_png_and_gif_have_no_quality_setting() -> None:
    assert {fmt for fmt, info in FORMATS.items() if not info.has_quality} == {Format.PNG, Format.GIF}


def test_only_jpeg_has_no_transparency() -> None:
    assert {fmt for fmt, info in FORMATS.items() if not info.has_alpha} == {Format.JPEG}


def test_the_extensions_are_as_documented() -> None:
    assert set(BY_EXTENSION) == {"jpg", "jpeg", "png", "webp", "avif", "gif"}
    assert {info.extensions[0] for info in FORMATS.values()} == {"jpg", "png", "webp", "avif", "gif"}


@pytest.mark.parametrize("fmt", Format)
def test_media_type_and_extensions_of_a_format_agree(fmt: Format) -> None:
    info = FORMATS[fmt]
    assert info.media_type == f"image/{fmt.value}"
    assert {BY_EXTENSION[extension] for extension in info.extensions} == {fmt}
    registered = {mimetypes.types_map.get(f".{extension}", info.media_type) for extension in info.extensions}
    assert registered == {info.media_type}


@pytest.mark.parametrize(("fmt", "head"), [(fmt, head) for fmt, heads in HEADS.items() for head in heads])
def test_a_format_is_detected_from_the_first_bytes(fmt: Format, head: bytes) -> None:
    assert sniff(head) is fmt
    assert sniff(head[:SNIFF_BYTES] + b"\0" * 100) is fmt


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\xff",
        b"\xff\xd8",
        b"\xff\xd8\x00",
        b"\x89PNG",
        b"\x89PNG\n\x1a\n",
        b"PNG\r\n\x1a\n",
        b"GIF88a",
        b"gif89a",
        b"RIFF\x24\x00\x00\x00WAVEfmt ",
        b"RIFFWEBP",
        b"RIFF\x24\x00\x00\x00WEB",
        b"\x00RIFF\x00\x00\x00WEBP",
        b"<svg xmlns=",
        b"<?xml version='1.0'?><svg",
        b"%PDF-1.7",
        b"BM\x00\x00",
        b"II*\x00",
        b"MM\x00*",
        b"\x00\x00\x00\x20ftypavif",
        b"\x00\x00\x00\x20ftypheic",
        b"\xff\x0a",
        b"PK\x03\x04",
        b"<html>",
        b" \xff\xd8\xff",
    ],
)
def test_other_content_is_not_detected(head: bytes) -> None:
    assert sniff(head) is None


@given(st.binary(max_size=32))
def test_any_bytes_are_classified_by_the_first_16(head: bytes) -> None:
    assert sniff(head) in {None, *UPLOADABLE}
    assert sniff(head) is sniff(head[:SNIFF_BYTES])
