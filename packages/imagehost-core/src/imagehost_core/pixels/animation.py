"""Reading and writing of animations: frames, durations and loop counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import frozen
from PIL import Image

from imagehost_core.formats import FORMATS, Format
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.decode import SourceImage, set_alpha_flag
from imagehost_core.pixels.encode import NO_METADATA, NO_OPTIONS, Metadata, metadata_options, save
from imagehost_core.pixels.palette import TRANSPARENT_INDEX, quantize, shared_palette

GIF_TIME_UNIT = 10
"""The resolution of frame durations in GIF, in milliseconds."""

DISPOSAL_KEEP, DISPOSAL_CLEAR = 1, 2
"""Disposal methods of GIF frames (GIF89a, section 23): leave the frame in place, or restore to background."""


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


def read_animation(source: SourceImage, transform: Callable[[Image.Image], Image.Image]) -> Animation:
    """Decode and transform every frame of an opened file.

    Args:
        source: The opened file.
        transform: Applied to each decoded frame, so that only one frame at a time is held in full size.

    Raises:
        ValidationError: The decoder rejects a frame.
    """
    frames, durations = zip(
        *((transform(frame), duration) for frame, duration in source.frames()), strict=True
    )
    return Animation(frames, durations, source.loop_count)


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
    codec = CODECS[fmt]
    width, height = animation.frames[0].size
    encoder_options = {
        **codec.animation_options(width * height * len(animation.frames)),
        **metadata_options(fmt, metadata),
        **options,
    }
    if fmt is Format.GIF:
        frames, animation_options = _gif_frames(animation)
    else:
        frames = list(animation.frames)
        animation_options = {
            "duration": list(animation.durations),
            "loop": animation.loop_count,
            "quality": FORMATS[fmt].default_quality if quality is None else quality,
            "background": (0, 0, 0, 0),
        }
    data = save(frames, codec.name, {**encoder_options, **animation_options})
    return set_alpha_flag(data) if any(frame.mode == "RGBA" for frame in frames) else data


def _gif_frames(animation: Animation) -> tuple[list[Image.Image], dict[str, object]]:
    """Return the frames quantized to one palette, and Pillow's options for them."""
    palette = shared_palette(animation.frames)
    has_alpha = any(frame.mode == "RGBA" for frame in animation.frames)
    mode = "RGBA" if has_alpha else "RGB"
    frames = [quantize(frame.convert(mode), palette) for frame in animation.frames]
    options: dict[str, object] = {
        "duration": to_centiseconds(animation.durations),
        "disposal": DISPOSAL_CLEAR if has_alpha else DISPOSAL_KEEP,
    }
    if has_alpha:
        options["transparency"] = TRANSPARENT_INDEX
    if animation.loop_count != 1:
        options["loop"] = max(0, animation.loop_count - 1)
    return frames, options


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
