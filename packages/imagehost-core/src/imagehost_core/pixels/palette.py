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


def quantize(image: Image.Image) -> Image.Image:
    """Return the image in mode `P`, with `transparency` in its info if it has alpha.

    Args:
        image: An image in mode `RGB` or `RGBA`.
    """
    palette = _adaptive_palette(image.convert("RGB"))
    result = index_pixels(image, palette)
    colours = (palette.getpalette("RGB") or [])[: 3 * TRANSPARENT_INDEX]
    result.putpalette(colours + [0] * (768 - len(colours)))
    if image.mode == "RGBA":
        result.info["transparency"] = TRANSPARENT_INDEX
    return result


def index_pixels(image: Image.Image, palette: Image.Image) -> Image.Image:
    """Return the indices of the palette's colours that are nearest to the pixels, in mode `L`.

    Args:
        image: An image in mode `RGB` or `RGBA`. Transparent pixels get `TRANSPARENT_INDEX`.
        palette: An image in mode `P` whose first 255 colours are used.
    """
    quantized = image.convert("RGB").quantize(palette=palette, dither=Image.Dither.FLOYDSTEINBERG)
    indices = Image.frombytes("L", image.size, quantized.tobytes())
    if image.mode == "RGBA":
        mask = image.getchannel("A").point([255 if alpha < ALPHA_THRESHOLD else 0 for alpha in range(256)])
        indices.paste(TRANSPARENT_INDEX, mask=mask)
    return indices


def shared_palette(frames: Sequence[Image.Image]) -> Image.Image:
    """Return an image whose palette suits all frames of an animation.

    With one palette per frame, the colours of static areas would flicker, and every frame would be stored in
    full.

    Args:
        frames: Images in mode `RGB` or `RGBA`, all of one size.
    """
    colours: set[object] = set()
    for frame in frames:
        found = frame.convert("RGB").getcolors(TRANSPARENT_INDEX)
        colours |= {colour for _, colour in found or ()}
        if found is None or len(colours) > TRANSPARENT_INDEX:
            break
    else:
        exact = Image.new("RGB", (len(colours), 1))
        exact.putdata(list(colours))
        return _adaptive_palette(exact)
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
