"""GIF: one palette, frames that store what changes, and extensions of metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType

from attrs import evolve
from PIL import Image, ImageChops

from imagehost_core.formats import Format
from imagehost_core.pixels.animation import Animation
from imagehost_core.pixels.formats.codec import SHOWN, Codec, IsKept
from imagehost_core.pixels.formats.gif_file import (
    APPLICATION,
    EXTENSION,
    GRAPHIC_CONTROL,
    LOOP_COUNTS,
    SCREEN_BYTES,
    TRAILER,
    GifBlock,
    colour_table_bytes,
    iter_blocks,
    read_gif,
    write_gif,
)
from imagehost_core.pixels.palette import TRANSPARENT_INDEX, index_pixels, quantize, shared_palette
from imagehost_core.pixels.save import Metadata
from imagehost_core.pixels.source import ComposedImage, SourceImage

GIF_TIME_UNIT = 10
"""The resolution of frame durations in GIF, in milliseconds."""
SHORTEST_GIF_TIME = 20
"""The shortest frame that browsers show for its own time, in milliseconds; they show one of 10 for 100."""
_GIF_KEPT_APPLICATIONS = (*LOOP_COUNTS, b"ICCRGBG1012")
"""The application extensions that affect how a GIF is shown: loop count and ICC profile."""


class GifCodec(Codec):
    """Of one palette; each frame stores the rectangle that changes."""

    format = Format.GIF
    plugin = "GIF"
    options = MappingProxyType({"optimize": False})
    keeps_profile = False

    def open(self, data: bytes) -> SourceImage:
        gif = read_gif(data)
        return ComposedImage(self.format, gif.size, len(gif.frames), gif.loop_count, stored=gif.frames)

    def filter(self, data: bytes, is_kept: IsKept) -> bytes:
        parts = [data[: SCREEN_BYTES + colour_table_bytes(data[10])]]
        for begin, end in iter_blocks(data):
            label, application = data[begin + 1 : begin + 2], data[begin + 3 : begin + 14]
            is_extension = data[begin : begin + 1] == EXTENSION
            # At the end of a file, the content of an extension may be missing. With a terminator it would be
            # empty, which the header scan does not accept.
            is_shown = begin + 2 < len(data) and (
                label == GRAPHIC_CONTROL or (label == APPLICATION and application in _GIF_KEPT_APPLICATIONS)
            )
            kind = SHOWN if is_shown or not is_extension else label + application
            if is_kept(kind, end - begin):
                # The terminator of the last sub-blocks may be missing.
                parts.append(data[begin:end].ljust(end - begin, b"\0"))
        return b"".join((*parts, TRAILER))

    def metadata_options(self, metadata: Metadata) -> dict[str, object]:
        return {}

    def prepare(self, image: Image.Image) -> tuple[Image.Image, Mapping[str, object]]:
        image = quantize(super().prepare(image)[0])
        return image, {name: value for name, value in image.info.items() if name == "transparency"}

    def encode_animation(
        self, animation: Animation, quality: int | None, metadata: Metadata, options: Mapping[str, object]
    ) -> bytes:
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

    None is below `SHORTEST_GIF_TIME`. The rounding error of each frame is carried over to the next, so the
    total duration is kept; what a frame gets to reach the shortest time is not taken from those after it.
    """
    rounded: list[int] = []
    error = 0
    for duration in durations:
        exact = duration + error
        rounded.append(max(SHORTEST_GIF_TIME, round(exact / GIF_TIME_UNIT) * GIF_TIME_UNIT))
        error = max(exact - rounded[-1], -GIF_TIME_UNIT // 2)
    return rounded
