"""Compare the work on an upload with the bare decoding and encoding that it needs, and measure the disk use.

    python bench/upload.py [DIRECTORY] [--rounds 5] [--disk]

DIRECTORY has JPEG photographs: those nearest to 8 and 12 megapixels are measured, and one reduced to 0.7
megapixels; without it, generated images. *Bare* decodes the JPEG and encodes the WebP that is stored, with
the same quality and method. One process per core does both in alternating rounds, all at the same time. The
ratio is the bare CPU time divided by that of the ingest: 1 if derivatives, placeholder and the rest cost
nothing. With `--disk`, every photograph is ingested: the bytes of masters and derivatives divided by those
uploaded.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path

from bench.render import as_jpeg, sample_image
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.decoded_upload import match_source_quality
from imagehost_core.pixels.ingest import ingest

MEGAPIXELS = (0.7, 8.0, 12.0)


def bare(data: bytes) -> bytes:
    """Decode a JPEG and encode the WebP that is stored of it."""
    image = Image.open(BytesIO(data))
    quality = match_source_quality(image.quantization.get(0) if isinstance(image, JpegImageFile) else None)
    buffer = BytesIO()
    image.save(buffer, "WEBP", quality=quality, **dict(CODECS[Format.WEBP].options))
    return buffer.getvalue()


def measure(data: bytes, rounds: int) -> tuple[float, float]:
    """Return the medians of the CPU time of the bare work and of an ingest, in milliseconds."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for function, values in zip((bare, _ingest), times, strict=True):
            started = time.process_time()
            function(data)
            values.append((time.process_time() - started) * 1_000)
    return statistics.median(times[0]), statistics.median(times[1])


def _ingest(data: bytes) -> tuple[int, int]:
    """Ingest an upload with default options; return the bytes of the master and of the derivatives."""
    _, (master, *derivatives) = ingest(IngestJob(Format.JPEG), data)
    return len(master or data), sum(map(len, derivatives))


def scaled(image: Image.Image, megapixels: float) -> Image.Image:
    """Return the image at a number of megapixels."""
    scale = (megapixels * 1e6 / (image.width * image.height)) ** 0.5
    return image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)


def choose_uploads(files: list[Path]) -> list[bytes]:
    """Return an upload of about each size: photographs, or generated images without any."""
    if not files:
        image = sample_image()
        return [as_jpeg(scaled(image, megapixels)) for megapixels in MEGAPIXELS]
    pixels = {file: Image.open(file).width * Image.open(file).height / 1e6 for file in files}
    nearest = [min(files, key=lambda file: abs(pixels[file] - size)) for size in MEGAPIXELS[1:]]
    small = scaled(Image.open(nearest[0]).convert("RGB"), MEGAPIXELS[0])
    return [as_jpeg(small), *(file.read_bytes() for file in nearest)]


def main() -> None:
    """Print the ratio of each size, then the disk use."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", nargs="?", type=Path, help="JPEG photographs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--disk", action="store_true", help="ingest every photograph")
    options = parser.parse_args()
    directory: Path | None = options.directory
    files = sorted(directory.iterdir()) if directory else []
    files = [file for file in files if file.suffix.lower() in (".jpg", ".jpeg")]
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool:
        for data in choose_uploads(files):
            image = Image.open(BytesIO(data))
            results = list(pool.map(measure, [data] * cores, [options.rounds] * cores))
            own, whole = (statistics.mean(column) for column in zip(*results, strict=True))
            megapixels = image.width * image.height / 1e6
            print(
                f"{megapixels:5.1f} megapixels, {cores} processes: bare {own:7.1f} ms,"
                f" ingest {whole:7.1f} ms: {own / whole:.2f} ×",
                flush=True,
            )
        if options.disk:
            stored = list(pool.map(_ingest, (file.read_bytes() for file in files)))
            shares = [
                (master / file.stat().st_size, derivatives / file.stat().st_size)
                for file, (master, derivatives) in zip(files, stored, strict=True)
            ]
            masters, derivatives = (statistics.mean(column) for column in zip(*shares, strict=True))
            print(
                f"{len(files)} photographs, of the uploaded bytes: masters {masters:.3f},"
                f" derivatives {derivatives:.3f}, together {masters + derivatives:.3f},"
                f" at most {max(map(sum, shares)):.2f}"
            )


if __name__ == "__main__":
    main()
