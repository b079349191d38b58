"""Measure a backup and its restore: time and memory with 10,000 images, beside uploads and deletions.

    python -m bench.backup [DIRECTORY] [--images 10000] [--bytes 200000]

The images are those of `bench/integrity.py`, of random bytes. A plain copy of the same files, without a sync,
is measured beside.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.integrity import build

from imagehost_core import ImageHost, restore
from imagehost_core.testing import make_image


@contextmanager
def load(host: ImageHost) -> Iterator[list[str]]:
    """Upload and delete images until the block ends; yield the ids of those that were deleted."""
    stopped, deleted = threading.Event(), list[str]()

    def run() -> None:
        images = host.images.iter(owner="admin")
        while not stopped.is_set():
            host.upload(make_image(120, 90), owner="admin")
            deleted.append(host.images.delete(next(images).id).id)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield deleted
    finally:
        stopped.set()
        thread.join()


def measure(name: str, work: Callable[[], object]) -> None:
    start, cpu = time.monotonic(), time.process_time()
    result = work()
    seconds, cpu = time.monotonic() - start, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{name}: {seconds:.1f} s, {cpu:.1f} s of CPU, {peak} MiB, result {result}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=200_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as temporary:
        data, file, copy = (Path(temporary) / name for name in ("data", "backup", "copy"))
        build(data, options.images, options.bytes)

        def back_up(host: ImageHost) -> int:
            with file.open("wb") as target:
                return len(host.backups.write(target).deleted)

        def restore_all() -> int:
            with file.open("rb") as source:
                return restore([source], copy).image_count

        with ImageHost.open(data) as host:
            measure("backup, images deleted meanwhile without files", lambda: back_up(host))
            with load(host) as deleted:
                measure("backup beside uploads and deletions", lambda: back_up(host))
                print(f"  deleted meanwhile: {len(deleted)}")
        measure("restore, images", restore_all)
        with ImageHost.open(copy) as host:
            measure("check, findings", lambda: sum(1 for _ in host.check()))
        measure("plain copy", lambda: shutil.copytree(data / "images", Path(temporary) / "plain").name)


if __name__ == "__main__":
    main()
