"""Compare `render` without a host to Pillow on photographs: the same filter, format, quality and effort.

    python -m bench.standalone DIRECTORY [--rounds 9] [--width 300]

Each round renders every photograph with both, in alternation, from bytes in memory. Pillow decodes with
`draft`, resizes with its bicubic filter and `reducing_gap`, in gamma-encoded values where `render`
resizes in linear light, and encodes WebP with the same options. The ratio is that of the medians of the sums.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageOps

from imagehost_core import render
from imagehost_core.formats import FORMATS, Format
from imagehost_core.pixels.codecs import CODECS


def with_pillow(data: bytes, width: int) -> bytes:
    """Return the WebP variant that a program would make with Pillow."""
    opened = Image.open(BytesIO(data))
    opened.draft("RGB", (2 * width, 2 * round(opened.height * width / opened.width)))
    image = ImageOps.exif_transpose(opened).convert("RGB")
    size = (width, round(image.height * width / image.width))
    target = BytesIO()
    options = {**CODECS[Format.WEBP].options, "quality": FORMATS[Format.WEBP].default_quality}
    image.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0).save(target, "WEBP", **options)
    return target.getvalue()


def main() -> None:
    """Print the times and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--width", type=int, default=300)
    options = parser.parse_args()
    photographs = [path.read_bytes() for path in sorted(options.directory.iterdir()) if path.is_file()]
    functions: dict[str, Callable[[bytes], object]] = {
        "render": lambda data: render(data, w=options.width, fm="webp"),
        "Pillow": lambda data: with_pillow(data, options.width),
    }
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(options.rounds + 1):
        sums = dict.fromkeys(functions, 0.0)
        for data in photographs:
            for name, function in functions.items():
                started = time.process_time()
                function(data)
                sums[name] += time.process_time() - started
        for name, total in sums.items():
            times[name].append(total)
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    for name, seconds in medians.items():
        print(f"{name:8} {seconds * 1_000:8.1f} ms of CPU time for {len(photographs)} photographs")
    print(f"ratio    {medians['render'] / medians['Pillow']:8.2f}")


if __name__ == "__main__":
    main()
