"""Reading and writing of animations: frames, durations and loop counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

from attrs import evolve, frozen
from PIL import Image, ImageChops

from imagehost_core.formats import FORMATS, Format
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.decode import SourceImage, set_alpha_flag
from imagehost_core.pixels.encode import NO_METADATA, NO_OPTIONS, Metadata, metadata_options, save
from imagehost_core.pixels.gif import GifBlock, write_gif
from imagehost_core.pixels.palette import TRANSPARENT_INDEX, index_pixels, shared_palette

GIF_TIME_UNIT = 10
"""The resolution of frame durations in GIF, in milliseconds."""
MAX_DURATION = 2**31 // 1_000
"""The longest frame, in milliseconds: WebP has 24 bits for it, and its encoder 31 for all of up to 1,000."""
MAX_LOOP_COUNT = 2**16 - 1
"""The highest loop count of WebP. GIF can store one more, and PNG 32 bits."""


@frozen
class Animation:
    """Frames of equal size, each composited in full.

    Attributes:
        frames: Images in mode `RGB` or `RGBA`, at least one.
        durations: Display time of each frame, in milliseconds.
        loop_count: How many times the animation is played; `INFINITE` for no end.
    """

    frames: Sequence[Image.Image]
    durations: Sequence[int]
    loop_count: int

    def thinned(self, step: int) -> Animation:
        """Return every frame at a distance, shown as long as it and those after it that are left out."""
        durations = [
            min(sum(self.durations[start : start + step]), MAX_DURATION)
            for start in range(0, len(self.frames), step)
        ]
        return Animation(self.frames[::step], durations, self.loop_count)


def read_animation(
    source: SourceImage, transform: Callable[[Image.Image], Image.Image], step: int = 1
) -> Animation:
    """Decode and transform the frames of an opened file.

    Args:
        source: The opened file.
        transform: Applied to each decoded frame, so that only one frame at a time is held in full size.
        step: The distance of the frames that are kept; each is shown as long as it and those after it.

    Raises:
        ValidationError: The decoder rejects a frame.
    """
    frames = list[Image.Image]()
    durations = list[int]()
    for number, (frame, duration) in enumerate(source.frames()):
        if number % step == 0:
            frames.append(transform(frame))
            durations.append(duration)
        else:
            durations[-1] += duration
    times = [min(duration, MAX_DURATION) for duration in durations]
    return Animation(frames, times, min(source.loop_count, MAX_LOOP_COUNT))


def encode_animation(
    fmt: Format,
    animation: Animation,
    quality: int | None = None,
    *,
    metadata: Metadata = NO_METADATA,
    options: Mapping[str, object] = NO_OPTIONS,
) -> bytes:
    """Encode an animation as WebP or GIF.

    Args:
        fmt: `Format.WEBP` or `Format.GIF`.
        animation: The frames to encode.
        quality: 1–100, or `None` for the format's default. Ignored for GIF.
        metadata: Metadata to embed; ignored for GIF.
        options: Encoder options that override the codec's.
    """
    if fmt is Format.GIF:
        return _encode_gif(animation)
    codec = CODECS[fmt]
    width, height = animation.frames[0].size
    encoder_options = {
        **codec.animation_options(width * height * len(animation.frames)),
        **metadata_options(fmt, metadata),
        **options,
    }
    animation_options = {
        "duration": list(animation.durations),
        "loop": animation.loop_count,
        "quality": FORMATS[fmt].default_quality if quality is None else quality,
        "background": (0, 0, 0, 0),
    }
    data = save(animation.frames, codec.name, {**encoder_options, **animation_options})
    return set_alpha_flag(data) if any(frame.mode == "RGBA" for frame in animation.frames) else data


def _encode_gif(animation: Animation) -> bytes:
    """Return an animation as GIF; every frame stores the rectangle that changes.

    Pixels that do not change keep their palette entry, so that dithering does not shimmer, and are
    transparent within the rectangle. What the next frame clears belongs to the rectangle, too.
    """
    frames = animation.frames
    has_alpha = any(frame.mode == "RGBA" for frame in frames)
    mode = "RGBA" if has_alpha else "RGB"
    palette = shared_palette(frames)
    size = frames[0].size
    indexed: list[Image.Image] = []
    previous: Image.Image | None = None
    for frame in frames:
        current = frame.convert(mode)
        indices = index_pixels(current, palette)
        if previous is not None:
            indices.paste(indexed[-1], mask=_equal(current, previous))
        indexed.append(indices)
        previous = current
    transparent = Image.new("L", size, TRANSPARENT_INDEX)
    blocks: list[GifBlock] = []
    canvas = transparent
    durations = to_centiseconds(animation.durations)
    for index, (indices, duration) in enumerate(zip(indexed, durations, strict=True)):
        following = indexed[index + 1] if index + 1 < len(indexed) else indices
        stays = ImageChops.lighter(
            _equal(indices, transparent), ImageChops.invert(_equal(following, transparent))
        )
        cleared = ImageChops.invert(stays).getbbox()
        drawn = _bounds(ImageChops.difference(indices, canvas).getbbox(), cleared)
        if drawn is None and blocks:
            # Nothing changes, and nothing is cleared after it.
            blocks[-1] = evolve(blocks[-1], duration=blocks[-1].duration + duration)
            continue
        box = drawn or (0, 0, 1, 1)
        pixels = indices.copy()
        pixels.paste(TRANSPARENT_INDEX, mask=_equal(indices, canvas))
        blocks.append(GifBlock(pixels.crop(box), box[:2], duration, clears=cleared is not None))
        canvas = indices
        if cleared is not None:
            canvas = indices.copy()
            canvas.paste(TRANSPARENT_INDEX, box)
    return write_gif(
        size, (palette.getpalette("RGB") or [])[: 3 * TRANSPARENT_INDEX], blocks, animation.loop_count
    )


def _equal(one: Image.Image, other: Image.Image) -> Image.Image:
    """Return 255 where two images are equal in all bands, else 0."""
    difference = reduce(ImageChops.lighter, ImageChops.difference(one, other).split())
    return difference.point([255] + [0] * 255)


def _bounds(*boxes: tuple[int, int, int, int] | None) -> tuple[int, int, int, int] | None:
    """Return the box that contains all boxes; `None` if there are none."""
    given = [box for box in boxes if box is not None]
    if not given:
        return None
    left, top, right, bottom = zip(*given, strict=True)
    return min(left), min(top), max(right), max(bottom)


def to_centiseconds(durations: Sequence[int]) -> list[int]:
    """Return durations rounded to multiples of `GIF_TIME_UNIT`, in milliseconds.

    The rounding error of each frame is carried over to the next, so the total duration is kept.
    """
    rounded: list[int] = []
    exact = total = 0
    for duration in durations:
        exact += duration
        rounded.append(max(0, round((exact - total) / GIF_TIME_UNIT) * GIF_TIME_UNIT))
        total += rounded[-1]
    return rounded
