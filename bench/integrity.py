"""Measure an integrity check: time and memory with 10,000 images and their files, or with records alone.

    python -m bench.integrity [DIRECTORY] [--images 10000] [--bytes 200000]

Each image has a master of that many random bytes; with `--bytes 0` it has none, so that the database's part
is measured (each image is a finding then). The data directory is kept in DIRECTORY, if one is given, for the
next run. A plain read of the same files with their SHA-256, one after the other, is measured beside it.
"""

from __future__ import annotations

import argparse
import random
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from bench.list_rows import recount

from imagehost_core import ImageHost
from imagehost_core.ids import ALPHABET

INSERT = """
INSERT INTO images (id, account_id, filename, original_filename, description, is_public, format, size, width,
    height, frames, has_alpha, sha256, placeholder, derivatives, created_at, updated_at)
VALUES (?, 1, 'a.webp', 'a.jpg', '', 1, 'webp', ?, 400, 300, 1, 0, ?, '1QcSHQRnh493V4dIh4eX', '[]', ?, ?)
"""
WORDS = "INSERT INTO image_words (rowid, filename, description) SELECT number, '1xa 1xwebp', '' FROM images"


def rows(data: Path, images: int, size: int) -> Iterator[tuple[object, ...]]:
    """Write the masters of images, and yield the rows of their records."""
    generator = random.Random(1)
    for number in range(images):
        image_id = "".join(generator.choices(ALPHABET, k=16))
        master = generator.randbytes(size)
        if size:
            folder = data / "images" / image_id[:2] / image_id
            folder.mkdir(parents=True)
            (folder / "master").write_bytes(master)
        time_of_upload = 1_700_000_000_000_000 + number
        yield image_id, size, sha256(master).hexdigest(), time_of_upload, time_of_upload


def build(data: Path, images: int, size: int) -> None:
    """Create a data directory, unless it exists."""
    if (data / "complete").exists():
        return
    with ImageHost.open(data) as host:
        with closing(sqlite3.connect(data / "imagehost.sqlite3")) as database:
            database.execute("PRAGMA synchronous = OFF")
            database.executemany(INSERT, rows(data, images, size))
            database.execute("INSERT INTO gallery_images SELECT created_at, id FROM images")
            database.execute(WORDS)
            database.commit()
        recount(host)
    (data / "complete").touch()


def read_all(data: Path) -> int:
    """Read and hash every master in this thread, and return the bytes."""
    total = 0
    for path in data.glob("images/*/*/master"):
        content = path.read_bytes()
        sha256(content).digest()
        total += len(content)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        data = (options.directory or Path(temporary)) / f"integrity-{options.images}-{options.bytes}"
        build(data, options.images, options.bytes)
        with ImageHost.open(data) as host:
            works: dict[str, Callable[[], object]] = {
                "check": lambda: sum(1 for _ in host.check()),
                "quick check": lambda: sum(1 for _ in host.check(quick=True)),
                "garbage collection": lambda: len(host.maintenance.collect_garbage().orphans),
                "plain read and SHA-256": lambda: read_all(data),
            }
            for name, work in works.items():
                start, cpu = time.monotonic(), time.process_time()
                result = work()
                seconds, cpu = time.monotonic() - start, time.process_time() - cpu
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                print(f"{name}: {seconds:.1f} s, {cpu:.1f} s of CPU, {peak} MiB, result {result}", flush=True)


if __name__ == "__main__":
    main()
