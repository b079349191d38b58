"""What is stored of an upload, for each upload option."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.errors import ValidationError
from imagehost_core.formats import FORMATS, UPLOADABLE, Format, sniff
from imagehost_core.jobs import IngestJob, IngestResult
from imagehost_core.pixels.colour import NormalizedImage, to_srgb
from imagehost_core.pixels.ingest import ingest
from imagehost_core.transform import Size

JPEG, PNG, WEBP, GIF = Format.JPEG, Format.PNG, Format.WEBP, Format.GIF
MAKER = b"A maker"


def stored(data: bytes, fmt: Format, **options: Any) -> tuple[IngestResult, bytes, Image.Image]:
    """Ingest an upload; return the result, the master's bytes and the decoded master."""
    ingested, (master, *derivatives) = ingest(IngestJob(fmt, **options), data)
    assert len(derivatives) == len(ingested.derivatives)
    assert ingested.unchanged is (master == b"")
    master = master or data
    assert sniff(master) is ingested.format
    image = Image.open(BytesIO(master))
    image.load()
    return ingested, master, image


def upload(factory: Any, fmt: Format, **options: Any) -> bytes:
    image = factory.photo(120, 90).quantize(64) if fmt is GIF else factory.photo(120, 90)
    data: bytes = factory.encode(image, fmt, **options)
    return data


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_the_same_format_without_other_options_keeps_the_bytes(factory: Any, fmt: Format) -> None:
    data = upload(factory, fmt)
    for options in ({"requested_format": fmt}, {"convert_to_webp": False}):
        ingested, master, _ = stored(data, fmt, **options)
        assert ingested.unchanged
        assert master == data
        assert (ingested.format, ingested.size, ingested.frames) == (fmt, Size(120, 90), 1)


@pytest.mark.parametrize("fmt", UPLOADABLE)
@pytest.mark.parametrize("target", UPLOADABLE)
def test_the_requested_format_is_stored(factory: Any, fmt: Format, target: Format) -> None:
    data = upload(factory, fmt)
    ingested, _, image = stored(data, fmt, requested_format=target)
    assert ingested.format is target
    assert factory.difference(image, factory.decode(data)) < (9 if target is GIF else 6)


def test_a_photograph_becomes_a_webp_by_default(factory: Any) -> None:
    ingested, master, image = stored(data := factory.encode(factory.photo(), JPEG, quality=95), JPEG)
    assert ingested.format is WEBP
    assert len(master) < len(data)
    assert factory.difference(image, factory.photo()) < 3


def test_a_larger_webp_is_stored_only_if_requested(factory: Any) -> None:
    data = factory.encode(factory.noise(), JPEG, quality=5)
    ingested, master, _ = stored(data, JPEG)
    assert (ingested.format, ingested.unchanged) == (JPEG, True)
    ingested, master, _ = stored(data, JPEG, requested_format=WEBP)
    assert ingested.format is WEBP
    assert len(master) > len(data)


@given(
    st.sampled_from(UPLOADABLE),
    st.none() | st.integers(1, 100),
    st.booleans(),
    st.booleans(),
    st.integers(0, 50),
)
def test_without_a_requested_format_no_master_is_larger_than_its_upload(
    factory: Any, fmt: Format, quality: int | None, convert: bool, remove_exif: bool, seed: int
) -> None:
    image = factory.noise(seed=seed) if seed % 2 else factory.photo(seed=seed)
    data = factory.encode(image.quantize(32) if fmt is GIF else image, fmt)
    _, master, _ = stored(data, fmt, quality=quality, convert_to_webp=convert, remove_exif=remove_exif)
    assert len(master) <= len(data)


@pytest.mark.parametrize("fmt", [JPEG, WEBP])
def test_a_quality_re_encodes_the_upload(factory: Any, fmt: Format) -> None:
    data = factory.encode(factory.noise(), fmt, quality=95)
    sizes = [len(stored(data, fmt, requested_format=fmt, quality=quality)[1]) for quality in (10, 50, 90)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3


@pytest.mark.parametrize("fmt", [PNG, GIF])
def test_a_quality_has_no_effect_on_lossless_formats(factory: Any, fmt: Format) -> None:
    assert stored(upload(factory, fmt), fmt, requested_format=fmt, quality=10)[0].unchanged


def test_a_quality_re_encodes_a_jpeg_as_jpeg_without_conversion_to_webp(factory: Any) -> None:
    data = factory.encode(factory.noise(), JPEG, quality=95)
    ingested, master, _ = stored(data, JPEG, convert_to_webp=False, quality=30)
    assert ingested.format is JPEG
    assert len(master) < len(data)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize(
    "options",
    [{"requested_format": WEBP}, {"requested_format": PNG}, {"requested_format": JPEG, "quality": 90}],
)
def test_a_re_encoded_master_is_upright_with_orientation_1(
    factory: Any, orientation: int, options: dict[str, Any]
) -> None:
    data = factory.oriented(factory.photo(64, 48), orientation, quality=95)
    ingested, _, image = stored(data, JPEG, **options)
    assert ingested.size == (Size(48, 64) if orientation > 4 else Size(64, 48))
    assert image.size == (ingested.size.width, ingested.size.height)
    exif = image.getexif()
    assert exif[0x0112] == 1
    assert exif[0x010F] == MAKER.decode()
    again, _, _ = stored(data, JPEG, requested_format=PNG, remove_exif=True)
    assert again.placeholder == ingested.placeholder


@pytest.mark.parametrize("orientation", [1, 3, 6])
@pytest.mark.parametrize("fmt", [JPEG, PNG, WEBP])
def test_removing_exif_keeps_the_visible_orientation_and_the_profile(
    factory: Any, fmt: Format, orientation: int
) -> None:
    profile = factory.icc_profile()
    source = factory.photo(64, 48)
    data = factory.oriented(source, orientation, fmt, icc_profile=profile, quality=95)
    assert MAKER in data
    ingested, master, image = stored(data, fmt, requested_format=fmt, remove_exif=True)
    assert MAKER not in master
    assert not dict(image.getexif())
    assert image.info["icc_profile"] == profile
    method = {1: None, 3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_270}[orientation]
    stored_image = factory.decode(data).convert("RGB")
    assert factory.difference(image, stored_image if method is None else stored_image.transpose(method)) < 2.5
    assert ingested.size == Size(*image.size)


@pytest.mark.parametrize("orientation", [3, 6])
@pytest.mark.parametrize("quality", [40, 75, 95])
def test_a_rotated_jpeg_keeps_its_quantisation_tables(factory: Any, orientation: int, quality: int) -> None:
    data = factory.oriented(factory.photo(64, 48), orientation, quality=quality)
    before = factory.decode(data).quantization
    after = factory.decode(stored(data, JPEG, requested_format=JPEG, remove_exif=True)[1]).quantization
    for index, table in before.items():
        rows = [table[8 * row : 8 * row + 8] for row in range(8)]
        expected = rows if orientation == 3 else zip(*rows, strict=True)
        assert list(after[index]) == [divisor for row in expected for divisor in row]


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_removing_exif_from_a_file_without_exif_keeps_the_bytes(factory: Any, fmt: Format) -> None:
    assert stored(upload(factory, fmt), fmt, requested_format=fmt, remove_exif=True)[0].unchanged


@pytest.mark.parametrize("target", [JPEG, PNG, WEBP])
def test_exif_and_the_colour_profile_are_kept_in_another_format(factory: Any, target: Format) -> None:
    source = PNG if target is JPEG else JPEG
    profile = factory.icc_profile()
    data = factory.oriented(factory.photo(), 1, source, icc_profile=profile)
    _, master, image = stored(data, source, requested_format=target)
    assert image.getexif()[0x010F] == MAKER.decode()
    assert image.info["icc_profile"] == profile
    _, master, image = stored(data, source, requested_format=target, remove_exif=True)
    assert MAKER not in master
    assert image.info["icc_profile"] == profile


@pytest.mark.parametrize("target", [PNG, WEBP])
def test_xmp_is_kept_in_another_format_unless_metadata_is_removed(factory: Any, target: Format) -> None:
    data = factory.encode(factory.photo(), JPEG, xmp=b"<x:xmpmeta>caption</x:xmpmeta>", quality=99)
    assert b"caption" in stored(data, JPEG, requested_format=target)[1]
    assert b"caption" not in stored(data, JPEG, requested_format=target, remove_exif=True)[1]


def test_exif_too_long_for_a_jpeg_segment_is_dropped(factory: Any) -> None:
    exif = Image.Exif()
    exif[0x9286] = b"x" * 70_000
    data = factory.encode(factory.photo(), PNG, exif=exif)
    assert stored(data, PNG, requested_format=JPEG)[0].format is JPEG


def test_line_art_is_stored_as_lossless_webp_if_smaller(factory: Any) -> None:
    drawing = Image.new("RGB", (300, 200), "white")
    for x in range(0, 300, 7):
        drawing.paste((30, 60, 200), (x, 10, x + 3, 190))
    for source in (
        factory.encode(drawing),
        factory.encode(drawing, GIF),
        factory.encode(drawing, WEBP, lossless=True),
    ):
        fmt = sniff(source)
        assert fmt is not None
        _, master, image = stored(source, fmt, requested_format=WEBP, quality=60)
        assert b"VP8L" in master
        assert factory.difference(image, drawing) == 0


def test_a_jpeg_master_shows_transparency_as_white(factory: Any) -> None:
    source = factory.photo(mode="RGBA")
    ingested, _, image = stored(factory.encode(source), PNG, requested_format=JPEG)
    assert not ingested.has_alpha
    assert factory.difference(image, source) < 3
    ingested, _, image = stored(factory.encode(source), PNG)
    assert ingested.has_alpha
    assert image.mode == "RGBA"


@pytest.mark.parametrize("target", [None, WEBP, GIF])
@pytest.mark.parametrize("source", [GIF, WEBP, PNG])
def test_animation_is_kept(factory: Any, source: Format, target: Format | None) -> None:
    data = factory.animation(source)
    ingested, _, image = stored(data, source, requested_format=target)
    assert ingested.frames == 4 == getattr(image, "n_frames", 1)
    assert ingested.derivatives == ()
    assert ingested.size == Size(60, 40)


def test_a_stored_animation_is_srgb_as_browsers_ignore_the_profile_of_an_animated_webp(factory: Any) -> None:
    frames = [Image.new("RGB", (32, 32), (200, level, 50)) for level in (100, 160)]
    profile = factory.icc_profile()
    data = factory.encode(frames[0], PNG, save_all=True, append_images=frames[1:], icc_profile=profile)
    _, _, image = stored(data, PNG, requested_format=WEBP)
    assert getattr(image, "n_frames", 1) == 2
    assert "icc_profile" not in image.info
    expected = to_srgb(NormalizedImage(frames[0], profile))
    assert factory.difference(image, expected) < 4 < factory.difference(image, frames[0])


@pytest.mark.parametrize("target", [JPEG, PNG])
@pytest.mark.parametrize("source", [GIF, WEBP])
def test_a_jpeg_or_png_master_of_an_animation_is_its_first_frame(
    factory: Any, source: Format, target: Format
) -> None:
    ingested, _, image = stored(factory.animation(source), source, requested_format=target)
    assert ingested.frames == 1
    assert factory.difference(image, factory.photo(60, 40, 0)) < 9


def test_a_webp_beyond_the_maximum_side_is_refused_if_requested_and_else_not_created(factory: Any) -> None:
    side = FORMATS[WEBP].max_side + 1
    data = factory.encode(Image.new("RGB", (side, 2)), JPEG)
    assert stored(data, JPEG)[0].unchanged
    with pytest.raises(ValidationError, match="16,383"):
        ingest(IngestJob(JPEG, requested_format=WEBP), data)


@pytest.mark.parametrize("grain", [0.0, 0.05])
def test_derivatives_that_are_created_again_have_at_most_half_of_the_bytes_of_the_master(
    factory: Any, grain: float
) -> None:
    noise = factory.noise(500, 375).resize((2000, 1500))
    data = factory.encode(Image.blend(factory.photo(2000, 1500), noise, grain), JPEG, quality=95)
    uploaded, (master, *_) = ingest(IngestJob(JPEG), data)
    copy, second, third = Size(2000, 1500), Size(1500, 1125), Size(750, 563)
    assert uploaded.derivatives == (copy, second, third)
    repair = IngestJob(WEBP, requested_format=WEBP, derivative_sides=(2000, 1500, 750))
    repaired, (_, *derivatives) = ingest(repair, master)
    # A copy of lower quality would be used for variants of the image's size.
    assert repaired.derivatives in [(copy, second, third), (second, third), (third,)]
    assert sum(map(len, derivatives)) <= 0.5 * len(master)


def test_a_large_image_gets_derivatives_that_look_the_same(factory: Any) -> None:
    image = factory.photo(2000, 1500)
    grain = factory.noise(500, 375).resize((2000, 1500))
    data = factory.oriented(Image.blend(image, grain, 0.05), 6, quality=95)
    ingested, blobs = ingest(IngestJob(JPEG), data)
    assert ingested.derivatives == (Size(1500, 2000), Size(1125, 1500), Size(562, 749))
    master = factory.decode(blobs[0])
    for size, blob in zip(ingested.derivatives, blobs[1:], strict=True):
        assert factory.difference(factory.decode(blob), master.resize((size.width, size.height))) < 9
    assert ingest(IngestJob(JPEG, derivative_sides=()), data)[0].derivatives == ()


def test_a_master_in_jpeg_has_no_derivative_of_its_own_size(factory: Any) -> None:
    grain = factory.noise(500, 375).resize((2000, 1500))
    data = factory.oriented(Image.blend(factory.photo(2000, 1500), grain, 0.05), 1, quality=98)
    for job in (IngestJob(JPEG, convert_to_webp=False), IngestJob(JPEG, requested_format=JPEG)):
        assert ingest(job, data)[0].derivatives == (Size(1500, 1125), Size(750, 563))


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_equal_uploads_give_equal_bytes(factory: Any, fmt: Format) -> None:
    data = upload(factory, fmt)
    job = IngestJob(fmt, requested_format=WEBP, quality=70)
    assert ingest(job, data) == ingest(job, data)
