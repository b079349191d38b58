"""How animations are read frame by frame, and written again with their times and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from attrs import frozen
from PIL import Image, ImageFile

from imagehost_core.formats import Format
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.decode import decoder_errors, first_frame, frame_count
from imagehost_core.pixels.encode import NO_METADATA, NO_SETTINGS, Metadata, metadata_options, save
from imagehost_core.pixels.palette import quantize, shared_palette
from imagehost_core.pixels.webp_alpha_flag import set_alpha_flag

INFINITE = 0
"""How many times an animation is played that never ends."""

GIF_TIME_UNIT = 10
"""A GIF counts in hundredths of a second, in milliseconds."""

KEEP, CLEAR = 1, 2
"""What a GIF does to a frame before the next (GIF89a, 23): leave it, or clear it."""


@frozen
class Animation:
    """Frames that follow one another, each complete in itself.

    Attributes:
        frames: In `RGB` or `RGBA`, all of one size, at least one.
        durations: How long each is shown, in milliseconds.
        plays: How many times all of it is played; `INFINITE` for no end.
    """

    frames: Sequence[Image.Image]
    durations: Sequence[int]
    loop_count: int


def read_animation(image: ImageFile.ImageFile, transform: Callable[[Image.Image], Image.Image]) -> Animation:
    """Return every frame of an opened file, as `made` of it.

    Args:
        image: The opened file.
        transform: What becomes of each decoded frame, so that no more than one is held in full size.

    Raises:
        ValidationError: The decoder refuses a frame.
    """
    frames: list[Image.Image] = []
    durations: list[int] = []
    for frame in frames_of(image):
        frames.append(transform(frame))
        durations.append(round(float(image.info.get("duration", 0))))
    return Animation(tuple(frames), tuple(durations), loop_count_of(image))


def frames_of(image: ImageFile.ImageFile) -> Iterator[Image.Image]:
    """Yield the decoded frames one after another, all of the first one's size.

    A GIF's later frame may leave the screen that its header promises: Pillow then grows the picture,
    and viewers cut the frame off. So do we.
    """
    with decoder_errors(image):
        start, count = first_frame(image), frame_count(image)
    box = (0, 0, *image.size)
    for number in range(start, start + count):
        with decoder_errors(image):
            image.seek(number)
            image.load()
        # The opened file itself would answer for all of its frames wherever one is expected.
        yield image.crop(box) if count > 1 else image


def loop_count_of(image: ImageFile.ImageFile) -> int:
    """Return how many times an animation is played.

    A GIF says how often it is played *again* (and no word for once); WebP and PNG say how often in
    all. 0 is *forever* for all three.
    """
    loop = image.info.get("loop")
    if image.format == "GIF":
        return 1 if loop is None else INFINITE if loop == 0 else int(loop) + 1
    return INFINITE if loop is None else int(loop)


def encode_animation(
    fmt: Format,
    animation: Animation,
    quality: int | None = None,
    *,
    metadata: Metadata = NO_METADATA,
    settings: Mapping[str, object] = NO_SETTINGS,
) -> bytes:
    """Return the animation as a WebP or a GIF.

    Args:
        fmt: `Format.WEBP` or `Format.GIF`.
        animation: What to write.
        quality: 1–100, or `None` for the default. Means nothing for GIF.
        metadata: What goes with the pixels; a GIF takes none.
        settings: For the encoder, beyond and before those of the table.
    """
    codec = CODECS[fmt]
    options = {**codec.options, **metadata_options(fmt, metadata), **settings}
    if fmt is Format.GIF:
        frames, more = _for_gif(animation)
    else:
        frames = list(animation.frames)
        more = {
            "duration": list(animation.durations),
            "loop": animation.loop_count,
            "quality": codec.quality if quality is None else quality,
            "background": (0, 0, 0, 0),
        }
    data = save(frames, codec.name, {**options, **more})
    return set_alpha_flag(data) if any(frame.mode == "RGBA" for frame in frames) else data


def _for_gif(animation: Animation) -> tuple[list[Image.Image], dict[str, object]]:
    palette = shared_palette(animation.frames)
    seen_through = any(frame.mode == "RGBA" for frame in animation.frames)
    mode = "RGBA" if seen_through else "RGB"
    frames = [quantize(frame.convert(mode), palette) for frame in animation.frames]
    options: dict[str, object] = {
        "duration": to_centiseconds(animation.durations),
        "disposal": CLEAR if seen_through else KEEP,
    }
    if seen_through:
        options["transparency"] = 255
    if animation.loop_count != 1:
        options["loop"] = max(0, animation.loop_count - 1)
    return frames, options


def to_centiseconds(durations: Sequence[int]) -> list[int]:
    """Return the durations in whole hundredths of a second, in milliseconds.

    What one frame loses by rounding goes to the next, so that the whole keeps its length.
    """
    ticks: list[int] = []
    exact = given = 0
    for duration in durations:
        exact += duration
        ticks.append(max(0, round((exact - given) / GIF_TIME_UNIT) * GIF_TIME_UNIT))
        given += ticks[-1]
    return ticks
