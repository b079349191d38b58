"""A damaged upload is a ValidationError wherever the damage is; a damaged stored file is not."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.errors import ValidationError
from imagehost_core.formats import UPLOADABLE, Format
from imagehost_core.headers.header import SourceLimits
from imagehost_core.headers.scanner import scan
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.decoder_errors import decoder_errors
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import DamagedSourceError, render
from imagehost_core.transform import Size, Transform, plan

JOB = RenderJob(plan(Size(60, 40), Transform(width=20)), Format.PNG, None)


def sample(factory: Any, fmt: Format) -> bytes:
    data: bytes = (
        factory.animation(fmt) if fmt is not Format.JPEG else factory.oriented(factory.noise(60, 40), 6)
    )
    return data


@given(st.sampled_from(UPLOADABLE), st.integers(0, 10**6), st.integers(1, 12))
def test_a_randomly_damaged_file_is_processed_or_a_validation_error(
    factory: Any, fmt: Format, seed: int, times: int
) -> None:
    random, data = Random(seed), bytearray(sample(factory, fmt))
    for _ in range(times):
        data[random.randrange(len(data))] = random.randrange(256)
    with suppress(ValidationError):
        ingest(IngestJob(fmt, remove_exif=True), bytes(data))
    with suppress(DamagedSourceError):
        render(JOB, fmt, bytes(data))


@given(st.sampled_from(UPLOADABLE), st.integers(0, 99))
def test_a_truncated_file_is_processed_or_a_validation_error(factory: Any, fmt: Format, percent: int) -> None:
    data = sample(factory, fmt)
    with suppress(ValidationError):
        ingest(IngestJob(fmt), data[: len(data) * percent // 100])


@given(
    st.integers(1, 60),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["RGB", "L", "noise"]),
    st.sampled_from([{}, {"convert_to_webp": False}, {"requested_format": Format.JPEG, "remove_exif": True}]),
)
def test_a_jpeg_without_its_end_is_stored_whole_or_a_validation_error(
    factory: Any, cut: int, progressive: bool, optimize: bool, kind: str, options: dict[str, Any]
) -> None:
    image = factory.noise() if kind == "noise" else factory.photo().convert(kind)
    whole = factory.encode(image, Format.JPEG, quality=85, progressive=progressive, optimize=optimize)
    data = whole[:-cut]
    try:
        scan(BytesIO(data), len(data))
        result, (master, *_) = ingest(IngestJob(Format.JPEG, **options), data)
    except ValidationError:
        assert cut > 2
        return
    assert not result.unchanged
    if result.format is Format.JPEG:
        assert master.endswith(b"\xff\xd9")
        assert factory.difference(factory.decode(master), factory.decode(whole)) == 0
    assert factory.difference(factory.decode(master), factory.decode(whole)) < 6


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_half_a_file_is_a_validation_error_that_names_the_format(factory: Any, fmt: Format) -> None:
    data = factory.encode(factory.noise(), fmt)
    with pytest.raises(ValidationError, match=f"a {fmt.name} file that can be decoded"):
        ingest(IngestJob(fmt), data[: len(data) // 2])
    with pytest.raises(DamagedSourceError, match=f"a {fmt.name} file that can be decoded"):
        render(JOB, fmt, data[: len(data) // 2])


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_a_file_is_opened_only_by_the_decoder_of_its_format(factory: Any, fmt: Format) -> None:
    for other in set(UPLOADABLE) - {fmt}:
        with pytest.raises(ValidationError):
            ingest(IngestJob(other), sample(factory, fmt))


@pytest.mark.parametrize(
    "limits",
    [SourceLimits(frame_pixels=2_399), SourceLimits(total_pixels=9_599), SourceLimits(frames=3)],
)
def test_limits_are_also_checked_by_the_decoder(factory: Any, limits: SourceLimits) -> None:
    data = factory.animation(Format.GIF)  # 4 frames of 60×40
    assert open_image(Format.GIF, data).frame_count == 4
    with pytest.raises(ValidationError, match="4 of 60×40"):
        open_image(Format.GIF, data, limits)


def test_a_jpeg_with_a_second_image_in_it_has_one_frame(factory: Any) -> None:
    data = factory.encode(factory.noise(), Format.JPEG)
    second = factory.noise(20, 20)
    first = factory.decode(data)
    assert open_image(Format.JPEG, data).frame_count == 1
    file = BytesIO()
    first.save(file, "MPO", save_all=True, append_images=[second])
    image = open_image(Format.JPEG, file.getvalue())
    assert image.frame_count == 1
    assert ingest(IngestJob(Format.JPEG), file.getvalue())[0].frames == 1


def test_a_lack_of_memory_is_not_a_validation_error() -> None:
    with pytest.raises(MemoryError), decoder_errors(Format.PNG):
        raise MemoryError


def test_an_encoder_error_is_not_a_validation_error(factory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object, **_options: object) -> None:
        raise OSError("encoder failure")

    data = factory.encode(factory.noise())
    monkeypatch.setattr("PIL.Image.Image.save", fail)
    with pytest.raises(OSError, match="encoder failure"):
        render(JOB, Format.PNG, data)


@given(st.integers(1, 400), st.integers(1, 400))
def test_shrink_on_load_leaves_at_least_twice_the_target(factory: Any, width: int, height: int) -> None:
    image = open_image(Format.JPEG, factory.encode(Image.new("RGB", (800, 800)), Format.JPEG))
    image.shrink_on_load(Size(width, height))
    frame = image.first_frame()
    assert frame.width >= min(800, 2 * width)
    assert frame.height >= min(800, 2 * height)


def test_shrink_on_load_has_no_effect_on_other_formats(factory: Any) -> None:
    image = open_image(Format.PNG, factory.encode(factory.photo()))
    image.shrink_on_load(Size(1, 1))
    assert image.first_frame().size == (240, 160)
