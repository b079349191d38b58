"""Animations keep their frames, durations and loop counts, as GIF and as WebP."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageSequence

from imagehost_core.formats import Format
from imagehost_core.headers.scanner import scan
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels.animation import MAX_DURATION, MAX_LOOP_COUNT
from imagehost_core.pixels.composition import INFINITE
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.formats.gif import SHORTEST_GIF_TIME, to_centiseconds
from imagehost_core.pixels.formats.webp import webp_bitstreams
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.palette import TRANSPARENT_INDEX, quantize
from imagehost_core.pixels.render import render
from imagehost_core.pixels.source import MIN_DURATION
from imagehost_core.transform import ORIGIN, Plan, Size

ANIMATED = [Format.GIF, Format.WEBP]
SIZE = Size(30, 20)
PLAN = Plan(resize=SIZE, crop=ORIGIN, pad=ORIGIN, output=SIZE)


def variant(data: bytes, source: Format, fmt: Format, *, animated: bool = True) -> bytes:
    return render(RenderJob(PLAN, fmt, None, animated=animated), source, data)[1][0]


def durations(data: bytes) -> list[int]:
    image, times = Image.open(BytesIO(data)), []
    for number in range(getattr(image, "n_frames", 1)):
        image.seek(number)
        image.load()
        times.append(round(image.info["duration"]))
    return times


@pytest.mark.parametrize("target", ANIMATED)
@pytest.mark.parametrize("source", [*ANIMATED, Format.PNG])
def test_every_frame_keeps_its_image_and_its_duration(factory: Any, source: Format, target: Format) -> None:
    data = factory.animation(source, **({} if source is Format.GIF else {"lossless": True}))
    result = variant(data, source, target)
    assert durations(result) == [100, 50, 200, 130]
    image = Image.open(BytesIO(result))
    for number in range(4):
        image.seek(number)
        assert factory.difference(image.convert("RGB"), factory.photo(60, 40, number).resize((30, 20))) < 12


@pytest.mark.parametrize("target", ANIMATED)
@pytest.mark.parametrize("source", [*ANIMATED, Format.PNG])
@pytest.mark.parametrize("loop_count", [INFINITE, 1, 3])
def test_an_animation_keeps_its_loop_count(
    factory: Any, source: Format, target: Format, loop_count: int
) -> None:
    # GIF stores the number of repetitions, and nothing for none.
    repetitions = {} if loop_count == 1 else {"loop": max(0, loop_count - 1)}
    options = repetitions if source is Format.GIF else {"loop": loop_count}
    data = factory.animation(source, **options)
    assert open_image(source, data).loop_count == loop_count
    assert open_image(target, variant(data, source, target)).loop_count == loop_count


@pytest.mark.parametrize("target", ANIMATED)
@pytest.mark.parametrize(("source", "loop"), [(Format.GIF, 2**16 - 1), (Format.PNG, 2**32 - 1)])
def test_what_the_other_format_cannot_store_becomes_the_highest_that_both_can(
    factory: Any, source: Format, target: Format, loop: int
) -> None:
    longest = 10 * (2**16 - 1) if source is Format.GIF else 1_000 * (2**16 - 1)
    result = variant(factory.animation(source, loop=loop, durations=[longest]), source, target)
    assert open_image(target, result).loop_count == MAX_LOOP_COUNT
    expected = 10 * (2**16 - 1) if Format.GIF in (source, target) else MAX_DURATION
    assert durations(result) == [expected] * 4


@pytest.mark.parametrize("target", [Format.JPEG, Format.PNG, Format.AVIF])
def test_formats_without_animation_get_the_first_frame(factory: Any, target: Format) -> None:
    result = factory.decode(variant(factory.animation(Format.GIF), Format.GIF, target))
    assert factory.difference(result, factory.photo(60, 40, 0).resize((30, 20))) < 12


@pytest.mark.parametrize("target", ANIMATED)
def test_a_still_variant_of_an_animation_has_one_frame(factory: Any, target: Format) -> None:
    result = variant(factory.animation(Format.WEBP), Format.WEBP, target, animated=False)
    assert open_image(target, result).frame_count == 1


@pytest.mark.parametrize("target", ANIMATED)
def test_a_cleared_area_is_transparent_in_the_next_frame(factory: Any, target: Format) -> None:
    frames = [Image.new("RGBA", (60, 40), (0, 0, 0, 0)) for _ in range(3)]
    for number, frame in enumerate(frames):
        frame.paste((200, 30, 30, 255), (20 * number, 0, 20 * number + 20, 40))
    data = factory.encode(
        frames[0], Format.WEBP, save_all=True, append_images=frames[1:], duration=100, lossless=True
    )
    image = Image.open(BytesIO(variant(data, Format.WEBP, target)))
    for number in range(3):
        image.seek(number)
        alpha = image.convert("RGBA").getchannel("A")
        assert [alpha.getpixel((10 * part + 5, 10)) > 128 for part in range(3)] == [  # type: ignore[operator]
            part == number for part in range(3)
        ]


@pytest.mark.parametrize("drawn", [True, False])
@pytest.mark.parametrize("source", [Format.GIF, Format.PNG, Format.WEBP])
def test_an_animation_has_no_loss_where_its_frames_are_smaller_so(
    factory: Any, source: Format, drawn: bool
) -> None:
    images = [factory.photo(60, 40, seed) for seed in range(4)]
    if drawn:
        images = [Image.new("RGB", (60, 40), "white") for _ in range(4)]
        for number, image in enumerate(images):
            image.paste((200, 30, 30), (9 * number, 9, 9 * number + 20, 30))
    lossless = {"lossless": True} if source is Format.WEBP else {}
    data = factory.encode(
        images[0], source, save_all=True, append_images=images[1:], duration=100, **lossless
    )
    _, (master,) = ingest(IngestJob(source, requested_format=Format.WEBP, quality=80), data)
    own = RenderJob(Plan.unchanged(Size(60, 40)), Format.WEBP, 80, animated=True)
    for result in (master, render(own, source, data)[1][0]):
        assert set(webp_bitstreams(result)) == {b"VP8L" if drawn else b"VP8 "}
        assert durations(result) == [100] * 4


def test_an_animation_that_had_loss_is_not_encoded_without(factory: Any) -> None:
    images = [Image.new("RGB", (60, 40), (200, level, 50)) for level in (100, 160)]
    data = factory.encode(images[0], Format.WEBP, save_all=True, append_images=images[1:], quality=50)
    own = RenderJob(Plan.unchanged(Size(60, 40)), Format.WEBP, 80, animated=True)
    assert set(webp_bitstreams(render(own, Format.WEBP, data)[1][0])) == {b"VP8 "}


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 300)])
def test_a_drawn_animation_may_be_tiny_or_narrow(factory: Any, size: tuple[int, int]) -> None:
    images = [Image.new("RGB", size, (200, level, 50)) for level in (100, 160)]
    data = factory.encode(images[0], Format.GIF, save_all=True, append_images=images[1:], duration=100)
    _, (master,) = ingest(IngestJob(Format.GIF, requested_format=Format.WEBP), data)
    assert open_image(Format.WEBP, master).frame_count == 2


def test_a_webp_of_which_one_frame_covers_a_part_says_that_it_has_alpha(factory: Any) -> None:
    first, second = (Image.new("RGBA", (60, 40), (30, 200, 30, 255)) for _ in range(2))
    first.paste((0, 0, 0, 0), (30, 0, 60, 40))
    data = factory.encode(first, Format.PNG, save_all=True, append_images=[second], duration=100)
    own = Plan.unchanged(Size(60, 40))
    result = render(RenderJob(own, Format.WEBP, None, animated=True), Format.PNG, data)[1][0]
    assert scan(BytesIO(result), len(result)).has_alpha


def test_the_default_image_of_an_animated_png_is_not_a_frame(factory: Any) -> None:
    images = [factory.photo(60, 40, seed) for seed in range(3)]
    data = factory.encode(
        factory.photo(60, 40, 9),
        Format.PNG,
        save_all=True,
        append_images=images,
        default_image=True,
        duration=80,
    )
    assert open_image(Format.PNG, data).frame_count == 3
    assert durations(variant(data, Format.PNG, Format.WEBP)) == [80, 80, 80]
    first = factory.decode(variant(data, Format.PNG, Format.PNG))
    assert factory.difference(first, images[0].resize((30, 20))) < 6


@given(st.lists(st.integers(MIN_DURATION, 700), min_size=1, max_size=30))
def test_rounding_to_centiseconds_keeps_the_total_duration_and_gives_none_that_readers_replace(
    times: list[int],
) -> None:
    rounded = to_centiseconds(times)
    assert all(time % 10 == 0 and time >= SHORTEST_GIF_TIME > MIN_DURATION for time in rounded)
    added = sum(max(0, SHORTEST_GIF_TIME - time) for time in times)
    assert -10 <= sum(rounded) - sum(times) <= 10 + added


def test_a_gif_keeps_few_colours_exactly(factory: Any) -> None:
    image = factory.photo().quantize(40).convert("RGB")
    assert factory.difference(quantize(image), image) == 0


@given(st.integers(1, 255))
def test_alpha_below_half_becomes_transparent_and_above_opaque(alpha: int) -> None:
    result = quantize(Image.new("RGBA", (4, 4), (10, 200, 30, alpha)))
    assert (result.getpixel((0, 0)) == TRANSPARENT_INDEX) is (alpha < 128)


def image_block(image: Image.Image) -> bytes:
    """Return the image block of a one-frame GIF, with a local colour table."""
    buffer = BytesIO()
    image.save(buffer, "GIF")
    data = buffer.getvalue()
    flags = data[10]
    table = data[13 : 13 + 3 * 2 ** ((flags & 7) + 1)]
    at = data.index(b",", 13 + len(table))
    return data[at : at + 9] + bytes([0x80 | flags & 7]) + table + data[at + 10 : -1]


@pytest.mark.parametrize("target", ANIMATED)
def test_a_frame_that_exceeds_the_logical_screen_of_a_gif_is_cropped(target: Format) -> None:
    small, large = Image.new("RGB", (10, 10), "red"), Image.new("RGB", (25, 15), "blue")
    screen = b"GIF89a\x0a\x00\x0a\x00\x00\x00\x00"
    data = screen + image_block(small) + image_block(large) + b";"
    assert [frame.size for frame in ImageSequence.Iterator(Image.open(BytesIO(data)))] == [(10, 10), (25, 15)]
    size = Size(10, 10)
    job = RenderJob(Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size), target, None, animated=True)
    result = Image.open(BytesIO(render(job, Format.GIF, data)[1][0]))
    assert (result.size, getattr(result, "n_frames", 1)) == ((10, 10), 2)
