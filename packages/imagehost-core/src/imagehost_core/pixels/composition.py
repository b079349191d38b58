"""Composition of the frames of an animated GIF or PNG, as browsers do it.

Frames are stored as changes of a canvas that is transparent at first. Pillow composes them in other ways: it
clears to a palette's background, and to black in a PNG without an alpha channel. So it decodes single frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from attrs import frozen
from PIL import Image

INFINITE = 0
"""The loop count of an animation that never ends."""
TRANSPARENT = (0, 0, 0, 0)


class Disposal(Enum):
    """What happens to the area of a frame after its time."""

    KEEP = 0
    CLEAR = 1
    RESTORE = 2


@frozen
class StoredFrame:
    """A frame as the file stores it.

    Attributes:
        decode: Returns the pixels of the frame, in any mode.
        left: The column of the canvas where they begin.
        top: The row of the canvas where they begin.
        duration: The display time in milliseconds, as stored.
        disposal: What happens after that time.
        is_blended: Whether the frame is drawn over the canvas; else it replaces its area.
    """

    decode: Callable[[], Image.Image]
    left: int = 0
    top: int = 0
    duration: float = 0
    disposal: Disposal = Disposal.KEEP
    is_blended: bool = True


def compose(size: tuple[int, int], frames: Iterable[StoredFrame]) -> Iterator[Image.Image]:
    """Yield the canvas with each frame, in mode `RGBA`.

    Args:
        size: Width and height of the canvas in pixels. Frames are cropped to it.
        frames: The frames in order.
    """
    canvas = Image.new("RGBA", size, TRANSPARENT)
    for frame in frames:
        image = frame.decode()
        pixels = image.convert("RGBA")
        previous, canvas = canvas, canvas.copy()
        if frame.is_blended:
            canvas.alpha_composite(pixels, (frame.left, frame.top))
        else:
            canvas.paste(pixels, (frame.left, frame.top))
        canvas.info = {"icc_profile": image.info.get("icc_profile")}
        yield canvas
        if frame.disposal is Disposal.RESTORE:
            canvas = previous
        elif frame.disposal is Disposal.CLEAR:
            canvas = canvas.copy()
            right, bottom = frame.left + pixels.width, frame.top + pixels.height
            canvas.paste(TRANSPARENT, (frame.left, frame.top, right, bottom))
