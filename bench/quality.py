"""Compare the quality of variants with sharp's, by SSIMULACRA2 at equal bytes, against two references.

    python bench/quality.py IMAGE.jpg… [--format webp] [--widths 320,640,1280]

Needs `ssimulacra2` (PyPI) in the environment, and sharp through Node.js and `NODE_PATH`. For each image and
width, imagehost renders from the stored files as in production, and sharp from the upload, at two adjacent
qualities with fewer and more bytes; its score at equal bytes is interpolated. The references are the upload
downscaled by Lanczos, in linear light and in gamma-encoded values, which is how sharp resizes by default. A
second sharp is told to resize in linear light.

Six photographs of 2.5 to 5 megapixels that were not used to choose any parameter are in the Debian package
`mate-backgrounds`, in `/usr/share/backgrounds/mate/nature`: Garden, LadyBird, Storm, TwoWings, Wood and
YellowFlower.
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
from math import log
from pathlib import Path

from PIL import Image

from imagehost_core.formats import FORMATS, Format, sniff
from imagehost_core.jobs import IngestJob, RenderJob, pick_source
from imagehost_core.pixels.colour import normalize, to_srgb
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.linear_light import LINEAR_TO_SRGB, SRGB_TO_LINEAR
from imagehost_core.pixels.render import render
from imagehost_core.pixels.source import apply_orientation
from imagehost_core.transform import Size, Transform, plan

WIDTHS = "320,640,1280"
SHARP_QUALITIES = {Format.JPEG: range(70, 96), Format.WEBP: range(70, 96), Format.AVIF: range(40, 80, 2)}
COMPARISONS = (
    "linear-light reference, sharp's defaults",
    "gamma-encoded reference, sharp's defaults",
    "linear-light reference, sharp in linear light",
)

SHARP_SCRIPT = """
const sharp = require('sharp'), [file, width, fmt, qualities, minimum] = process.argv.slice(1)
const run = async () => {
  for (const isLinear of [false, true]) {
    const files = []
    for (const quality of JSON.parse(qualities)) {
      const image = sharp(file).autoOrient()
      if (isLinear) image.pipelineColourspace('scrgb')
      files.push(await image.resize(Number(width)).toFormat(fmt, { quality }).toBuffer())
      if (files.length > 1 && files.at(-1).length >= Number(minimum)) break
    }
    for (const data of files.slice(-2)) console.log(data.toString('base64'))
  }
}
run()
"""


def score(reference: Path, image: Image.Image, folder: Path) -> float:
    """Return the SSIMULACRA2 score of an image against the reference."""
    path = folder / "variant.png"
    image.convert("RGB").save(path, compress_level=1)
    return float(import_module("ssimulacra2").compute_ssimulacra2(str(reference), str(path)))


def linear_reference(image: Image.Image, size: Size) -> Image.Image:
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
    job = RenderJob(steps, fmt, FORMATS[fmt].default_quality)
    size = pick_source(result.derivatives, job, result.size)
    source_name, source = "master", master or data
    if size is not None:
        source_name, source = f"derivative {size}", derivatives[result.derivatives.index(size)]
    _, (blob,) = render(job, sniff(source[:16]) or Format.AVIF, source)
    return steps.output, source_name, blob


def render_with_sharp(file: Path, width: int, fmt: Format, minimum: int) -> list[list[bytes]]:
    """Return sharp's variants by its defaults, and those resized in linear light.

    Each are two: the last with fewer than so many bytes, and the next.
    """
    qualities = json.dumps(list(SHARP_QUALITIES[fmt]))
    command = ["node", "-e", SHARP_SCRIPT, str(file), str(width), fmt.value, qualities, str(minimum)]
    process = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    files = [b64decode(line) for line in process.stdout.splitlines()]
    return [files[:2], files[2:]]


def score_at(length: int, variants: list[bytes], reference: Path, folder: Path) -> float:
    """Return the score of two variants, interpolated at a number of bytes."""
    below, above = (score(reference, Image.open(BytesIO(variant)), folder) for variant in variants)
    step = log(len(variants[1]) / len(variants[0]))
    return below + (above - below) * (log(length / len(variants[0])) / step if step else 0)


def compare(file: Path, width: int, fmt: Format, folder: Path) -> list[float]:
    """Print one line; return the difference from sharp's score for each of `COMPARISONS`."""
    data = file.read_bytes()
    size, source_name, blob = render_variant(data, width, fmt)
    source = open_image(sniff(data[:16]) or Format.JPEG, data)
    original = to_srgb(normalize(apply_orientation(source.first_frame(), source.orientation)))
    linear, gamma = folder / "linear.png", folder / "gamma.png"
    linear_reference(original, size).save(linear, compress_level=1)
    original.resize((size.width, size.height), Image.Resampling.LANCZOS).save(gamma, compress_level=1)
    default, told = render_with_sharp(file, width, fmt, len(blob))
    own = Image.open(BytesIO(blob))
    own_linear, own_gamma = (score(reference, own, folder) for reference in (linear, gamma))
    differences = [
        own_linear - score_at(len(blob), default, linear, folder),
        own_gamma - score_at(len(blob), default, gamma, folder),
        own_linear - score_at(len(blob), told, linear, folder),
    ]
    print(
        f"{file.name[:20]:20} {fmt.value} {size!s:>10} from {source_name:21} {len(blob):8,} B"
        f" {own_linear:5.1f}  " + "  ".join(f"{difference:+5.1f}" for difference in differences),
        flush=True,
    )
    return differences


def main() -> None:
    """Compare every image at every width, and print the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("images", nargs="+", type=Path, help="large JPEG photographs")
    parser.add_argument("--format", choices=["jpeg", "webp", "avif"], default="webp")
    parser.add_argument("--widths", default=WIDTHS, help="in pixels, with commas")
    options = parser.parse_args()
    fmt, widths = Format(options.format), [int(width) for width in options.widths.split(",")]
    differences = []
    with tempfile.TemporaryDirectory() as name:
        for file in options.images:
            full = Image.open(file).width
            differences += [compare(file, width, fmt, Path(name)) for width in widths if width < full]
    for title, values in zip(COMPARISONS, zip(*differences, strict=True), strict=True):
        print(f"{title:47} mean {statistics.mean(values):+5.1f}, worst {min(values):+5.1f}")


if __name__ == "__main__":
    main()
