"""Compare the CPU time of uploads to a server with the pixel work and the fsync that they need.

    python -m bench.upload [DIRECTORY] [--rounds 3] [--uploads 8] [--disk]

DIRECTORY has JPEG photographs; without it, an image is generated. Each of them is scaled to each size, and
uploaded by 8 clients at once. The server's CPU time is that of all its processes, image workers included.
*Bare* decodes the JPEG, encodes the WebP and the derivatives that are stored of it, at the same qualities,
and writes and syncs their files; it does not scale, as the pixels of the derivatives are given. It runs in
one process a core, in alternation with the uploads. A ratio is the CPU time of bare divided by that of the
server: 1 if HTTP, checks, scaling, the database and the rest cost nothing. With `--disk`, every photograph is
ingested: the bytes of masters and derivatives divided by those uploaded.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path

from bench.peers import UNLIMITED, cpu_seconds, machine, upload
from bench.render import as_jpeg, sample_image
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile, get_sampling

from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.decoded_upload import match_source_quality
from imagehost_core.pixels.ingest import ingest
from imagehost_server.testing import RunningServer, running

MEGAPIXELS = (0.27, 3.0, 6.0, 12.0)
CLIENTS = 8


def bare(data: bytes, derivatives: Sequence[bytes], uploads: int, folder: Path) -> float:
    """Do the pixel work of uploads, and sync its results; return the CPU time of each, in milliseconds."""
    copies = [Image.open(BytesIO(derivative)) for derivative in derivatives]
    options = [_same_options(copy) for copy in copies]
    for copy in copies:
        copy.load()
    path = folder / str(os.getpid())
    started = time.process_time()
    for _ in range(uploads):
        image = Image.open(BytesIO(data))
        tables = image.quantization.get(0) if isinstance(image, JpegImageFile) else None
        master = dict(CODECS[Format.WEBP].options) | {"quality": match_source_quality(tables)}
        _save(image, path, "WEBP", master)
        for copy, keywords in zip(copies, options, strict=True):
            _save(copy, path, "JPEG", keywords)
    return (time.process_time() - started) / uploads * 1_000


def _same_options(derivative: Image.Image) -> dict[str, object]:
    assert isinstance(derivative, JpegImageFile)
    return {"qtables": derivative.quantization, "subsampling": get_sampling(derivative)}


def _save(image: Image.Image, path: Path, kind: str, options: dict[str, object]) -> None:
    with path.open("wb") as file:
        image.save(file, kind, **options)
        file.flush()
        os.fsync(file.fileno())


def served(server: RunningServer, data: bytes, uploads: int) -> float:
    """Upload an image by all clients; return the CPU time of each upload, in milliseconds."""
    started = cpu_seconds(server.process.pid)
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda _: upload(server, data), range(uploads)))
    return (cpu_seconds(server.process.pid) - started) / uploads * 1_000


def compare(
    server: RunningServer, pool: Executor, data: bytes, cores: int, options: argparse.Namespace
) -> tuple[float, float, float]:
    """Return the medians of the CPU times of bare and of the server, and that of the ratios of the rounds."""
    _, (_, *derivatives) = ingest(IngestJob(Format.JPEG), data)
    uploads: int = options.uploads
    times: list[tuple[float, float]] = []
    for _ in range(options.rounds + 1):
        work = [pool.submit(bare, data, derivatives, uploads // cores, server.data) for _ in range(cores)]
        own = statistics.mean(each.result() for each in work)
        times.append((own, served(server, data, uploads)))
    # The first round starts the image workers.
    times = times[1:]
    bare_ms, server_ms = (statistics.median(column) for column in zip(*times, strict=True))
    return bare_ms, server_ms, statistics.median(own / whole for own, whole in times)


def _ingest(data: bytes) -> tuple[int, int]:
    """Ingest an upload with default options; return the bytes of the master and of the derivatives."""
    _, (master, *derivatives) = ingest(IngestJob(Format.JPEG), data)
    return len(master or data), sum(map(len, derivatives))


def scaled(image: Image.Image, megapixels: float) -> Image.Image:
    """Return the image at a number of megapixels."""
    scale = (megapixels * 1e6 / (image.width * image.height)) ** 0.5
    return image.resize((round(image.width * scale), round(image.height * scale)), Image.Resampling.BICUBIC)


def print_disk_use(pool: Executor, files: Sequence[Path]) -> None:
    """Print the bytes that are stored of each photograph, as shares of those uploaded."""
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


def main() -> None:
    """Print the ratio of each size and its worst photograph, then the disk use."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", nargs="?", type=Path, help="JPEG photographs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--uploads", type=int, default=8, help="of each photograph and round")
    parser.add_argument("--disk", action="store_true", help="ingest every photograph")
    options = parser.parse_args()
    directory: Path | None = options.directory
    files = sorted(directory.iterdir()) if directory else []
    files = [file for file in files if file.suffix.lower() in (".jpg", ".jpeg")]
    cores = len(os.sched_getaffinity(0))
    print(machine())
    with (
        ProcessPoolExecutor(cores, mp_context=get_context("spawn")) as pool,
        tempfile.TemporaryDirectory() as name,
        running(Path(name, "data"), variables=UNLIMITED) as server,
    ):
        for megapixels in MEGAPIXELS:
            results: dict[str, tuple[float, float, float]] = {}
            for file in files or [Path("generated")]:
                image = Image.open(file).convert("RGB") if files else sample_image()
                data = as_jpeg(scaled(image, megapixels))
                results[file.name] = compare(server, pool, data, cores, options)
            bare_ms, server_ms, _ = map(statistics.mean, zip(*results.values(), strict=True))
            ratios = {photograph: ratio for photograph, (_, _, ratio) in results.items()}
            worst = min(ratios, key=ratios.__getitem__)
            print(
                f"{megapixels:5.2f} megapixels, {CLIENTS} clients: bare {bare_ms:7.1f} ms, server"
                f" {server_ms:7.1f} ms: {statistics.mean(ratios.values()):.2f} ×,"
                f" worst {ratios[worst]:.2f} ({worst})",
                flush=True,
            )
        if options.disk:
            print_disk_use(pool, files)


if __name__ == "__main__":
    main()
