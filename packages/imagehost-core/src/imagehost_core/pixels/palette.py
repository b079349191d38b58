"""Quantization to the 256 colours of a GIF, one of which may be transparent."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image

TRANSPARENT_INDEX = 255
"""The palette index of transparent pixels; the preceding indices are colours."""

ALPHA_THRESHOLD = 128
"""Alpha below this becomes transparent, since GIF has no partial transparency."""

SAMPLE_SIDE = 128
"""The maximum side of a frame's sample for the shared palette, in pixels."""
SAMPLE_FRAMES = 16
"""The approximate number of frames sampled for the shared palette."""


def quantize(image: Image.Image, palette: Image.Image | None = None) -> Image.Image:
    """Return the image in mode `P`, with `transparency` in its info if it has alpha.

    Args:
        image: An image in mode `RGB` or `RGBA`.
        palette: An image in mode `P` whose first 255 colours are used, or `None` for an adaptive palette.
    """
    rgb = image.convert("RGB")
    result = rgb.quantize(palette=palette or _adaptive_palette(rgb), dither=Image.Dither.FLOYDSTEINBERG)
    if image.mode == "RGBA":
        transparent = image.getchannel("A").point(
            [255 if alpha < ALPHA_THRESHOLD else 0 for alpha in range(256)]
        )
        result.paste(TRANSPARENT_INDEX, mask=transparent)
        colours = (result.getpalette("RGB") or [])[: 3 * TRANSPARENT_INDEX]
        result.putpalette(colours + [0] * (768 - len(colours)))
        result.info["transparency"] = TRANSPARENT_INDEX
    return result


def shared_palette(frames: Sequence[Image.Image]) -> Image.Image:
    """Return an image whose palette suits all frames of an animation.

    With one palette per frame, the colours of static areas would flicker, and every frame would be stored in
    full.

    Args:
        frames: Images in mode `RGB` or `RGBA`, all of one size.
    """
    step = max(1, len(frames) // SAMPLE_FRAMES)
    samples = [frame.convert("RGB") for frame in frames[::step]]
    side = (min(SAMPLE_SIDE, frames[0].width), min(SAMPLE_SIDE, frames[0].height))
    sheet = Image.new("RGB", (side[0], side[1] * len(samples)))
    for index, sample in enumerate(samples):
        sheet.paste(sample.resize(side, Image.Resampling.NEAREST), (0, index * side[1]))
    return _adaptive_palette(sheet)


def _adaptive_palette(rgb: Image.Image) -> Image.Image:
    """Return an image with a palette of at most 255 colours; exact where the image has no more.

    Otherwise an octree is closer than a median cut, in a hundredth of the time: on a photograph of 320×240
    pixels a root mean square error of 4.4 levels against 5.1, in 1 ms against 160 ms.
    """
    is_exact = rgb.getcolors(TRANSPARENT_INDEX) is not None
    return rgb.quantize(
        TRANSPARENT_INDEX, Image.Quantize.MEDIANCUT if is_exact else Image.Quantize.FASTOCTREE
    )
