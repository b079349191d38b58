"""Compare settings of libwebp's encoder for masters: bytes, SSIMULACRA2 and CPU time.

    python -m bench.webp_settings IMAGE.jpg… [--megapixels 2]

Needs `cwebp` (Debian package webp), as Pillow offers of these settings the method only, and `ssimulacra2`
(PyPI). Each photograph is scaled, and encoded at the quality of its upload with each setting, in alternation.
The output has the means, as ratios to the settings of a master, and the difference of the scores.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from bench.peers import machine
from bench.quality import score
from bench.upload import scaled
from PIL import Image, ImageOps
from PIL.JpegImagePlugin import JpegImageFile

from imagehost_core.pixels.decoded_upload import match_source_quality

AS_STORED = "-m 2"
SETTINGS = (
    AS_STORED, "-m 0", "-m 1", "-m 3", "-m 4", "-m 2 -segments 1", "-m 2 -segments 2", "-m 2 -f 0",
    "-m 2 -f 30", "-m 2 -sns 0", "-m 2 -sns 0 -segments 1 -f 0", "-m 2 -sns 80", "-m 2 -pass 2",
    "-m 1 -segments 1 -f 0", "-m 2 -partition_limit 50", "-m 2 -preset photo",
)  # fmt: skip


def encode(source: Path, target: Path, quality: int, setting: str) -> float:
    """Run cwebp; return its CPU time in seconds."""
    preset, _, rest = setting.partition(" -preset ")
    presets = ["-preset", rest] if rest else []
    command = [
        "cwebp",
        "-quiet",
        *presets,
        "-q",
        str(quality),
        *preset.split(),
        str(source),
        "-o",
        str(target),
    ]
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Print a line for each setting."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("images", nargs="+", type=Path)
    parser.add_argument("--megapixels", type=float, default=2.0)
    options = parser.parse_args()
    print(machine())
    results: dict[str, list[tuple[float, float, float]]] = {setting: [] for setting in SETTINGS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, target, reference = folder / "source.ppm", folder / "out.webp", folder / "reference.png"
        for file in options.images:
            image = Image.open(file)
            tables = image.quantization.get(0) if isinstance(image, JpegImageFile) else None
            quality = match_source_quality(tables)
            pixels = scaled(ImageOps.exif_transpose(image).convert("RGB"), options.megapixels)
            pixels.save(source)
            pixels.save(reference, compress_level=1)
            base: tuple[float, float, float] | None = None
            for setting, values in results.items():
                seconds = min(encode(source, target, quality, setting) for _ in range(2))
                own = (target.stat().st_size, seconds, score(reference, Image.open(target), folder))
                base = base or own
                values.append((own[0] / base[0], own[1] / base[1], own[2] - base[2]))
    print(f"{len(options.images)} photographs of {options.megapixels:g} megapixels")
    for setting, values in results.items():
        size, seconds, points = map(statistics.mean, zip(*values, strict=True))
        print(f"{setting:32} {size:.3f} × the bytes, {seconds:.2f} × the CPU time, {points:+.2f} points")


if __name__ == "__main__":
    main()
