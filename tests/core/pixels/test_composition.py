"""Animations are composed as browsers do: random GIFs and APNGs against a reference, pixel by pixel."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops, ImageSequence
from tests.unusual_files import GIF_COLOURS, GifFrame, gif, png_chunk

from imagehost_core.formats import Format
from imagehost_core.headers.scanner import scan
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform import ORIGIN, Plan, Size

GIF, PNG, WEBP = Format.GIF, Format.PNG, Format.WEBP
CLEAR, RESTORE = 2, 3
EMPTY = (0, 0, 0, 0)
Pixel = tuple[int, int, int, int]


def reference(size: tuple[int, int], frames: list[GifFrame]) -> Iterator[list[Pixel]]:
    """Yield the canvas with each frame, by the rules that browsers share."""
    canvas: dict[tuple[int, int], Pixel] = {(x, y): EMPTY for y in range(size[1]) for x in range(size[0])}
    for frame in frames:
        before = dict(canvas)
        disposal = frame.disposal if frame.has_control else 0
        area = []
        for number, index in enumerate(frame.indices):
            at = frame.left + number % frame.width, frame.top + number // frame.width
            if at in canvas:
                area.append(at)
                if not frame.has_control or index != frame.transparent:
                    canvas[at] = GIF_COLOURS[index]
        yield list(canvas.values())
        if disposal in (RESTORE, 4):
            canvas = before
        elif disposal == CLEAR:
            canvas |= dict.fromkeys(area, EMPTY)


SIZE = (5, 4)


@st.composite
def gif_frames(draw: st.DrawFn) -> GifFrame:
    left, top = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    width, height = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    return GifFrame(
        left,
        top,
        width,
        draw(st.lists(st.integers(0, 3), min_size=width * height, max_size=width * height)),
        draw(st.integers(0, 7)),
        draw(st.integers(0, 30)),
        draw(st.none() | st.integers(0, 3)),
        draw(st.booleans()),
    )


animations = st.lists(gif_frames(), min_size=1, max_size=6)


def visible(image: Image.Image) -> list[Pixel]:
    pixels = list(struct.iter_unpack("4B", image.convert("RGBA").tobytes()))
    return [pixel if pixel[3] else EMPTY for pixel in pixels]


def canvas_of(frames: list[GifFrame]) -> tuple[int, int]:
    first = frames[0]
    return max(SIZE[0], first.left + first.width), max(SIZE[1], first.top + first.height)


@given(animations, st.integers(0, 3))
def test_a_gif_is_composed_as_browsers_do(frames: list[GifFrame], background: int) -> None:
    data = gif(SIZE, frames, background)
    assert scan(BytesIO(data), len(data)).frames == len(frames)
    source = open_image(GIF, data)
    expected = list(reference(canvas_of(frames), frames))
    assert [visible(frame) for frame, _ in source.frames()] == expected
    assert visible(source.first_frame()) == expected[0]


@given(animations)
def test_a_stored_webp_of_a_gif_shows_the_same_frames_for_the_same_time(frames: list[GifFrame]) -> None:
    data = gif(SIZE, frames)
    result, (master, *_) = ingest(IngestJob(GIF, requested_format=WEBP, quality=100), data)
    expected = list(reference(canvas_of(frames), frames))
    shown = expected if len(frames) > 1 else expected[:1]
    assert result.has_alpha is any(EMPTY in pixels for pixels in shown)
    if len(frames) > 1:
        # Equal consecutive frames become one.
        distinct = [pixels for n, pixels in enumerate(shown) if n == 0 or pixels != shown[n - 1]]
        assert result.frames <= len(frames)
        times = [100 if not f.has_control or f.delay <= 1 else 10 * f.delay for f in frames]
        image, total = Image.open(BytesIO(master)), 0
        if result.frames == 1:
            return
        for index, frame in enumerate(ImageSequence.Iterator(image)):
            frame.load()
            total += round(frame.info["duration"])
            if len(distinct) == result.frames:
                alphas = [pixel[3] for pixel in visible(frame)]
                assert alphas == [pixel[3] for pixel in distinct[index]]
        assert total == sum(times)


@given(animations)
def test_a_gif_of_a_gif_shows_the_same_frames_for_the_same_time(frames: list[GifFrame]) -> None:
    data, size = gif(SIZE, frames), Size(*canvas_of(frames))
    job = RenderJob(Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size), GIF, None, animated=True)
    result, (variant,) = render(job, GIF, data)
    shown = [(visible(frame), time) for frame, time in open_image(GIF, variant).frames()]
    expected: list[tuple[list[Pixel], int]] = []
    for pixels, frame in zip(reference(canvas_of(frames), frames), frames, strict=True):
        time = 100 if not frame.has_control or frame.delay <= 1 else 10 * frame.delay
        if expected and expected[-1][0] == pixels:
            # Equal consecutive frames become one.
            time += expected.pop()[1]
        expected.append((pixels, time))
    assert result.frames == len(expected)
    assert [pixels for pixels, _ in shown] == [pixels for pixels, _ in expected]
    assert len(expected) == 1 or [time for _, time in shown] == [time for _, time in expected]


def test_pixels_of_a_gif_that_do_not_change_do_not_shimmer(factory: Any) -> None:
    background, frames = factory.photo(), []
    for step in range(6):
        frames.append(background.copy())
        frames[-1].paste((255, 0, 0), (20 * step, 40, 20 * step + 30, 60))
    data = factory.encode(
        frames[0], WEBP, save_all=True, append_images=frames[1:], duration=50, lossless=True
    )
    size = Size(*background.size)
    job = RenderJob(Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size), GIF, None, animated=True)
    variant = render(job, WEBP, data)[1][0]
    shown = [frame.convert("RGB") for frame, _ in open_image(GIF, variant).frames()]
    for one, other, before, after in zip(frames, frames[1:], shown, shown[1:], strict=False):
        changed = ImageChops.difference(one, other).getbbox()
        assert changed is not None
        left, top, right, bottom = ImageChops.difference(before, after).getbbox() or changed
        assert left >= changed[0]
        assert top >= changed[1]
        assert right <= changed[2]
        assert bottom <= changed[3]
    # The frames after the first store their rectangles only.
    first = len(render(attrs.evolve(job, animated=False), WEBP, data)[1][0])
    assert len(variant) < 1.5 * first


@pytest.mark.parametrize("delay", [0, 1, 2, 10])
def test_a_delay_of_10_milliseconds_and_less_is_100(delay: int) -> None:
    frames = [GifFrame(0, 0, 5, [index] * 20, delay=delay) for index in range(3)]
    master = ingest(IngestJob(GIF, requested_format=WEBP), gif(SIZE, frames))[1][0]
    expected = 100 if delay <= 1 else 10 * delay
    image, shown = Image.open(BytesIO(master)), []
    for frame in ImageSequence.Iterator(image):
        frame.load()
        shown.append(frame.info["duration"])
    assert shown == [expected] * 3


@st.composite
def apng_frames(
    draw: st.DrawFn, *, whole: bool = False
) -> tuple[tuple[int, int, int, int], int, int, list[Pixel]]:
    left, top = (0, 0) if whole else (draw(st.integers(0, 4)), draw(st.integers(0, 3)))
    width = SIZE[0] if whole else draw(st.integers(1, SIZE[0] - left))
    height = SIZE[1] if whole else draw(st.integers(1, SIZE[1] - top))
    pixels = draw(
        st.lists(st.sampled_from([*GIF_COLOURS, EMPTY]), min_size=width * height, max_size=width * height)
    )
    return (left, top, width, height), draw(st.integers(0, 2)), draw(st.integers(0, 1)), pixels


@given(st.data(), st.booleans(), st.booleans())
def test_an_animated_png_is_composed_as_browsers_do(
    data: st.DataObject, has_alpha: bool, separate_default: bool
) -> None:
    frames = [data.draw(apng_frames(whole=not separate_default))]
    frames += data.draw(st.lists(apng_frames(), min_size=1, max_size=4))
    if not has_alpha:
        # Without an alpha channel, cleared areas are transparent all the same.
        frames = [
            (box, disposal, blend, [(*pixel[:3], 255) for pixel in pixels])
            for box, disposal, blend, pixels in frames
        ]
    step = 4 if has_alpha else 3
    parts, sequence = [], 0
    if separate_default:
        rows = b"".join(b"\0" + bytes(step * SIZE[0]) for _ in range(SIZE[1]))
        parts.append(png_chunk(b"IDAT", zlib.compress(rows)))
    for number, ((left, top, width, height), disposal, blend, pixels) in enumerate(frames):
        control = struct.pack(">5I2H2B", sequence, width, height, left, top, 1, 10, disposal, blend)
        parts.append(png_chunk(b"fcTL", control))
        rows = b"".join(
            b"\0" + b"".join(bytes(pixel[:step]) for pixel in pixels[width * y : width * (y + 1)])
            for y in range(height)
        )
        is_default = not number and not separate_default
        kind, prefix = (b"IDAT", b"") if is_default else (b"fdAT", struct.pack(">I", sequence + 1))
        parts.append(png_chunk(kind, prefix + zlib.compress(rows)))
        sequence += 1 if is_default else 2
    header = struct.pack(">IIBBBBB", *SIZE, 8, 6 if has_alpha else 2, 0, 0, 0)
    head = png_chunk(b"IHDR", header) + png_chunk(b"acTL", struct.pack(">II", len(frames), 0))
    file = b"".join((b"\x89PNG\r\n\x1a\n", head, *parts, png_chunk(b"IEND", b"")))
    assert scan(BytesIO(file), len(file)).frames == len(frames) + separate_default

    canvas: dict[tuple[int, int], Pixel] = {(x, y): EMPTY for y in range(SIZE[1]) for x in range(SIZE[0])}
    expected = []
    for (left, top, width, height), disposal, blend, pixels in frames:
        before = dict(canvas)
        area = [(left + x, top + y) for y in range(height) for x in range(width)]
        for at, pixel in zip(area, pixels, strict=True):
            canvas[at] = pixel if pixel[3] or not blend else canvas[at]
        expected.append(list(canvas.values()))
        canvas = canvas | dict.fromkeys(area, EMPTY) if disposal == 1 else before if disposal == 2 else canvas
    assert [visible(frame) for frame, _ in open_image(PNG, file).frames()] == expected
