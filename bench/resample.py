"""Compare the native resampler, the Pillow resampler (same result), and Pillow's 8-bit resizing.

    python -m bench.resample [IMAGE.jpg] [--rounds 9]

Without an argument, an image of 2725×2225 pixels is generated. Each line is one downscale, from the image or
from its derivative of 1,024 pixels, with the pixels in memory. Rounds alternate, and the median is printed.
The 8-bit resizing averages gamma-encoded samples instead of linear light.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bench.render import sample_image
from PIL import Image

from imagehost_core.pixels import resample_native, resample_pillow
from imagehost_core.pixels.linear_light import Box
from imagehost_core.transform import Size

DERIVATIVE_SIDE, SIDES = 1024, (1024, 720, 320)


def size_with_longer_side(image: Image.Image, side: int) -> Size:
    """Return the image's size scaled to a longer side."""
    scale = side / max(image.size)
    return Size(round(image.width * scale), round(image.height * scale))


def compare(image: Image.Image, size: Size, rounds: int) -> None:
    """Print the time of one downscale by each function, and its ratio to the native resampler."""
    box = Box(0, 0, image.width, image.height)
    functions: dict[str, Callable[[], object]] = {
        "native": lambda: resample_native.downscale(image, size, box),
        "Pillow": lambda: resample_pillow.downscale(image, size, box),
        "8-bit": lambda: image.resize((size.width, size.height), Image.Resampling.BICUBIC, reducing_gap=1.75),
    }
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds + 1):
        for name, function in functions.items():
            started = time.perf_counter()
            function()
            times[name].append((time.perf_counter() - started) * 1_000)
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    columns = (f"{name} {ms:6.1f} ms ({ms / medians['native']:4.1f} ×)" for name, ms in medians.items())
    print(f"  {Size(*image.size)!s:>11} → {size!s:>9}  {'   '.join(columns)}", flush=True)


def main() -> None:
    """Print every downscale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("image", nargs="?", type=Path, help="a large JPEG")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    image = Image.open(options.image).convert("RGB") if options.image else sample_image()
    derivative = resample_native.downscale(
        image, size_with_longer_side(image, DERIVATIVE_SIDE), Box(0, 0, *image.size)
    )
    for name, source in (("without alpha", image), ("with alpha", image.convert("RGBA"))):
        print(f"image {name}")
        for side in SIDES:
            compare(source, size_with_longer_side(source, side), options.rounds)
    print(f"derivative of {DERIVATIVE_SIDE:,} pixels")
    for side in SIDES[1:]:
        compare(derivative, size_with_longer_side(derivative, side), options.rounds)


if __name__ == "__main__":
    main()
