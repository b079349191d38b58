"""How our variants look beside sharp's: SSIMULACRA2 against a full decode reduced in linear light.

    python bench/quality.py PICTURE.jpg…

Needs `ssimulacra2` (PyPI) in the environment, which is no dependency of ours, and sharp by node and
`NODE_PATH`. For each picture and width, both sides make JPEGs from the upload; ours are made as the
host makes them, from the smallest rung that is large enough. The reference is reduced by Lanczos, which
is sharp's filter and not ours. *At equal bytes* compares with sharp at the quality whose bytes are
nearest to ours from above.
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

SCRIPT = """
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
class Look:
    """A variant: its bytes, and how near it comes to the reference, 100 being the same."""

    size: int
    score: float


def score(reference: Path, image: Image.Image, folder: Path) -> float:
    """Return SSIMULACRA2 of a picture against the reference."""
    path = folder / "seen.png"
    image.convert("RGB").save(path, compress_level=1)
    return float(import_module("ssimulacra2").compute_ssimulacra2(str(reference), str(path)))


def reference_of(image: Image.Image, size: Size) -> Image.Image:
    """Return the whole picture reduced in linear light by Lanczos, with no haste."""
    channels = (
        channel.point(SRGB_TO_LINEAR, "F")
        .resize((size.width, size.height), Image.Resampling.LANCZOS)
        .convert("I")
        .point(LINEAR_TO_SRGB, "L")
        for channel in image.split()
    )
    return Image.merge("RGB", tuple(channels))


def ours(data: bytes, width: int, fmt: Format) -> tuple[Size, str, bytes]:
    """Return the size of our variant, what it was made from, and its bytes."""
    made, (master, *rungs) = ingest(IngestJob(Format.JPEG), data)
    steps = plan(made.size, Transform(width=width))
    size = pick_derivative(made.derivatives, steps.resize)
    origin, source = "master", master or data
    if size is not None:
        origin, source = f"rung {size}", rungs[made.derivatives.index(size)]
    blob = render(RenderJob(steps, fmt, QUALITY), sniff(source[:16]) or Format.AVIF, source)[1][0]
    return steps.output, origin, blob


def by_sharp(file: Path, width: int, fmt: Format) -> list[tuple[int, bytes]]:
    """Return sharp's variants with their qualities."""
    command = ["node", "-e", SCRIPT, str(file), str(width), fmt.value, json.dumps(list(SHARP_QUALITIES))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    answers = map(json.loads, done.stdout.splitlines())
    return [(answer["quality"], b64decode(answer["data"])) for answer in answers]


def compare(file: Path, width: int, fmt: Format, folder: Path) -> tuple[float, float]:
    """Print one line; return what we are ahead at the same quality and at equal bytes."""
    data = file.read_bytes()
    size, origin, blob = ours(data, width, fmt)
    opened = Image.open(BytesIO(data))
    opened.load()
    whole = to_srgb(normalize(apply_orientation(opened, image_orientation(opened))))
    reference = folder / "reference.png"
    reference_of(whole, size).save(reference, compress_level=1)
    mine = Look(len(blob), score(reference, Image.open(BytesIO(blob)), folder))
    variants = by_sharp(file, width, fmt)
    same = next(found for quality, found in variants if quality == QUALITY)
    equal = next((found for _, found in variants if len(found) >= mine.size), variants[-1][1])
    theirs = [
        Look(len(found), score(reference, Image.open(BytesIO(found)), folder)) for found in (same, equal)
    ]
    print(
        f"{file.name[:24]:24} {fmt} {size!s:>10} from {origin:15} ours {mine.size:8,} B {mine.score:5.1f}"
        f" | sharp q{QUALITY} {theirs[0].size:8,} B {theirs[0].score:5.1f}"
        f" | at equal bytes {theirs[1].size:8,} B {theirs[1].score:5.1f}",
        flush=True,
    )
    return mine.score - theirs[0].score, mine.score - theirs[1].score


def main() -> None:
    """Compare every picture at every width, and print the means."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("pictures", nargs="+", type=Path, help="large JPEG photographs")
    parser.add_argument("--format", choices=["jpeg", "webp"], default="jpeg")
    options = parser.parse_args()
    fmt, gains = Format(options.format), []
    with tempfile.TemporaryDirectory() as name:
        for file in options.pictures:
            full = max(Image.open(file).size)
            gains += [compare(file, width, fmt, Path(name)) for width in WIDTHS if 2 * width <= full]
    for title, values in zip(("the same quality", "equal bytes"), zip(*gains, strict=True), strict=True):
        print(f"ahead of sharp at {title}: mean {statistics.mean(values):+.1f}, worst {min(values):+.1f}")


if __name__ == "__main__":
    main()
