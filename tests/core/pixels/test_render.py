"""A variant has the planned size, the requested format, no metadata, and reproducible bytes."""

from __future__ import annotations

import subprocess
import sys
from io import BytesIO
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageSequence

from imagehost_core.errors import BadRequestError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.jobs import IngestJob, RenderJob, RenderResult
from imagehost_core.pixels import codec_fingerprint, codecs
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.formats.avif import supported_avif_options
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.pixels.save import JPEG_BYTES_PER_PIXEL
from imagehost_core.pixels.strip_metadata import strip_metadata
from imagehost_core.transform import Fit, Plan, Size, Transform, plan

ALL_FORMATS = list(Format)
TRANSPOSE_METHODS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
}


def variant(
    data: bytes, source: Format, fmt: Format, size: Size, transform: Transform, quality: int | None = None
) -> tuple[RenderResult, bytes]:
    rendered, (blob,) = render(RenderJob(plan(size, transform), fmt, quality), source, data)
    return rendered, blob


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("orientation", [1, 2, 6, 7])
def test_width_and_height_refer_to_the_upright_image(factory: Any, fmt: Format, orientation: int) -> None:
    size = Size(48, 64) if orientation > 4 else Size(64, 48)
    data = factory.oriented(factory.photo(64, 48), orientation, quality=95)
    rendered, blob = variant(data, Format.JPEG, fmt, size, Transform(width=32))
    image = factory.decode(blob)
    assert rendered == RenderResult(Size(*image.size), 1)
    assert image.width == 32
    upright = factory.photo(64, 48)
    if orientation in TRANSPOSE_METHODS:
        upright = upright.transpose(TRANSPOSE_METHODS[orientation])
    assert factory.difference(image, upright.resize(image.size)) < 10


def test_a_sideways_jpeg_is_not_decoded_smaller_than_its_variant_needs(factory: Any) -> None:
    # Decoded by the other axis, the 64 columns would be 16, and the stripes grey.
    stripes = Image.effect_noise((16, 1), 200).convert("RGB").resize((64, 2048), Image.Resampling.NEAREST)
    data = factory.oriented(stripes.transpose(Image.Transpose.ROTATE_90), 6, quality=95)
    _, blob = variant(data, Format.JPEG, Format.PNG, Size(64, 2048), Transform(64, 8, fit=Fit.FILL))
    assert factory.difference(factory.decode(blob), stripes.resize((64, 8))) < 5


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_variant_has_no_metadata(factory: Any, fmt: Format) -> None:
    data = factory.oriented(
        factory.photo(),
        6,
        icc_profile=factory.icc_profile(),
        xmp=b"<x:xmpmeta>A maker</x:xmpmeta>",
        comment=b"A maker",
    )
    _, blob = variant(data, Format.JPEG, fmt, Size(160, 240), Transform(width=50))
    assert b"A maker" not in blob
    image = factory.decode(blob)
    assert not {"exif", "icc_profile", "xmp", "comment"} & set(image.info)


@given(
    st.sampled_from(ALL_FORMATS),
    st.sampled_from(list(Fit)),
    st.none() | st.integers(1, 70),
    st.none() | st.integers(1, 70),
    st.sampled_from(["RGB", "RGBA"]),
)
def test_every_variant_has_the_planned_size(
    factory: Any, fmt: Format, fit: Fit, width: int | None, height: int | None, mode: str
) -> None:
    data = factory.encode(factory.photo(40, 30, mode=mode))
    steps = plan(Size(40, 30), Transform(width, height, fit=fit))
    rendered, (blob,) = render(
        RenderJob(steps, fmt, 50 if FORMATS[fmt].has_quality else None), Format.PNG, data
    )
    image = factory.decode(blob)
    assert (Size(*image.size), image.format) == (steps.output, fmt.value.upper())
    assert rendered.size == steps.output


@pytest.mark.parametrize("fmt", FORMATS)
def test_contain_pads_with_transparency_or_white(factory: Any, fmt: Format) -> None:
    data = factory.encode(Image.new("RGB", (40, 20), (200, 30, 30)))
    _, blob = variant(data, Format.PNG, fmt, Size(40, 20), Transform(40, 40, fit=Fit.CONTAIN), 90)
    image = factory.decode(blob)
    corner = tuple(image.convert("RGBA").crop((0, 0, 1, 1)).tobytes())
    assert corner[3] <= 2 if FORMATS[fmt].has_alpha else min(corner[:3]) >= 250
    middle = tuple(image.convert("RGB").crop((20, 20, 21, 21)).tobytes())
    assert all(abs(a - b) < 12 for a, b in zip(middle, (200, 30, 30), strict=True))


@pytest.mark.parametrize("fmt", FORMATS)
def test_transparency_is_kept_or_becomes_white(factory: Any, fmt: Format) -> None:
    source = Image.new("RGBA", (40, 40), (10, 20, 200, 0))
    source.paste((10, 20, 200, 255), (0, 0, 20, 40))
    _, blob = variant(factory.encode(source), Format.PNG, fmt, Size(40, 40), Transform(width=20), 95)
    assert factory.difference(factory.decode(blob), source.resize((20, 20))) < 4


@pytest.mark.parametrize("fmt", FORMATS)
def test_opaque_alpha_is_not_stored(factory: Any, fmt: Format) -> None:
    source = Image.new("RGBA", (40, 40), (10, 20, 200, 255))
    source.putpixel((0, 0), (0, 0, 0, 0))
    steps = plan(Size(40, 40), Transform(10, 40, fit=Fit.COVER))
    _, (blob,) = render(RenderJob(steps, fmt, None), Format.PNG, factory.encode(source))
    assert not factory.decode(blob).has_transparency_data


@pytest.mark.parametrize("fmt", [fmt for fmt in FORMATS if FORMATS[fmt].has_quality])
def test_a_higher_quality_has_more_bytes_and_none_is_the_default(factory: Any, fmt: Format) -> None:
    data, size = factory.encode(factory.noise()), Size(96, 64)
    sizes = [len(variant(data, Format.PNG, fmt, size, Transform(), q)[1]) for q in (10, 50, 95)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3
    default = FORMATS[fmt].default_quality
    unchanged = Transform()
    assert (
        variant(data, Format.PNG, fmt, size, unchanged)[1]
        == variant(data, Format.PNG, fmt, size, unchanged, default)[1]
    )


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_derivative_renders_the_same_image_as_the_master(factory: Any, mode: str) -> None:
    grain = factory.noise(200, 150).resize((800, 600)).convert(mode)
    data = factory.encode(Image.blend(factory.photo(800, 600, mode=mode), grain, 0.1))
    ingested, (master, *derivatives) = ingest(IngestJob(Format.PNG, derivative_sides=(320, 160)), data)
    steps = plan(ingested.size, Transform(100, 100))
    assert derivatives
    from_master, (expected,) = render(RenderJob(steps, Format.PNG, None), ingested.format, master)
    for derivative in derivatives:
        rendered, (blob,) = render(RenderJob(steps, Format.PNG, None), ingested.format, derivative)
        assert rendered == from_master
        assert factory.difference(factory.decode(blob), factory.decode(expected)) < 4


def test_a_jpeg_that_is_downscaled_by_its_decoder_looks_the_same(factory: Any) -> None:
    image = factory.photo(2000, 1200)
    data = factory.encode(image, Format.JPEG, quality=95)
    _, blob = variant(data, Format.JPEG, Format.PNG, Size(2000, 1200), Transform(width=100))
    assert factory.difference(factory.decode(blob), image.resize((100, 60))) < 2


SCRIPT = """
import sys
from hashlib import sha256
from imagehost_core.formats import Format
from imagehost_core.transform import Size, plan
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels import codec_fingerprint
from imagehost_core.pixels.render import render
from imagehost_core.pixels.strip_metadata import strip_metadata
from imagehost_core.transform import Transform

data = sys.stdin.buffer.read()
print(codec_fingerprint())
for fmt in Format:
    for animated in (False, True):
        job = RenderJob(plan(Size(60, 40), Transform(40, 40)), fmt, None, animated=animated)
        print(fmt, animated, sha256(render(job, Format.WEBP, data)[1][0]).hexdigest())
"""


def test_every_process_renders_the_same_bytes_and_prints_no_warnings(factory: Any) -> None:
    data = factory.animation(Format.WEBP)
    runs = [
        subprocess.run(
            [sys.executable, "-W", "error", "-c", SCRIPT], input=data, capture_output=True, check=True
        )
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    assert [run.stderr for run in runs] == [b"", b""]


def test_the_codec_fingerprint_changes_with_the_pipeline_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = codec_fingerprint()
    monkeypatch.setattr(codecs, "PIPELINE_VERSION", codecs.PIPELINE_VERSION + 1)
    assert codec_fingerprint() != before
    assert len(before) == 12


def test_the_codec_fingerprint_changes_with_the_version_of_libaom(monkeypatch: pytest.MonkeyPatch) -> None:
    before = codec_fingerprint()
    name = "imagehost_core.pixels.formats.avif.AvifImagePlugin.get_codec_version"
    monkeypatch.setattr(name, {"aom": "3.12.1"}.get)
    assert codec_fingerprint() != before


def test_the_avif_encoder_gets_only_options_that_it_supports() -> None:
    supported = {"advanced": {"color:tune": "ssimulacra2"}}
    assert supported_avif_options(supported) == supported
    assert supported_avif_options({"advanced": {"color:tune": "unsupported"}}) == {}


@pytest.mark.parametrize("quality", [90, 94, 95, 100])
def test_noise_can_be_encoded_as_jpeg_at_any_quality(factory: Any, quality: int) -> None:
    size = Size(400, 300)
    _, blob = variant(
        factory.encode(factory.noise(400, 300)), Format.PNG, Format.JPEG, size, Transform(), quality
    )
    assert factory.decode(blob).size == (400, 300)
    data = encode(Format.JPEG, factory.noise(400, 300), quality, options={"subsampling": 0})
    assert len(data) < JPEG_BYTES_PER_PIXEL * size.pixels


@pytest.mark.parametrize("fmt", [fmt for fmt in Format if FORMATS[fmt].has_quality])
def test_every_format_can_be_encoded_at_every_quality(factory: Any, fmt: Format) -> None:
    image = factory.noise(16, 12)
    for quality in range(1, 101):
        assert factory.decode(encode(fmt, image, quality, subsample=True)).size == (16, 12)


def test_each_variant_has_the_media_type_of_its_format(factory: Any) -> None:
    for fmt in FORMATS:
        _, blob = variant(
            factory.encode(factory.photo()), Format.PNG, fmt, Size(240, 160), Transform(width=9)
        )
        assert Image.open(BytesIO(blob)).get_format_mimetype() == FORMATS[fmt].media_type


def screenshot(width: int = 200, height: int = 150) -> Image.Image:
    """Return an image of few colours with sharp edges."""
    image, random = Image.new("RGB", (width, height), "white"), Random(1)
    for _ in range(40):
        left, top = random.randrange(width), random.randrange(height)
        shade = tuple(random.choice(((0, 0, 0), (200, 30, 30), (40, 90, 200), (240, 240, 240))))
        image.paste(shade, (left, top, left + random.randrange(2, 40), top + random.randrange(2, 12)))
    return image


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L"])
@pytest.mark.parametrize("fmt", [Format.WEBP, Format.PNG])
def test_a_variant_of_line_art_is_lossless_and_small(factory: Any, fmt: Format, mode: str) -> None:
    image = screenshot().convert(mode)
    if mode == "RGBA":
        image.paste((0, 0, 0, 0), (20, 20, 60, 60))
    data = factory.encode(image, optimize=True)
    job = RenderJob(plan(Size(*image.size), Transform()), fmt, 80 if fmt is Format.WEBP else None)
    variant = render(job, Format.PNG, data)[1][0]
    assert len(variant) <= 1.2 * len(data)
    expected = image.convert("RGBA")
    assert factory.difference(factory.decode(variant), expected) == 0


@pytest.mark.parametrize("profile", [None, b"profile" * 9])
@pytest.mark.parametrize(
    ("fmt", "options", "expected"),
    [
        (Format.WEBP, {"lossless": True}, b"VP8L"),
        (Format.WEBP, {"quality": 90}, b"VP8 "),
        (Format.JPEG, {"quality": 90}, b"VP8 "),
        (Format.AVIF, {"quality": 90}, b"VP8 "),
        (Format.PNG, {}, b"VP8L"),
    ],
)
def test_a_variant_is_lossless_only_if_its_source_is(
    factory: Any, fmt: Format, options: dict[str, Any], expected: bytes, profile: bytes | None
) -> None:
    """A dark photograph has no more colours than line art, and a lossless encoding of it takes seconds."""
    data = factory.encode(screenshot(), fmt, icc_profile=profile, **options)
    job = RenderJob(plan(Size(200, 150), Transform()), Format.WEBP, 80)
    assert render(job, fmt, data)[1][0][12:16] == expected


def test_an_animation_of_the_stored_size_and_format_is_the_stored_one_without_metadata(factory: Any) -> None:
    exif = Image.Exif()
    exif[0x010F] = "A maker"
    data = factory.animation(Format.WEBP, exif=exif)
    job = RenderJob(plan(Size(60, 40), Transform(60)), Format.WEBP, 80, True, keeps_file=True)
    result, (variant,) = render(job, Format.WEBP, data)
    assert result.frames == 4
    assert b"A maker" in data
    assert variant == strip_metadata(Format.WEBP, data)


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_sideways_file_is_turned_whatever_its_size(factory: Any, orientation: int) -> None:
    data = factory.oriented(screenshot(60, 60), orientation, Format.PNG)
    job = RenderJob(plan(Size(60, 60), Transform(60)), Format.PNG, None, keeps_file=True)
    variant = factory.decode(render(job, Format.PNG, data)[1][0])
    expected = screenshot(60, 60)
    assert factory.difference(variant, expected.rotate(-90) if orientation == 6 else expected) == 0
    assert not variant.getexif()


def encoded(image: Image.Image, fmt: Format, **options: Any) -> bytes:
    file = BytesIO()
    image.save(file, fmt.name, **options)
    return file.getvalue()


def stored_file_job(width: int, height: int, fmt: Format, **options: Any) -> RenderJob:
    quality = FORMATS[fmt].default_quality
    return RenderJob(Plan.unchanged(Size(width, height)), fmt, quality, keeps_file=True, **options)


@pytest.mark.parametrize("fmt", [Format.JPEG, Format.PNG, Format.WEBP])
def test_a_variant_without_new_pixels_is_the_stored_file_without_its_metadata(fmt: Format) -> None:
    exif, profile = Image.Exif(), ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    exif[0x010F] = "Camera"
    data = encoded(Image.radial_gradient("L").convert("RGB"), fmt, exif=exif, icc_profile=profile, quality=95)
    result, (variant,) = render(stored_file_job(256, 256, fmt), fmt, data)
    assert result.size == Size(256, 256)
    with Image.open(BytesIO(data)) as stored, Image.open(BytesIO(variant)) as shown:
        assert shown.info["icc_profile"] == profile
        assert not shown.getexif()
        assert shown.tobytes() == stored.tobytes()
    assert len(variant) < len(data)


def test_a_stored_file_that_is_not_upright_is_turned() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(Image.new("RGB", (40, 30), "red"), Format.JPEG, exif=exif)
    _, (variant,) = render(stored_file_job(30, 40, Format.JPEG), Format.JPEG, data)
    with Image.open(BytesIO(variant)) as shown:
        assert shown.size == (30, 40)
        assert not shown.getexif()


def test_beyond_the_limit_only_an_upright_file_is_sent() -> None:
    huge = Image.new("L", (8_000, 5_001))
    exif = Image.Exif()
    exif[0x0112] = 6
    _, (variant,) = render(
        stored_file_job(8_000, 5_001, Format.JPEG), Format.JPEG, encoded(huge, Format.JPEG)
    )
    assert variant
    with pytest.raises(BadRequestError, match="stored upright"):
        render(stored_file_job(5_001, 8_000, Format.JPEG), Format.JPEG, encoded(huge, Format.JPEG, exif=exif))


@pytest.mark.parametrize("fmt", [Format.GIF, Format.WEBP])
@pytest.mark.parametrize(("step", "frames"), [(1, 7), (2, 4), (3, 3), (10, 1)])
def test_fewer_frames_are_shown_for_the_same_time(fmt: Format, step: int, frames: int) -> None:
    images = [Image.new("RGB", (20, 10), (number * 30, 0, 0)) for number in range(7)]
    times = [*range(100, 170, 10)]
    data = encoded(images[0], Format.GIF, save_all=True, append_images=images[1:], duration=times)
    job = RenderJob(Plan.unchanged(Size(20, 10)), fmt, FORMATS[fmt].default_quality, True, None, step)
    result, (variant,) = render(job, Format.GIF, data)
    assert result.frames == frames
    durations = []
    with Image.open(BytesIO(variant)) as shown:
        for frame in ImageSequence.Iterator(shown):
            frame.load()
            durations.append(frame.info.get("duration", 0))
    if frames > 1:
        assert sum(durations) == sum(times)
