"""Uploads that browsers do not display are always re-encoded."""

from __future__ import annotations

from io import BytesIO
from random import Random
from typing import Any

import pytest
from PIL import Image, ImageFile, JpegImagePlugin
from tests.unusual_files import arithmetic_jpeg, jpeg_segment, lossless_jpeg

from imagehost_core.errors import ValidationError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.headers.scanner import scan
from imagehost_core.jobs import IngestJob, IngestResult, RenderJob
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform import Size, Transform, plan

JPEG, PNG, WEBP = Format.JPEG, Format.PNG, Format.WEBP


def stored(data: bytes, **options: Any) -> tuple[IngestResult, bytes]:
    """Ingest a JPEG as an upload; return the result and the master, which browsers must display."""
    header = scan(BytesIO(data), len(data))
    assert not header.is_displayable
    result, (master, *_) = ingest(IngestJob(JPEG, is_displayable=header.is_displayable, **options), data)
    assert not result.unchanged
    assert scan(BytesIO(master), len(master)).is_displayable
    return result, master


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, WEBP),
        ({"quality": 50}, WEBP),
        ({"convert_to_webp": False}, JPEG),
        ({"convert_to_webp": False, "quality": 100}, JPEG),
        ({"convert_to_webp": False, "remove_exif": True}, JPEG),
        ({"requested_format": JPEG}, JPEG),
        ({"requested_format": PNG}, PNG),
        ({"requested_format": WEBP}, WEBP),
    ],
)
def test_a_lossless_jpeg_is_re_encoded(
    factory: Any, mode: str, options: dict[str, Any], expected: Format
) -> None:
    image = factory.photo(64, 48).convert(mode)
    result, master = stored(lossless_jpeg(image), **options)
    assert (result.format, result.size) == (expected, Size(64, 48))
    difference = factory.difference(factory.decode(master), image)
    assert difference <= (0 if expected is PNG else 6 if "quality" in options else 3)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, WEBP), ({"convert_to_webp": False}, JPEG), ({"requested_format": PNG}, PNG)],
)
def test_an_arithmetic_jpeg_is_re_encoded(
    factory: Any, progressive: bool, options: dict[str, Any], expected: Format
) -> None:
    data = arithmetic_jpeg(40, 30, progressive=progressive)
    result, master = stored(data, **options)
    assert (result.format, result.size) == (expected, Size(40, 30))
    assert factory.difference(factory.decode(master), factory.decode(data)) < 3


def test_an_arithmetic_jpeg_of_more_than_a_block_of_pillow_is_read(factory: Any) -> None:
    pixels = bytes(byte % 255 for byte in Random(1).randbytes(9_000))
    data = arithmetic_jpeg(600, 600, scan=pixels)
    # The block ends within the pixels.
    data = data[:2] + jpeg_segment(0xFE, bytes(ImageFile.MAXBLOCK - 500)) + data[2:]
    with pytest.raises(OSError, match="broken data stream"):
        Image.open(BytesIO(data)).load()
    result, master = stored(data, requested_format=PNG)
    assert result.size == Size(600, 600)
    whole = JpegImagePlugin.JpegImageFile(BytesIO(data))
    whole.decodermaxblock = len(data)
    assert factory.difference(factory.decode(master), whole.convert("RGB")) == 0
    # An end that is missing is found by decoding the file twice.
    assert stored(data[:-2], requested_format=PNG)[1] == master


def test_a_rotated_lossless_jpeg_is_upright_without_exif(factory: Any) -> None:
    image = factory.photo(64, 48)
    exif = Image.Exif()
    exif[0x0112] = 6
    data = lossless_jpeg(image, jpeg_segment(0xE1, exif.tobytes()))
    result, master = stored(data, convert_to_webp=False, remove_exif=True)
    assert result.size == Size(48, 64)
    upright = image.transpose(Image.Transpose.ROTATE_270)
    assert factory.difference(factory.decode(master), upright) < 3


def test_a_lossless_jpeg_too_large_for_webp_is_stored_as_jpeg(factory: Any) -> None:
    data = lossless_jpeg(Image.new("L", (FORMATS[WEBP].max_side + 1, 2), 77))
    assert stored(data)[0].format is JPEG
    with pytest.raises(ValidationError, match="16,383"):
        stored(data, requested_format=WEBP)


@pytest.mark.parametrize("fmt", Format)
@pytest.mark.parametrize("width", [1, 10, 64, 128])
def test_the_master_of_a_lossless_jpeg_renders_in_every_format_and_size(
    factory: Any, fmt: Format, width: int
) -> None:
    result, master = stored(lossless_jpeg(factory.photo(64, 48)), convert_to_webp=False)
    job = RenderJob(plan(result.size, Transform(width=width)), fmt, 80 if FORMATS[fmt].has_quality else None)
    _, (variant,) = render(job, result.format, master)
    assert factory.decode(variant).width == width


def test_a_truncated_lossless_jpeg_is_a_validation_error(factory: Any) -> None:
    data = lossless_jpeg(factory.photo(64, 48))
    with pytest.raises(ValidationError):
        ingest(IngestJob(JPEG, is_displayable=False), data[: len(data) // 2])
