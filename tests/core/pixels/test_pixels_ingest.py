"""What is stored of an upload, for each thing that an uploader can ask for."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.errors import ValidationError
from imagehost_core.formats import FORMATS, UPLOADABLE, Format, sniff
from imagehost_core.jobs import IngestJob, IngestResult
from imagehost_core.pixels.ingest import ingest
from imagehost_core.transform.geometry import Size

JPEG, PNG, WEBP, GIF = Format.JPEG, Format.PNG, Format.WEBP, Format.GIF
MAKER = b"A maker"


def stored(data: bytes, fmt: Format, **options: Any) -> tuple[IngestResult, bytes, Image.Image]:
    """Ingest, and return the facts, the master's bytes and the master, opened."""
    ingested, (master, *rungs) = ingest(IngestJob(fmt, **options), data)
    assert len(rungs) == len(ingested.derivatives)
    assert ingested.unchanged is (master == b"")
    master = master or data
    assert sniff(master) is ingested.format
    image = Image.open(BytesIO(master))
    image.load()
    return ingested, master, image


def upload(studio: Any, fmt: Format, **options: Any) -> bytes:
    image = studio.photo(120, 90).quantize(64) if fmt is GIF else studio.photo(120, 90)
    data: bytes = studio.file(image, fmt, **options)
    return data


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_the_same_format_without_more_wishes_keeps_the_bytes(studio: Any, fmt: Format) -> None:
    data = upload(studio, fmt)
    for options in ({"wanted": fmt}, {"convert_to_webp": False}):
        ingested, master, _ = stored(data, fmt, **options)
        assert ingested.unchanged
        assert master == data
        assert (ingested.format, ingested.size, ingested.frames) == (fmt, Size(120, 90), 1)


@pytest.mark.parametrize("fmt", UPLOADABLE)
@pytest.mark.parametrize("wanted", UPLOADABLE)
def test_the_format_that_is_asked_for_by_name_is_what_is_stored(
    studio: Any, fmt: Format, wanted: Format
) -> None:
    data = upload(studio, fmt)
    ingested, _, image = stored(data, fmt, wanted=wanted)
    assert ingested.format is wanted
    assert studio.difference(image, studio.opened(data)) < (9 if wanted is GIF else 6)


def test_a_photograph_becomes_a_webp_by_default(studio: Any) -> None:
    ingested, master, image = stored(data := studio.file(studio.photo(), JPEG, quality=95), JPEG)
    assert ingested.format is WEBP
    assert len(master) < len(data)
    assert studio.difference(image, studio.photo()) < 3


def test_a_webp_that_would_be_larger_is_not_made_unless_it_is_asked_for(studio: Any) -> None:
    data = studio.file(studio.noise(), JPEG, quality=5)
    ingested, master, _ = stored(data, JPEG)
    assert (ingested.format, ingested.unchanged) == (JPEG, True)
    ingested, master, _ = stored(data, JPEG, wanted=WEBP)
    assert ingested.format is WEBP
    assert len(master) > len(data)


@settings(max_examples=30)
@given(
    st.sampled_from(UPLOADABLE),
    st.none() | st.integers(1, 100),
    st.booleans(),
    st.booleans(),
    st.integers(0, 50),
)
def test_without_a_format_by_name_no_upload_grows(
    studio: Any, fmt: Format, quality: int | None, convert: bool, bare: bool, seed: int
) -> None:
    image = studio.noise(seed=seed) if seed % 2 else studio.photo(seed=seed)
    data = studio.file(image.quantize(32) if fmt is GIF else image, fmt)
    _, master, _ = stored(data, fmt, quality=quality, convert_to_webp=convert, remove_exif=bare)
    assert len(master) <= len(data)


@pytest.mark.parametrize("fmt", [JPEG, WEBP])
def test_quality_encodes_again(studio: Any, fmt: Format) -> None:
    data = studio.file(studio.noise(), fmt, quality=95)
    sizes = [len(stored(data, fmt, wanted=fmt, quality=quality)[1]) for quality in (10, 50, 90)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3


@pytest.mark.parametrize("fmt", [PNG, GIF])
def test_quality_means_nothing_to_formats_without_loss(studio: Any, fmt: Format) -> None:
    assert stored(upload(studio, fmt), fmt, wanted=fmt, quality=10)[0].unchanged


def test_quality_keeps_a_jpeg_a_jpeg_where_webp_is_not_wanted(studio: Any) -> None:
    data = studio.file(studio.noise(), JPEG, quality=95)
    ingested, master, _ = stored(data, JPEG, convert_to_webp=False, quality=30)
    assert ingested.format is JPEG
    assert len(master) < len(data)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("options", [{"wanted": WEBP}, {"wanted": PNG}, {"wanted": JPEG, "quality": 90}])
def test_a_re_encoded_picture_is_upright_and_says_so(
    studio: Any, orientation: int, options: dict[str, Any]
) -> None:
    data = studio.oriented(studio.photo(64, 48), orientation, quality=95)
    ingested, _, image = stored(data, JPEG, **options)
    assert ingested.size == (Size(48, 64) if orientation > 4 else Size(64, 48))
    assert image.size == (ingested.size.width, ingested.size.height)
    exif = image.getexif()
    assert exif[0x0112] == 1
    assert exif[0x010F] == MAKER.decode()
    again, _, _ = stored(data, JPEG, wanted=PNG, remove_exif=True)
    assert again.placeholder == ingested.placeholder


@pytest.mark.parametrize("orientation", [1, 3, 6])
@pytest.mark.parametrize("fmt", [JPEG, PNG, WEBP])
def test_removing_exif_leaves_the_picture_as_it_is_shown(studio: Any, fmt: Format, orientation: int) -> None:
    profile = studio.profile()
    source = studio.photo(64, 48)
    data = studio.oriented(source, orientation, fmt, icc_profile=profile, quality=95)
    assert MAKER in data
    ingested, master, image = stored(data, fmt, wanted=fmt, remove_exif=True)
    assert MAKER not in master
    assert not dict(image.getexif())
    assert image.info["icc_profile"] == profile
    shown = {1: None, 3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_270}[orientation]
    upright = studio.opened(data).convert("RGB")
    assert studio.difference(image, upright if shown is None else upright.transpose(shown)) < 2.5
    assert ingested.size == Size(*image.size)


@pytest.mark.parametrize("orientation", [3, 6])
@pytest.mark.parametrize("quality", [40, 75, 95])
def test_a_jpeg_that_is_turned_keeps_its_own_quantisation(
    studio: Any, orientation: int, quality: int
) -> None:
    data = studio.oriented(studio.photo(64, 48), orientation, quality=quality)
    before = studio.opened(data).quantization
    after = studio.opened(stored(data, JPEG, wanted=JPEG, remove_exif=True)[1]).quantization
    for index, table in before.items():
        rows = [table[8 * row : 8 * row + 8] for row in range(8)]
        turned = rows if orientation == 3 else zip(*rows, strict=True)
        assert list(after[index]) == [divisor for row in turned for divisor in row]


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_removing_exif_that_is_not_there_keeps_the_bytes(studio: Any, fmt: Format) -> None:
    assert stored(upload(studio, fmt), fmt, wanted=fmt, remove_exif=True)[0].unchanged


@pytest.mark.parametrize("wanted", [JPEG, PNG, WEBP])
def test_exif_icc_and_xmp_go_with_the_picture_into_another_format(studio: Any, wanted: Format) -> None:
    source = PNG if wanted is JPEG else JPEG
    profile = studio.profile()
    data = studio.oriented(studio.photo(), 1, source, icc_profile=profile)
    _, master, image = stored(data, source, wanted=wanted)
    assert image.getexif()[0x010F] == MAKER.decode()
    assert image.info["icc_profile"] == profile
    _, master, image = stored(data, source, wanted=wanted, remove_exif=True)
    assert MAKER not in master
    assert image.info["icc_profile"] == profile


@pytest.mark.parametrize("wanted", [PNG, WEBP])
def test_xmp_goes_with_the_picture_unless_metadata_is_to_go(studio: Any, wanted: Format) -> None:
    data = studio.file(studio.photo(), JPEG, xmp=b"<x:xmpmeta>told</x:xmpmeta>", quality=99)
    assert b"told" in stored(data, JPEG, wanted=wanted)[1]
    assert b"told" not in stored(data, JPEG, wanted=wanted, remove_exif=True)[1]


def test_exif_too_long_for_a_jpeg_is_left_out(studio: Any) -> None:
    exif = Image.Exif()
    exif[0x9286] = b"x" * 70_000
    data = studio.file(studio.photo(), PNG, exif=exif)
    assert stored(data, PNG, wanted=JPEG)[0].format is JPEG


def test_line_art_is_stored_without_loss_where_that_is_smaller(studio: Any) -> None:
    drawing = Image.new("RGB", (300, 200), "white")
    for x in range(0, 300, 7):
        drawing.paste((30, 60, 200), (x, 10, x + 3, 190))
    for source in (
        studio.file(drawing),
        studio.file(drawing, GIF),
        studio.file(drawing, WEBP, lossless=True),
    ):
        fmt = sniff(source)
        assert fmt is not None
        _, master, image = stored(source, fmt, wanted=WEBP, quality=60)
        assert b"VP8L" in master
        assert studio.difference(image, drawing) == 0


def test_transparency_is_put_on_white_by_a_jpeg(studio: Any) -> None:
    source = studio.photo(mode="RGBA")
    ingested, _, image = stored(studio.file(source), PNG, wanted=JPEG)
    assert not ingested.has_alpha
    assert studio.difference(image, source) < 3
    ingested, _, image = stored(studio.file(source), PNG)
    assert ingested.has_alpha
    assert image.mode == "RGBA"


@pytest.mark.parametrize("wanted", [None, WEBP, GIF])
@pytest.mark.parametrize("source", [GIF, WEBP, PNG])
def test_animation_is_kept(studio: Any, source: Format, wanted: Format | None) -> None:
    data = studio.animation(source)
    ingested, _, image = stored(data, source, wanted=wanted)
    assert ingested.frames == 4 == getattr(image, "n_frames", 1)
    assert ingested.derivatives == ()
    assert ingested.size == Size(60, 40)


@pytest.mark.parametrize("wanted", [JPEG, PNG])
@pytest.mark.parametrize("source", [GIF, WEBP])
def test_jpeg_and_png_of_an_animation_keep_its_first_frame(
    studio: Any, source: Format, wanted: Format
) -> None:
    ingested, _, image = stored(studio.animation(source), source, wanted=wanted)
    assert ingested.frames == 1
    assert studio.difference(image, studio.photo(60, 40, 0)) < 9


def test_a_webp_of_too_long_sides_is_refused_or_not_made(studio: Any) -> None:
    side = FORMATS[WEBP].max_side + 1
    data = studio.file(Image.new("RGB", (side, 2)), JPEG)
    assert stored(data, JPEG)[0].unchanged
    with pytest.raises(ValidationError, match="16,383"):
        ingest(IngestJob(JPEG, wanted=WEBP), data)


def test_a_large_picture_gets_rungs_that_look_like_it(studio: Any) -> None:
    picture = studio.photo(2000, 1500)
    grain = studio.noise(500, 375).resize((2000, 1500))
    data = studio.oriented(Image.blend(picture, grain, 0.3), 6, quality=95)
    ingested, blobs = ingest(IngestJob(JPEG), data)
    assert ingested.derivatives == (Size(384, 512),)
    master = studio.opened(blobs[0])
    assert studio.difference(studio.opened(blobs[1]), master.resize((384, 512))) < 9
    assert sum(map(len, blobs[1:])) * 4 <= len(blobs[0])
    assert ingest(IngestJob(JPEG, derivative_sides=()), data)[0].derivatives == ()


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_equal_uploads_are_stored_as_equal_bytes(studio: Any, fmt: Format) -> None:
    data = upload(studio, fmt)
    job = IngestJob(fmt, wanted=WEBP, quality=70)
    assert ingest(job, data) == ingest(job, data)
