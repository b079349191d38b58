"""Frames, times and loops survive, in a GIF as in a WebP."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageSequence

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels.animation import INFINITE, loop_count_of, to_centiseconds
from imagehost_core.pixels.decode import frame_count, open_image
from imagehost_core.pixels.palette import TRANSPARENT, quantize
from imagehost_core.pixels.render import render
from imagehost_core.transform.geometry import ORIGIN, Plan, Size

ANIMATED = [Format.GIF, Format.WEBP]
SIZE = Size(30, 20)
PLAN = Plan(resize=SIZE, crop=ORIGIN, pad=ORIGIN, output=SIZE)


def variant(data: bytes, source: Format, fmt: Format, *, animated: bool = True) -> bytes:
    return render(RenderJob(PLAN, fmt, None, animated=animated), source, data)[1][0]


def durations(data: bytes) -> list[int]:
    image, found = Image.open(BytesIO(data)), []
    for number in range(getattr(image, "n_frames", 1)):
        image.seek(number)
        image.load()
        found.append(round(image.info["duration"]))
    return found


@pytest.mark.parametrize("target", ANIMATED)
@pytest.mark.parametrize("source", [*ANIMATED, Format.PNG])
def test_every_frame_keeps_its_picture_and_its_time(studio: Any, source: Format, target: Format) -> None:
    data = studio.animation(source, **({} if source is Format.GIF else {"lossless": True}))
    made = variant(data, source, target)
    assert durations(made) == [100, 50, 200, 130]
    image = Image.open(BytesIO(made))
    for number in range(4):
        image.seek(number)
        assert studio.difference(image.convert("RGB"), studio.photo(60, 40, number).resize((30, 20))) < 12


@pytest.mark.parametrize("target", ANIMATED)
@pytest.mark.parametrize("source", [*ANIMATED, Format.PNG])
@pytest.mark.parametrize("plays", [INFINITE, 1, 3])
def test_an_animation_is_played_as_often_as_before(
    studio: Any, source: Format, target: Format, plays: int
) -> None:
    # A GIF says how often it is played again, and nothing for once.
    loop = {"loop": plays} if source is not Format.GIF else {} if plays == 1 else {"loop": max(0, plays - 1)}
    data = studio.animation(source, **loop)
    assert loop_count_of(open_image(source, data)) == plays
    assert loop_count_of(open_image(target, variant(data, source, target))) == plays


@pytest.mark.parametrize("target", [Format.JPEG, Format.PNG, Format.AVIF])
def test_formats_without_animation_show_the_first_frame(studio: Any, target: Format) -> None:
    made = studio.opened(variant(studio.animation(Format.GIF), Format.GIF, target))
    assert studio.difference(made, studio.photo(60, 40, 0).resize((30, 20))) < 12


@pytest.mark.parametrize("target", ANIMATED)
def test_one_frame_is_made_where_no_animation_is_wanted(studio: Any, target: Format) -> None:
    made = variant(studio.animation(Format.WEBP), Format.WEBP, target, animated=False)
    assert frame_count(open_image(target, made)) == 1


@pytest.mark.parametrize("target", ANIMATED)
def test_what_a_frame_clears_does_not_shine_through_the_next(studio: Any, target: Format) -> None:
    frames = [Image.new("RGBA", (60, 40), (0, 0, 0, 0)) for _ in range(3)]
    for number, frame in enumerate(frames):
        frame.paste((200, 30, 30, 255), (20 * number, 0, 20 * number + 20, 40))
    data = studio.file(
        frames[0], Format.WEBP, save_all=True, append_images=frames[1:], duration=100, lossless=True
    )
    image = Image.open(BytesIO(variant(data, Format.WEBP, target)))
    for number in range(3):
        image.seek(number)
        alpha = image.convert("RGBA").getchannel("A")
        assert [alpha.getpixel((10 * part + 5, 10)) > 128 for part in range(3)] == [  # type: ignore[operator]
            part == number for part in range(3)
        ]


def test_the_picture_for_viewers_without_animation_is_no_frame(studio: Any) -> None:
    pictures = [studio.photo(60, 40, seed) for seed in range(3)]
    data = studio.file(
        studio.photo(60, 40, 9),
        Format.PNG,
        save_all=True,
        append_images=pictures,
        default_image=True,
        duration=80,
    )
    assert frame_count(open_image(Format.PNG, data)) == 3
    assert durations(variant(data, Format.PNG, Format.WEBP)) == [80, 80, 80]
    first = studio.opened(variant(data, Format.PNG, Format.PNG))
    assert studio.difference(first, pictures[0].resize((30, 20))) < 6


@given(st.lists(st.integers(0, 700), min_size=1, max_size=30))
def test_rounding_to_hundredths_keeps_the_length_of_the_whole(times: list[int]) -> None:
    ticks = to_centiseconds(times)
    assert all(tick >= 0 and tick % 10 == 0 for tick in ticks)
    assert abs(sum(ticks) - sum(times)) <= 10


def test_few_colours_are_kept_exactly_by_a_gif(studio: Any) -> None:
    image = studio.photo().quantize(40).convert("RGB")
    assert studio.difference(quantize(image), image) == 0


@given(st.integers(1, 255))
def test_alpha_becomes_all_or_nothing_at_half(alpha: int) -> None:
    result = quantize(Image.new("RGBA", (4, 4), (10, 200, 30, alpha)))
    assert (result.getpixel((0, 0)) == TRANSPARENT) is (alpha < 128)


def block_of(picture: Image.Image) -> bytes:
    """The image block of a one-frame GIF, with its colour table made local."""
    buffer = BytesIO()
    picture.save(buffer, "GIF")
    data = buffer.getvalue()
    flags = data[10]
    table = data[13 : 13 + 3 * 2 ** ((flags & 7) + 1)]
    at = data.index(b",", 13 + len(table))
    return data[at : at + 9] + bytes([0x80 | flags & 7]) + table + data[at + 10 : -1]


@pytest.mark.parametrize("target", ANIMATED)
def test_a_frame_that_leaves_the_screen_of_a_gif_is_cut_off_there(target: Format) -> None:
    small, large = Image.new("RGB", (10, 10), "red"), Image.new("RGB", (25, 15), "blue")
    screen = b"GIF89a\x0a\x00\x0a\x00\x00\x00\x00"
    data = screen + block_of(small) + block_of(large) + b";"
    assert [frame.size for frame in ImageSequence.Iterator(Image.open(BytesIO(data)))] == [(10, 10), (25, 15)]
    size = Size(10, 10)
    job = RenderJob(Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size), target, None, animated=True)
    made = Image.open(BytesIO(render(job, Format.GIF, data)[1][0]))
    assert (made.size, frame_count(made)) == ((10, 10), 2)
