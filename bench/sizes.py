"""Compare variants of web pages' widths and crops: imagehost from its stored files, sharp from the uploads.

    python bench/sizes.py DIRECTORY [--rounds 3] [--size 1920 --size 1240x1600]

The directory has JPEG photographs. sharp is found by Node.js through `NODE_PATH` (`npm install sharp`). Each
photograph is ingested once with default options; then every size is rendered in rounds in which imagehost
and sharp alternate: a width in the photograph's own ratio, or a width and height by `fit=cover`. Each runs in
one process that stays, with the file in memory and one thread. A ratio is the CPU time of sharp's process
divided by that of imagehost's, in medians of the rounds: above 1 imagehost is faster. The last column is the
number of photographs whose variant starts from the master.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from imagehost_core.formats import FORMATS, Format, sniff
from imagehost_core.jobs import IngestJob, RenderJob, pick_source
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform import Fit, Size, Transform, plan

SIZES = ("320", "640", "800", "1080", "1280", "1600", "1920", "2048", "2400", "2560")
CROPS = ("1080x1080", "1080x1920", "1240x1600", "1600x1307", "1600x1600")
MEASURED = (Format.WEBP, Format.JPEG)
QUALITY = 80

SHARP_SCRIPT = """
const sharp = require('sharp'), { readFileSync } = require('fs')
sharp.cache(false); sharp.concurrency(1)
const lines = require('readline').createInterface({ input: process.stdin })
let current = null, data = null
lines.on('line', async (line) => {
  const { file, width, height, format, options } = JSON.parse(line)
  if (file !== current) { data = readFileSync(file); current = file }
  const before = process.cpuUsage()
  const blob = await sharp(data).autoOrient().resize(width, height).toFormat(format, options).toBuffer()
  const { user, system } = process.cpuUsage(before)
  console.log(JSON.stringify({ ms: (user + system) / 1000, bytes: blob.length }))
})
"""


class Sharp:
    """A Node.js process that renders with sharp, one thread per image."""

    def __init__(self) -> None:
        """Start the process."""
        self._process = subprocess.Popen(
            ["node", "-e", SHARP_SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ,
        )

    def render(self, file: Path, transform: Transform, fmt: Format) -> float:
        """Render a variant; return its CPU time in milliseconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        size = {"width": transform.width, "height": transform.height}
        # A quality makes sharp reduce the colours of a PNG.
        options = {"quality": QUALITY} if FORMATS[fmt].has_quality else {}
        request = {"file": str(file), **size, "format": fmt.value, "options": options}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return float(json.loads(self._process.stdout.readline())["ms"])

    def close(self) -> None:
        """Stop the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


@frozen(eq=False)
class Photograph:
    """An uploaded photograph and what is stored of it.

    Attributes:
        file: The upload.
        size: The upright size.
        master: The master.
        derivatives: The bytes of each derivative by its size.
    """

    file: Path
    size: Size
    master: bytes
    derivatives: dict[Size, bytes]

    @classmethod
    def ingest(cls, file: Path) -> Photograph:
        """Ingest an upload with default options."""
        data = file.read_bytes()
        result, (master, *derivatives) = ingest(IngestJob(Format.JPEG), data)
        return cls(file, result.size, master or data, dict(zip(result.derivatives, derivatives, strict=True)))

    def job(self, transform: Transform, fmt: Format) -> RenderJob:
        """Return the job of a variant."""
        return RenderJob(plan(self.size, transform), fmt, QUALITY)

    def covers(self, transform: Transform) -> bool:
        """Return whether a variant enlarges nothing."""
        return self.size.width >= (transform.width or 1) and self.size.height >= (transform.height or 1)

    def source(self, job: RenderJob) -> bytes | None:
        """Return the derivative that a variant is rendered from, or `None` for the master."""
        size = pick_source(self.derivatives, job, self.size)
        return None if size is None else self.derivatives[size]

    def render(self, transform: Transform, fmt: Format) -> float:
        """Render a variant; return its CPU time in milliseconds."""
        job = self.job(transform, fmt)
        data = self.source(job) or self.master
        started = time.process_time()
        render(job, sniff(data[:16]) or Format.AVIF, data)
        return (time.process_time() - started) * 1_000


def parse_size(text: str) -> Transform:
    """Return the transform of `WIDTH` or `WIDTHxHEIGHT`."""
    width, _, height = text.partition("x")
    return Transform(int(width), int(height), fit=Fit.COVER) if height else Transform(int(width))


def measure(
    photographs: list[Photograph], sharp: Sharp, fmt: Format, rounds: int, sizes: Sequence[str]
) -> None:
    """Print a line for each size."""
    for text in sizes:
        transform = parse_size(text)
        wide = [photograph for photograph in photographs if photograph.covers(transform)]
        times: dict[Photograph, list[tuple[float, float]]] = defaultdict(list)
        for _ in range(rounds):
            for photograph in wide:
                times[photograph].append(
                    (photograph.render(transform, fmt), sharp.render(photograph.file, transform, fmt))
                )
        medians = {
            photograph: [statistics.median(column) for column in zip(*values, strict=True)]
            for photograph, values in times.items()
        }
        ratios = {photograph: theirs / own for photograph, (own, theirs) in medians.items()}
        worst = min(ratios, key=lambda photograph: ratios[photograph])
        masters = sum(photograph.source(photograph.job(transform, fmt)) is None for photograph in wide)
        own, theirs = (statistics.median(column) for column in zip(*medians.values(), strict=True))
        print(
            f"{fmt.value:5} {text:>9}  imagehost {own:6.1f} ms  sharp {theirs:6.1f} ms"
            f"  median {statistics.median(ratios.values()):5.2f} ×"
            f"  worst {ratios[worst]:5.2f} × ({worst.file.stem[:20]}, {worst.size})"
            f"  from the master {masters} of {len(wide)}",
            flush=True,
        )


def main() -> None:
    """Print the tables of both formats, and what is stored."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path, help="JPEG photographs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", action="append", help="a width, or a width and height such as 1240x1600")
    options = parser.parse_args()
    files = sorted(path for path in options.directory.iterdir() if path.suffix.lower() in (".jpg", ".jpeg"))
    photographs = []
    for file in files:
        started = time.process_time()
        photograph = Photograph.ingest(file)
        seconds, upload = time.process_time() - started, file.stat().st_size
        photographs.append(photograph)
        copies = ", ".join(
            f"{size} {len(data) / upload:.2f}" for size, data in photograph.derivatives.items()
        )
        print(
            f"{file.stem[:20]:20} {photograph.size}  {upload:,} bytes, upload {seconds:.2f} s;"
            f" share of the upload: master {len(photograph.master) / upload:.2f}, {copies}"
        )
    uploads = sum(file.stat().st_size for file in files)
    stored = sum(
        len(photograph.master) + sum(map(len, photograph.derivatives.values())) for photograph in photographs
    )
    print(f"{len(files)} photographs, stored {stored / uploads:.3f} of the uploaded bytes")
    sharp = Sharp()
    try:
        for fmt in MEASURED:
            measure(photographs, sharp, fmt, options.rounds, options.size or (*SIZES, *CROPS))
    finally:
        sharp.close()


if __name__ == "__main__":
    main()
