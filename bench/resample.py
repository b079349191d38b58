"""The compiled reducer beside Pillow: its floats, which do the same, and its 8-bit resizing, which does not.

    python -m bench.resample [PICTURE.jpg] [--rounds 9]

Without a picture one of 2725×2225 pixels is made. Each line is one reduction, from the picture or from a
reduction of 1,024 pixels; all get the same pixels in memory. Rounds alternate, and the median counts.
8-bit resizing averages numbers in place of light.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bench.render import made_picture
from PIL import Image

from imagehost_core.pixels import resample_native as compiled
from imagehost_core.pixels import resample_pillow as floats
from imagehost_core.pixels.linear_light import Box
from imagehost_core.transform import Size

KEY_SIDE, SIDES = 1024, (1024, 720, 320)


def reduced_to(image: Image.Image, side: int) -> Size:
    """Return the picture's size with that longer side."""
    scale = side / max(image.size)
    return Size(round(image.width * scale), round(image.height * scale))


def compete(image: Image.Image, size: Size, rounds: int) -> None:
    """Print one reduction by each of them, and how many times as long as ours it takes."""
    box = Box(0, 0, image.width, image.height)
    ways: dict[str, Callable[[], object]] = {
        "compiled": lambda: compiled.downscale(image, size, box),
        "floats": lambda: floats.downscale(image, size, box),
        "8-bit": lambda: image.resize((size.width, size.height), Image.Resampling.BICUBIC, reducing_gap=1.75),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            times[name].append((time.perf_counter() - started) * 1_000)
    medians = {name: statistics.median(found[1:]) for name, found in times.items()}
    shown = (f"{name} {ms:6.1f} ms ({ms / medians['compiled']:4.1f} ×)" for name, ms in medians.items())
    print(f"  {Size(*image.size)!s:>11} → {size!s:>9}  {'   '.join(shown)}", flush=True)


def main() -> None:
    """Print every reduction."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("picture", nargs="?", type=Path, help="a large JPEG")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    image = Image.open(options.picture).convert("RGB") if options.picture else made_picture()
    rung = compiled.downscale(image, reduced_to(image, KEY_SIDE), Box(0, 0, *image.size))
    for name, start in (("as it is", image), ("with an alpha", image.convert("RGBA"))):
        print(f"the picture {name}")
        for side in SIDES:
            compete(start, reduced_to(start, side), options.rounds)
    print(f"its reduction of {KEY_SIDE:,} pixels")
    for side in SIDES[1:]:
        compete(rung, reduced_to(rung, side), options.rounds)


if __name__ == "__main__":
    main()
