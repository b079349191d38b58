"""Compare variants of the widths of web pages: imagehost from its stored files, sharp from the uploads.

    python bench/sizes.py DIRECTORY [--rounds 3] [--width 1920]

The directory has JPEG photographs. sharp is found by Node.js through `NODE_PATH` (`npm install sharp`). Each
photograph is ingested once with default options; then every width is rendered in rounds in which imagehost
and sharp alternate. Each runs in one process that stays, with the file in memory and one thread. A ratio is
the CPU time of sharp's process divided by that of imagehost's, in medians of the rounds: above 1 imagehost is
faster. The last column is the number of photographs whose variant starts from the master.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections import defaultdict
from pathlib import Path

from attrs import frozen
from PIL import Image

from imagehost_core.formats import Format, sniff
from imagehost_core.jobs import IngestJob, RenderJob, pick_source
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform import Size, Transform, plan

WIDTHS = (320, 640, 800, 1080, 1280, 1600, 1920)
FORMATS = (Format.WEBP, Format.JPEG)
QUALITY = 80

SHARP_SCRIPT = """
const sharp = require('sharp'), { readFileSync } = require('fs')
sharp.cache(false); sharp.concurrency(1)
const lines = require('readline').createInterface({ input: process.stdin })
let current = null, data = null
lines.on('line', async (line) => {
  const { file, width, format, quality } = JSON.parse(line)
  if (file !== current) { data = readFileSync(file); current = file }
  const before = process.cpuUsage()
  const blob = await sharp(data).autoOrient().resize(width).toFormat(format, { quality }).toBuffer()
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

    def render(self, file: Path, width: int, fmt: Format) -> float:
        """Render a variant; return its CPU time in milliseconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"file": str(file), "width": width, "format": fmt.value, "quality": QUALITY}
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

    def job(self, width: int, fmt: Format) -> RenderJob:
        """Return the job of a variant."""
        return RenderJob(plan(self.size, Transform(width)), fmt, QUALITY)

    def source(self, job: RenderJob) -> bytes | None:
        """Return the derivative that a variant is rendered from, or `None` for the master."""
        size = pick_source(self.derivatives, job, self.size)
        return None if size is None else self.derivatives[size]

    def render(self, width: int, fmt: Format) -> float:
        """Render a variant; return its CPU time in milliseconds."""
        job = self.job(width, fmt)
        data = self.source(job) or self.master
        started = time.process_time()
        render(job, sniff(data[:16]) or Format.AVIF, data)
        return (time.process_time() - started) * 1_000


def measure(
    photographs: list[Photograph], sharp: Sharp, fmt: Format, rounds: int, widths: tuple[int, ...]
) -> None:
    """Print a line for each width."""
    for width in widths:
        wide = [photograph for photograph in photographs if photograph.size.width >= width]
        times: dict[Photograph, list[tuple[float, float]]] = defaultdict(list)
        for _ in range(rounds):
            for photograph in wide:
                times[photograph].append(
                    (photograph.render(width, fmt), sharp.render(photograph.file, width, fmt))
                )
        medians = {
            photograph: [statistics.median(column) for column in zip(*values, strict=True)]
            for photograph, values in times.items()
        }
        ratios = {photograph: theirs / own for photograph, (own, theirs) in medians.items()}
        worst = min(ratios, key=lambda photograph: ratios[photograph])
        masters = sum(photograph.source(photograph.job(width, fmt)) is None for photograph in wide)
        own, theirs = (statistics.median(column) for column in zip(*medians.values(), strict=True))
        print(
            f"{fmt.value:5} {width:5} px  imagehost {own:6.1f} ms  sharp {theirs:6.1f} ms"
            f"  median {statistics.median(ratios.values()):5.2f} ×"
            f"  worst {ratios[worst]:5.2f} × ({worst.file.stem[:20]}, {worst.size})"
            f"  from the master {masters} of {len(wide)}",
            flush=True,
        )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path, help="JPEG photographs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--width", type=int, help="this width only")
    options = parser.parse_args()
    files = sorted(path for path in options.directory.iterdir() if path.suffix.lower() in (".jpg", ".jpeg"))
    photographs = [Photograph.ingest(file) for file in files]
    pixels = [Image.open(file).width * Image.open(file).height / 1e6 for file in files]
    print(f"{len(files)} photographs of {min(pixels):.1f} to {max(pixels):.1f} megapixels")
    sharp = Sharp()
    try:
        for fmt in FORMATS:
            measure(photographs, sharp, fmt, options.rounds, (options.width,) if options.width else WIDTHS)
    finally:
        sharp.close()


if __name__ == "__main__":
    main()
