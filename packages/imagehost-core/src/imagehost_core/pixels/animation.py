"""Animations: frames of equal size, their durations and their loop count."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen
from PIL import Image

from imagehost_core.pixels.source import SourceImage

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
