"""A damaged file is a 422 wherever the damage is; a fault of ours is not."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.errors import ValidationError
from imagehost_core.formats import UPLOADABLE, Format
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels import decode, encode
from imagehost_core.pixels.decode import decoder_errors, frame_count, open_image, shrink_on_load
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform import Transform
from imagehost_core.transform.geometry import Size, plan

JOB = RenderJob(plan(Size(60, 40), Transform(width=20)), Format.PNG, None)


def sample(studio: Any, fmt: Format) -> bytes:
    data: bytes = (
        studio.animation(fmt) if fmt is not Format.JPEG else studio.oriented(studio.noise(60, 40), 6)
    )
    return data


@settings(max_examples=80)
@given(st.sampled_from(UPLOADABLE), st.integers(0, 10**6), st.integers(1, 12))
def test_random_damage_is_stored_or_refused_but_never_anything_else(
    studio: Any, fmt: Format, seed: int, times: int
) -> None:
    random, data = Random(seed), bytearray(sample(studio, fmt))
    for _ in range(times):
        data[random.randrange(len(data))] = random.randrange(256)
    with suppress(ValidationError):
        ingest(IngestJob(fmt, remove_exif=True), bytes(data))
    with suppress(ValidationError):
        render(JOB, fmt, bytes(data))


@settings(max_examples=40)
@given(st.sampled_from(UPLOADABLE), st.integers(0, 99))
def test_a_file_cut_short_is_stored_or_refused(studio: Any, fmt: Format, percent: int) -> None:
    data = sample(studio, fmt)
    with suppress(ValidationError):
        ingest(IngestJob(fmt), data[: len(data) * percent // 100])


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_half_a_file_is_a_422_that_names_its_format(studio: Any, fmt: Format) -> None:
    data = studio.file(studio.noise(), fmt)
    with pytest.raises(ValidationError, match=f"a {fmt.name} file that can be decoded"):
        ingest(IngestJob(fmt), data[: len(data) // 2])
    with pytest.raises(ValidationError, match=f"a {fmt.name} file that can be decoded"):
        render(JOB, fmt, data[: len(data) // 2])


@pytest.mark.parametrize("fmt", UPLOADABLE)
def test_only_the_named_decoder_may_open_a_file(studio: Any, fmt: Format) -> None:
    for other in set(UPLOADABLE) - {fmt}:
        with pytest.raises(ValidationError):
            ingest(IngestJob(other), sample(studio, fmt))


@pytest.mark.parametrize(
    ("name", "most"), [("MAX_FRAME_PIXELS", 2_399), ("MAX_PIXELS", 9_599), ("MAX_FRAMES", 3)]
)
def test_what_the_header_scan_missed_is_still_refused(
    studio: Any, monkeypatch: pytest.MonkeyPatch, name: str, most: int
) -> None:
    data = studio.animation(Format.GIF)  # 4 frames of 60×40
    assert frame_count(open_image(Format.GIF, data)) == 4
    monkeypatch.setattr(decode, name, most)
    with pytest.raises(ValidationError, match="4 of 60×40"):
        open_image(Format.GIF, data)


def test_a_jpeg_with_a_second_picture_in_it_is_one_picture(studio: Any) -> None:
    data = studio.file(studio.noise(), Format.JPEG)
    more = studio.noise(20, 20)
    buffer = studio.opened(data)
    assert frame_count(open_image(Format.JPEG, data)) == 1
    many = BytesIO()
    buffer.save(many, "MPO", save_all=True, append_images=[more])
    image = open_image(Format.JPEG, many.getvalue())
    assert (image.format, frame_count(image)) == ("MPO", 1)
    assert ingest(IngestJob(Format.JPEG), many.getvalue())[0].frames == 1


def test_memory_that_is_lacking_is_not_the_files_fault() -> None:
    with pytest.raises(MemoryError), decoder_errors(Format.PNG):
        raise MemoryError


def test_what_an_encoder_raises_is_a_fault_of_ours(studio: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_args: object) -> bytes:
        raise OSError("the encoder broke")

    monkeypatch.setattr(encode, "save", broken)
    with pytest.raises(OSError, match="the encoder broke"):
        render(JOB, Format.PNG, studio.file(studio.noise()))


@given(st.integers(1, 400), st.integers(1, 400))
def test_a_draft_leaves_at_least_twice_the_target(studio: Any, width: int, height: int) -> None:
    image = open_image(Format.JPEG, studio.file(Image.new("RGB", (800, 800)), Format.JPEG))
    shrink_on_load(image, Size(width, height))
    assert image.width >= min(800, 2 * width)
    assert image.height >= min(800, 2 * height)


def test_other_formats_are_decoded_whole(studio: Any) -> None:
    image = open_image(Format.PNG, studio.file(studio.photo()))
    shrink_on_load(image, Size(1, 1))
    assert image.size == (240, 160)
