"""The table of formats agrees with the specification, and content alone tells a format."""

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


def test_jpg_png_webp_and_gif_may_come_in() -> None:
    assert set(UPLOADABLE) == {Format.JPEG, Format.PNG, Format.WEBP, Format.GIF}


def test_webp_and_gif_are_written_animated() -> None:
    assert {fmt for fmt, traits in FORMATS.items() if traits.animated} == {Format.WEBP, Format.GIF}


def test_quality_means_nothing_for_png_and_gif() -> None:
    assert {fmt for fmt, traits in FORMATS.items() if not traits.has_quality} == {Format.PNG, Format.GIF}


def test_jpeg_alone_holds_no_transparency() -> None:
    assert {fmt for fmt, traits in FORMATS.items() if not traits.has_alpha} == {Format.JPEG}


def test_extensions_are_those_of_the_contract() -> None:
    assert set(BY_EXTENSION) == {"jpg", "jpeg", "png", "webp", "avif", "gif"}
    assert {traits.extensions[0] for traits in FORMATS.values()} == {"jpg", "png", "webp", "avif", "gif"}


@pytest.mark.parametrize("fmt", Format)
def test_a_format_has_its_registered_media_type_and_reads_its_own_extensions(fmt: Format) -> None:
    traits = FORMATS[fmt]
    assert traits.media_type == f"image/{fmt.value}"
    assert {BY_EXTENSION[extension] for extension in traits.extensions} == {fmt}
    known = {mimetypes.types_map.get(f".{extension}", traits.media_type) for extension in traits.extensions}
    assert known == {traits.media_type}


@pytest.mark.parametrize(("fmt", "head"), [(fmt, head) for fmt, heads in HEADS.items() for head in heads])
def test_a_file_is_told_by_its_first_bytes(fmt: Format, head: bytes) -> None:
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
def test_anything_else_may_not_come_in(head: bytes) -> None:
    assert sniff(head) is None


@given(st.binary(max_size=32))
def test_no_bytes_are_ever_too_odd_to_look_at(head: bytes) -> None:
    assert sniff(head) in {None, *UPLOADABLE}
    assert sniff(head) is sniff(head[:SNIFF_BYTES])
