"""Compare the quality of variants with sharp's: SSIMULACRA2 against a full decode downscaled in linear light.

    python bench/quality.py IMAGE.jpg…

Needs `ssimulacra2` (PyPI) in the environment, and sharp through Node.js and `NODE_PATH`. For each image and
width, both render a JPEG from the upload; imagehost uses the stored files as in production. The reference is
downscaled by Lanczos, which is sharp's filter and not imagehost's. *At equal bytes* compares with sharp at
the lowest quality that has at least as many bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
from base64 import b64decode
from importlib import import_module
from io import BytesIO
from pathlib import Path

from attrs import frozen
from PIL import Image

from imagehost_core.formats import Format, sniff
from imagehost_core.jobs import IngestJob, RenderJob, pick_derivative
from imagehost_core.pixels.colour import normalize, to_srgb
from imagehost_core.pixels.decode import apply_orientation, image_orientation
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.linear_light import LINEAR_TO_SRGB, SRGB_TO_LINEAR
from imagehost_core.pixels.render import render
from imagehost_core.transform import Size, Transform, plan

WIDTHS = (320, 640, 720, 960, 1280)
QUALITY = 80
SHARP_QUALITIES = range(74, 95, 1)

SHARP_SCRIPT = """
const sharp = require('sharp'), [file, width, fmt, qualities] = process.argv.slice(1)
const run = async () => {
  for (const quality of JSON.parse(qualities)) {
    const data = await sharp(file).autoOrient().resize(Number(width)).toFormat(fmt, { quality }).toBuffer()
    console.log(JSON.stringify({ quality, data: data.toString('base64') }))
  }
}
run()
"""


@frozen
class Score:
    """A variant's size in bytes, and its SSIMULACRA2 score, 100 for identity with the reference."""

    size: int
    score: float


def score(reference: Path, image: Image.Image, folder: Path) -> float:
    """Return the SSIMULACRA2 score of an image against the reference."""
    path = folder / "variant.png"
    image.convert("RGB").save(path, compress_level=1)
    return float(import_module("ssimulacra2").compute_ssimulacra2(str(reference), str(path)))


def reference_of(image: Image.Image, size: Size) -> Image.Image:
    """Return the whole image downscaled in linear light by Lanczos."""
    channels = (
        channel.point(SRGB_TO_LINEAR, "F")
        .resize((size.width, size.height), Image.Resampling.LANCZOS)
        .convert("I")
        .point(LINEAR_TO_SRGB, "L")
        for channel in image.split()
    )
    return Image.merge("RGB", tuple(channels))


def render_variant(data: bytes, width: int, fmt: Format) -> tuple[Size, str, bytes]:
    """Return the size of imagehost's variant, the name of its source, and its bytes."""
    result, (master, *derivatives) = ingest(IngestJob(Format.JPEG), data)
    steps = plan(result.size, Transform(width=width))
    size = pick_derivative(result.derivatives, steps.resize)
    source_name, source = "master", master or data
    if size is not None:
        source_name, source = f"derivative {size}", derivatives[result.derivatives.index(size)]
    blob = render(RenderJob(steps, fmt, QUALITY), sniff(source[:16]) or Format.AVIF, source)[1][0]
    return steps.output, source_name, blob


def render_with_sharp(file: Path, width: int, fmt: Format) -> list[tuple[int, bytes]]:
    """Return sharp's variants and their qualities."""
    command = [
        "node",
        "-e",
        SHARP_SCRIPT,
        str(file),
        str(width),
        fmt.value,
        json.dumps(list(SHARP_QUALITIES)),
    ]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    variants = map(json.loads, process.stdout.splitlines())
    return [(variant["quality"], b64decode(variant["data"])) for variant in variants]


def compare(file: Path, width: int, fmt: Format, folder: Path) -> tuple[float, float]:
    """Print one line; return the difference from sharp's score at the same quality and at equal bytes."""
    data = file.read_bytes()
    size, source_name, blob = render_variant(data, width, fmt)
    image = Image.open(BytesIO(data))
    image.load()
    original = to_srgb(normalize(apply_orientation(image, image_orientation(image))))
    reference = folder / "reference.png"
    reference_of(original, size).save(reference, compress_level=1)
    imagehost_score = Score(len(blob), score(reference, Image.open(BytesIO(blob)), folder))
    variants = render_with_sharp(file, width, fmt)
    same_quality = next(data for quality, data in variants if quality == QUALITY)
    equal_bytes = next((data for _, data in variants if len(data) >= imagehost_score.size), variants[-1][1])
    sharp_scores = [
        Score(len(variant), score(reference, Image.open(BytesIO(variant)), folder))
        for variant in (same_quality, equal_bytes)
    ]
    print(
        f"{file.name[:24]:24} {fmt} {size!s:>10} from {source_name:21}"
        f" imagehost {imagehost_score.size:8,} B {imagehost_score.score:5.1f}"
        f" | sharp q{QUALITY} {sharp_scores[0].size:8,} B {sharp_scores[0].score:5.1f}"
        f" | at equal bytes {sharp_scores[1].size:8,} B {sharp_scores[1].score:5.1f}",
        flush=True,
    )
    return imagehost_score.score - sharp_scores[0].score, imagehost_score.score - sharp_scores[1].score


def main() -> None:
    """Compare every image at every width, and print the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("images", nargs="+", type=Path, help="large JPEG photographs")
    parser.add_argument("--format", choices=["jpeg", "webp"], default="jpeg")
    options = parser.parse_args()
    fmt, differences = Format(options.format), []
    with tempfile.TemporaryDirectory() as name:
        for file in options.images:
            full = max(Image.open(file).size)
            differences += [compare(file, width, fmt, Path(name)) for width in WIDTHS if 2 * width <= full]
    for title, values in zip(
        ("the same quality", "equal bytes"), zip(*differences, strict=True), strict=True
    ):
        print(
            f"difference from sharp at {title}: mean {statistics.mean(values):+.1f}, worst {min(values):+.1f}"
        )


if __name__ == "__main__":
    main()
