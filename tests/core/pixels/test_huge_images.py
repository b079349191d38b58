"""Masters of huge images and animations: what is encoded, so that a task stays within its CPU time.

The thresholds are lowered: an image of 25 megapixels would take seconds.
"""

from __future__ import annotations

import io
import os

import pytest
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, IngestResult
from imagehost_core.pixels import master
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.formats import codec, webp
from imagehost_core.pixels.formats.codec import HUGE_PIXELS
from imagehost_core.pixels.formats.png import PngCodec
from imagehost_core.pixels.formats.webp import WebpCodec
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.line_art import sample_tiles

PIXELS = 2048 * 1024


@pytest.fixture
def huge_from_two_megapixels(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (master, codec, webp):
        monkeypatch.setattr(module, "HUGE_PIXELS", PIXELS - 1)


class CountedEncodings:
    """Counts the pixels of each image that is encoded as a master."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pixels: list[int] = []

        def counted(fmt: Format, image: Image.Image, *arguments: int, **options: object) -> bytes:
            self.pixels.append(image.width * image.height)
            return encode(fmt, image, *arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(master, "encode", counted)


def png(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


def jpeg(image: Image.Image, quality: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def photograph() -> Image.Image:
    """Return an image of soft shapes and some noise."""
    small = Image.frombytes("RGB", (64, 32), bytes(64 * 32 * 3 // 2) + os.urandom(64 * 32 * 3 // 2))
    return small.resize((2048, 1024), Image.Resampling.BICUBIC)


def gif(frames: int) -> bytes:
    images = [Image.new("RGB", (100, 100), (20 * index, 255 - index, 80)) for index in range(frames)]
    file = io.BytesIO()
    images[0].save(file, "GIF", save_all=True, append_images=images[1:], duration=50)
    return file.getvalue()


def upload(job: IngestJob, data: bytes) -> tuple[IngestResult, bytes]:
    result, (stored, *_) = ingest(job, data)
    return result, stored


def test_a_huge_image_that_webp_does_not_make_smaller_is_not_encoded(
    huge_from_two_megapixels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = jpeg(Image.frombytes("L", (2048, 1024), os.urandom(PIXELS)), quality=20)
    encoded = CountedEncodings(monkeypatch)
    result, _ = upload(IngestJob(Format.JPEG), data)
    assert (result.format, result.unchanged) == (Format.JPEG, True)
    assert encoded.pixels
    assert max(encoded.pixels) < PIXELS


def test_of_the_encodings_of_huge_line_art_only_the_smallest_is_made(
    huge_from_two_megapixels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = Image.new("RGB", (2048, 1024), "white")
    for offset in range(0, 2048, 8):
        image.paste((0, 0, offset % 256), (offset, 0, offset + 2, 1024))
    encoded = CountedEncodings(monkeypatch)
    result, stored = upload(IngestJob(Format.PNG), png(image))
    assert result.format is Format.WEBP
    assert stored[12:16] == b"VP8L", "lossless is smaller"
    assert [pixels for pixels in encoded.pixels if pixels >= PIXELS] == [PIXELS]


def test_a_huge_photograph_is_converted(huge_from_two_megapixels: None) -> None:
    data = jpeg(photograph(), quality=97)
    result, stored = upload(IngestJob(Format.JPEG), data)
    assert result.format is Format.WEBP
    assert len(stored) < len(data)


@pytest.mark.parametrize(("limit", "stored"), [(99_999, Format.GIF), (100_000, Format.WEBP)])
def test_an_animation_is_converted_up_to_a_number_of_pixels_over_all_frames(
    limit: int, stored: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master, "MAX_CONVERTED_PIXELS", limit)
    data = gif(10)
    result, _ = upload(IngestJob(Format.GIF), data)
    assert (result.format, result.frames) == (stored, 10)
    requested, _ = upload(IngestJob(Format.GIF, requested_format=Format.WEBP), data)
    assert (requested.format, requested.frames) == (Format.WEBP, 10)


@pytest.mark.parametrize("pixels", [HUGE_PIXELS + 1, 100_000_000])
def test_huge_images_are_encoded_with_less_effort(pixels: int) -> None:
    assert CODECS[Format.WEBP].options_for(pixels)["method"] == 2
    assert WebpCodec().animation_options(pixels)["method"] == 1
    assert CODECS[Format.PNG].options_for(pixels)["compress_level"] == 1
    assert CODECS[Format.WEBP].options_for(HUGE_PIXELS)["method"] == 2
    assert WebpCodec().animation_options(HUGE_PIXELS)["method"] == 2
    assert CODECS[Format.PNG].options_for(HUGE_PIXELS)["compress_level"] == 2


def test_a_png_beyond_four_megapixels_is_compressed_like_a_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Level 6 takes 0.66 s a megapixel of a photograph, so 24 megapixels would exceed the CPU time."""
    image = jpeg(photograph(), quality=97)
    job = IngestJob(Format.JPEG, requested_format=Format.PNG)
    _, small = upload(job, image)
    monkeypatch.setattr(PngCodec, "max_master_pixels", PIXELS - 1)
    _, large = upload(job, image)
    assert len(small) < len(large)
    assert CODECS[Format.JPEG].max_master_pixels == HUGE_PIXELS


def test_the_sample_of_an_image_has_tiles_of_all_its_parts() -> None:
    image = Image.new("RGB", (4096, 6000))
    for row in range(4):
        for column in range(4):
            image.paste(
                (row * 60, column * 60, 9),
                (column * 1024, row * 1500, column * 1024 + 1024, row * 1500 + 1500),
            )
    sample = sample_tiles(image, master.TILE_SIDE)
    assert sample.size == (1024, 1024)
    assert sample.getcolors() is not None
    colours = {colour: count for count, colour in sample.getcolors() or []}
    assert colours == {(row * 60, column * 60, 9): 256 * 256 for row in range(4) for column in range(4)}


def test_the_sample_is_never_larger_than_the_image() -> None:
    assert sample_tiles(Image.new("RGB", (16_384, 600)), master.TILE_SIDE).size == (1024, 600)
