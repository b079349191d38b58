"""Compare the renderer with sharp (npm) on the same images, in one run.

    python bench/render.py [IMAGE.jpg]

Without an argument, an image of 2725×2225 pixels is generated. sharp is found by Node.js through `NODE_PATH`
(`npm install sharp`); without it, only imagehost is measured. Both read the file from memory and return the
bytes of the variant, one at a time. Rounds alternate, and the median is printed. Ratios carry over to other
machines, times do not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random

from attrs import frozen
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from imagehost_core.formats import Format, sniff
from imagehost_core.jobs import IngestJob, RenderJob, pick_derivative
from imagehost_core.pixels.decoded_upload import match_source_quality
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform import Plan, Size, Transform, plan

SIZE = Size(2725, 2225)
TARGET = Transform(720, 588)
LARGE = (7826, 6390)
"""50 million pixels."""

SHARP_SCRIPT = """
const sharp = require('sharp'), { readFileSync } = require('fs')
sharp.cache(false); sharp.concurrency(Number(process.argv[1]))
const files = new Map()
const lines = require('readline').createInterface({ input: process.stdin })
console.log(JSON.stringify({ version: sharp.versions.sharp, vips: sharp.versions.vips }))
lines.on('line', async (line) => {
  const { file, width, height, format, options } = JSON.parse(line)
  if (!files.has(file)) files.set(file, readFileSync(file))
  const started = performance.now()
  const data = await sharp(files.get(file)).resize(width, height).toFormat(format, options).toBuffer()
  console.log(JSON.stringify({ ms: performance.now() - started, bytes: data.length }))
})
"""


@frozen
class Case:
    """A variant to render.

    Attributes:
        name: The label in the output.
        fmt: The format of the variant.
        quality: imagehost's quality, 1–100, or `None` where the format has none.
        options: sharp's output options.
    """

    name: str
    fmt: Format
    quality: int | None
    options: dict[str, object]


CASES = (
    Case("jpeg q80", Format.JPEG, 80, {"quality": 80}),
    Case("webp q80", Format.WEBP, 80, {"quality": 80}),
    Case("avif q60, sharp q50 (its default)", Format.AVIF, 60, {}),
    Case("avif q60, sharp q50 effort 2", Format.AVIF, 60, {"effort": 2}),
    Case("png", Format.PNG, None, {}),
)


class Sharp:
    """A Node.js process that renders with sharp."""

    def __init__(self, threads: int) -> None:
        """Start the process with a number of threads per image."""
        command = ["node", "-e", SHARP_SCRIPT, str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
        )
        self.threads = threads
        self.versions = self._read_response()

    def _read_response(self) -> dict[str, object]:
        assert self._process.stdout is not None
        response: dict[str, object] = json.loads(self._process.stdout.readline())
        return response

    def render(self, file: Path, case: Case) -> tuple[float, int]:
        """Render a variant; return the time in milliseconds and the size in bytes."""
        assert self._process.stdin is not None
        request = {
            "file": str(file),
            "width": TARGET.width,
            "height": TARGET.height,
            "format": case.fmt.value,
            "options": case.options,
        }
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        response = self._read_response()
        return float(str(response["ms"])), int(str(response["bytes"]))

    def close(self) -> None:
        """Stop the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


@contextmanager
def sharp_processes() -> Iterator[list[Sharp]]:
    """Yield sharp with one thread and with one per core, or nothing where Node.js does not find it."""
    node = shutil.which("node")
    check = node and subprocess.run([node, "-e", "require('sharp')"], capture_output=True, check=False)
    if not check or check.returncode:
        print("sharp not found by Node.js: set NODE_PATH to its node_modules", file=sys.stderr)
        yield []
        return
    processes = [Sharp(threads) for threads in dict.fromkeys((1, os.cpu_count() or 1))]
    try:
        yield processes
    finally:
        for process in processes:
            process.close()


@frozen
class StoredImage:
    """The stored files of an upload."""

    size: Size
    master: bytes
    fmt: Format
    derivatives: tuple[tuple[Size, bytes], ...]

    @classmethod
    def ingest(cls, fmt: Format, data: bytes) -> StoredImage:
        """Ingest an upload with default options."""
        result, (master, *blobs) = ingest(IngestJob(fmt), data)
        derivatives = tuple(zip(result.derivatives, blobs, strict=True))
        return cls(result.size, master or data, result.format, derivatives)

    def source(self, steps: Plan) -> tuple[str, Format, bytes]:
        """Return the name, format and bytes of the source of a render: a derivative or the master."""
        derivatives = dict(self.derivatives)
        size = pick_derivative(derivatives, steps.resize, self.size)
        if size is not None:
            data = derivatives[size]
            return f"derivative {size}", sniff(data[:16]) or Format.AVIF, data
        return "master", self.fmt, self.master


def timed(function: Callable[[], bytes]) -> tuple[float, int]:
    """Call a function; return the time in milliseconds and the size of its result in bytes."""
    started = time.perf_counter()
    data = function()
    return (time.perf_counter() - started) * 1000, len(data)


def compare(
    title: str, rounds: int, file: Path, size: Size, source: tuple[str, Format, bytes], peers: list[Sharp]
) -> None:
    """Print a table of medians: imagehost, and sharp with each number of threads."""
    source_name, fmt, data = source
    steps = plan(size, TARGET)
    print(f"\n{title}, {size} → {steps.output}; imagehost from the {source_name} ({len(data):,} bytes)")
    for case in CASES:
        job = RenderJob(steps, case.fmt, case.quality)
        own_results: list[tuple[float, int]] = []
        by_peer: list[list[tuple[float, int]]] = [[] for _ in peers]
        for _ in range(rounds):
            own_results.append(timed(lambda job=job: render(job, fmt, data)[1][0]))  # type: ignore[misc]
            for peer, results in zip(peers, by_peer, strict=True):
                results.append(peer.render(file, case))
        own_median = statistics.median(ms for ms, _ in own_results)
        line = f"  {case.name:34} imagehost {own_median:7.1f} ms {own_results[0][1]:8,} B"
        for peer, results in zip(peers, by_peer, strict=True):
            median = statistics.median(ms for ms, _ in results)
            line += f" | sharp ×{peer.threads} {median:7.1f} ms {results[0][1]:8,} B"
            line += f": {median / own_median:5.2f} × imagehost"
        print(line, flush=True)


def sample_image() -> Image.Image:
    """Return an image with detail at every scale, like a photograph."""
    image = Image.new("RGB", (SIZE.width, SIZE.height), (128, 128, 128))
    for octave in range(2, 11):
        side = 2**octave
        grain = Image.frombytes("RGB", (side, side), Random(octave).randbytes(3 * side * side))
        layer = grain.resize(image.size, Image.Resampling.BICUBIC)
        image = Image.blend(image, layer, 0.32)
    return image


def as_jpeg(image: Image.Image, quality: int = 90) -> bytes:
    """Return the image as a JPEG, as a camera would store it."""
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def upload_cost(data: bytes) -> None:
    """Print the time of an ingest, and of its decoding and encoding alone."""
    image = Image.open(BytesIO(data))
    quality = match_source_quality(image.quantization.get(0) if isinstance(image, JpegImageFile) else None)

    def decode_and_encode(method: int, quality: int) -> bytes:
        buffer = BytesIO()
        Image.open(BytesIO(data)).save(buffer, "WEBP", quality=quality, method=method)
        return buffer.getvalue()

    total = min(timed(lambda: ingest(IngestJob(Format.JPEG), data)[1][0])[0] for _ in range(3))
    print(f"\nupload of {Size(*image.size)} with default options: {total:.0f} ms")
    for method, webp_quality in ((2, quality), (4, 80), (2, 80)):
        alone = min(timed(partial(decode_and_encode, method, webp_quality))[0] for _ in range(3))
        name = f"q{webp_quality} method {method}{', as stored' if webp_quality == quality else ''}"
        print(f"  JPEG decoding and WebP encoding {name}: {alone:.0f} ms; ingest is {total / alone:.2f} ×")


def main() -> None:
    """Render every case and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("image", nargs="?", type=Path, help="a large JPEG")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    data = options.image.read_bytes() if options.image else as_jpeg(sample_image())
    image = Image.open(BytesIO(data)).convert("RGB")
    with tempfile.TemporaryDirectory() as name, sharp_processes() as peers:
        for peer in peers:
            print(
                f"sharp {peer.versions['version']} (libvips {peer.versions['vips']}), {peer.threads} threads"
            )
        upload = Path(name, "upload.jpg")
        upload.write_bytes(data)
        size = Size(*image.size)
        compare("from the uploaded JPEG", options.rounds, upload, size, ("upload", Format.JPEG, data), peers)
        stored = StoredImage.ingest(Format.JPEG, data)
        compare(
            "imagehost from the stored files, sharp from the uploaded JPEG",
            options.rounds, upload, size, stored.source(plan(size, TARGET)), peers,
        )  # fmt: skip
        large = StoredImage.ingest(Format.JPEG, as_jpeg(image.resize(LARGE, Image.Resampling.BICUBIC)))
        master = Path(name, "large.webp")
        master.write_bytes(large.master)
        share = sum(len(blob) for _, blob in large.derivatives) / len(large.master)
        print(
            f"\n50 megapixels: derivatives {', '.join(str(size) for size, _ in large.derivatives)},"
            f" {share:.0%} of the master's bytes"
        )
        compare(
            "both from a WebP of 50 megapixels",
            max(1, options.rounds // 3), master, large.size, large.source(plan(large.size, TARGET)), peers,
        )  # fmt: skip
    upload_cost(as_jpeg(image.resize((4000, 3000), Image.Resampling.BICUBIC)))


if __name__ == "__main__":
    main()
