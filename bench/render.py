"""Our renderer beside sharp (npm), on the same pictures, in one run.

    python bench/render.py [PICTURE.jpg]

Without a picture one of 2725×2225 pixels is made. sharp is found through node and `NODE_PATH`
(`npm install sharp`); without it only our own figures are printed. Both sides get the file's bytes from
memory and give the variant's bytes back, one job at a time; rounds alternate between them, and the
median counts. Ratios carry over to other machines, times do not.
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
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.pixels.source_quality import match_source_quality
from imagehost_core.transform import Plan, Size, Transform, plan

SIZE = Size(2725, 2225)
TARGET = Transform(720, 588)
LARGE = (7826, 6390)
"""50 million pixels."""

SERVER = """
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
class Contest:
    """One job, as both sides are told to do it.

    Attributes:
        name: What it is.
        fmt: The format of the variant.
        quality: Ours, or `None` where there is none.
        options: What sharp is told.
    """

    name: str
    fmt: Format
    quality: int | None
    options: dict[str, object]


CONTESTS = (
    Contest("jpeg q80", Format.JPEG, 80, {"quality": 80}),
    Contest("webp q80", Format.WEBP, 80, {"quality": 80}),
    Contest("avif q60, sharp q50 (its default)", Format.AVIF, 60, {}),
    Contest("avif q60, sharp q50 effort 2", Format.AVIF, 60, {"effort": 2}),
    Contest("png", Format.PNG, None, {}),
)


class Sharp:
    """A node process that renders on demand."""

    def __init__(self, threads: int) -> None:
        """Start it with so many threads a job."""
        command = ["node", "-e", SERVER, str(threads)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
        )
        self.threads = threads
        self.versions = self._answer()

    def _answer(self) -> dict[str, object]:
        assert self._process.stdout is not None
        answer: dict[str, object] = json.loads(self._process.stdout.readline())
        return answer

    def render(self, file: Path, contest: Contest) -> tuple[float, int]:
        """Return milliseconds and bytes."""
        assert self._process.stdin is not None
        order = {
            "file": str(file),
            "width": TARGET.width,
            "height": TARGET.height,
            "format": contest.fmt.value,
            "options": contest.options,
        }
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        return float(str(answer["ms"])), int(str(answer["bytes"]))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)


@contextmanager
def sharps() -> Iterator[list[Sharp]]:
    """Yield sharp with one thread and with all, or nothing where node does not find it."""
    node = shutil.which("node")
    found = node and subprocess.run([node, "-e", "require('sharp')"], capture_output=True, check=False)
    if not found or found.returncode:
        print("sharp: not found by node; set NODE_PATH to the node_modules that has it", file=sys.stderr)
        yield []
        return
    started = [Sharp(threads) for threads in dict.fromkeys((1, os.cpu_count() or 1))]
    try:
        yield started
    finally:
        for process in started:
            process.close()


@frozen
class Stored:
    """What our host would have of an upload."""

    size: Size
    master: bytes
    fmt: Format
    rungs: tuple[tuple[Size, bytes], ...]

    @classmethod
    def of(cls, fmt: Format, data: bytes) -> Stored:
        """Ingest an upload with the default wishes."""
        made, (master, *rungs) = ingest(IngestJob(fmt), data)
        return cls(made.size, master or data, made.format, tuple(zip(made.derivatives, rungs, strict=True)))

    def source(self, steps: Plan) -> tuple[str, Format, bytes]:
        """Return what a render starts from: the smallest rung that is large enough, or the master."""
        rungs = dict(self.rungs)
        size = pick_derivative(rungs, steps.resize)
        if size is not None:
            return f"rung {size}", sniff(rungs[size][:16]) or Format.AVIF, rungs[size]
        return "master", self.fmt, self.master


def timed(work: Callable[[], bytes]) -> tuple[float, int]:
    """Return milliseconds and the length of the result."""
    started = time.perf_counter()
    data = work()
    return (time.perf_counter() - started) * 1000, len(data)


def compete(
    title: str, rounds: int, file: Path, size: Size, source: tuple[str, Format, bytes], peers: list[Sharp]
) -> None:
    """Print one table: our median beside each of sharp's."""
    origin, fmt, data = source
    steps = plan(size, TARGET)
    print(f"\n{title}, {size} → {steps.output}; ours from the {origin} ({len(data):,} bytes)")
    for contest in CONTESTS:
        job = RenderJob(steps, contest.fmt, contest.quality)
        ours: list[tuple[float, int]] = []
        theirs: list[list[tuple[float, int]]] = [[] for _ in peers]
        for _ in range(rounds):
            ours.append(timed(lambda job=job: render(job, fmt, data)[1][0]))  # type: ignore[misc]
            for peer, found in zip(peers, theirs, strict=True):
                found.append(peer.render(file, contest))
        mine = statistics.median(ms for ms, _ in ours)
        line = f"  {contest.name:34} ours {mine:7.1f} ms {ours[0][1]:8,} B"
        for peer, found in zip(peers, theirs, strict=True):
            median = statistics.median(ms for ms, _ in found)
            line += (
                f" | sharp ×{peer.threads} {median:7.1f} ms {found[0][1]:8,} B: {median / mine:5.2f} × ours"
            )
        print(line, flush=True)


def made_picture() -> Image.Image:
    """Return a picture with detail of every size, as photographs have it."""
    image = Image.new("RGB", (SIZE.width, SIZE.height), (128, 128, 128))
    for octave in range(2, 11):
        side = 2**octave
        grain = Image.frombytes("RGB", (side, side), Random(octave).randbytes(3 * side * side))
        layer = grain.resize(image.size, Image.Resampling.BICUBIC)
        image = Image.blend(image, layer, 0.32)
    return image


def as_jpeg(image: Image.Image, quality: int = 90) -> bytes:
    """Return the picture as a camera would store it."""
    buffer = BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


def upload_cost(data: bytes) -> None:
    """Print what the upload recipe costs beside the decoding and encoding that it cannot do without."""
    picture = Image.open(BytesIO(data))
    ours = match_source_quality(picture.quantization.get(0) if isinstance(picture, JpegImageFile) else None)

    def bare(method: int, quality: int) -> bytes:
        buffer = BytesIO()
        Image.open(BytesIO(data)).save(buffer, "WEBP", quality=quality, method=method)
        return buffer.getvalue()

    whole = min(timed(lambda: ingest(IngestJob(Format.JPEG), data)[1][0])[0] for _ in range(3))
    print(f"\nupload of {Size(*picture.size)}, defaults: {whole:.0f} ms")
    for method, quality in ((2, ours), (4, 80), (2, 80)):
        alone = min(timed(partial(bare, method, quality))[0] for _ in range(3))
        name = f"q{quality} method {method}{', as we store it' if quality == ours else ''}"
        print(f"  bare decode and WebP {name}: {alone:.0f} ms; ours is {whole / alone:.2f} of it")


def main() -> None:
    """Run every contest and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("picture", nargs="?", type=Path, help="a large JPEG")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    data = options.picture.read_bytes() if options.picture else as_jpeg(made_picture())
    image = Image.open(BytesIO(data)).convert("RGB")
    with tempfile.TemporaryDirectory() as name, sharps() as peers:
        for peer in peers:
            print(
                f"sharp {peer.versions['version']} (libvips {peer.versions['vips']}), {peer.threads} threads"
            )
        upload = Path(name, "upload.jpg")
        upload.write_bytes(data)
        size = Size(*image.size)
        compete(
            "JPEG as uploaded, no rung", options.rounds, upload, size, ("upload", Format.JPEG, data), peers
        )
        stored = Stored.of(Format.JPEG, data)
        compete(
            "the same, as stored by default, sharp from the JPEG",
            options.rounds, upload, size, stored.source(plan(size, TARGET)), peers,
        )  # fmt: skip
        large = Stored.of(Format.JPEG, as_jpeg(image.resize(LARGE, Image.Resampling.BICUBIC)))
        master = Path(name, "large.webp")
        master.write_bytes(large.master)
        share = sum(len(rung) for _, rung in large.rungs) / len(large.master)
        print(
            f"\n50 Mpixel: rungs {', '.join(str(rung) for rung, _ in large.rungs)}, {share:.0%} of the master"
        )
        compete(
            "WebP of 50 Mpixel, sharp from the same WebP",
            max(1, options.rounds // 3), master, large.size, large.source(plan(large.size, TARGET)), peers,
        )  # fmt: skip
    upload_cost(as_jpeg(image.resize((4000, 3000), Image.Resampling.BICUBIC)))


if __name__ == "__main__":
    main()
