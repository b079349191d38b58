"""Measure a migration: time, and the time in which writes wait, with 10,000 images.

    python -m bench.migration [DIRECTORY] [--images 10000] [--bytes 200000]

A host is migrated from a data directory to PostgreSQL and SeaweedFS, whose files are on the same disk, from
there to another data directory, and from that to a third. The images are those of `bench/integrity.py`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from bench.integrity import build
from tests.object_store import CREDENTIALS, run_s3_server
from tests.postgres import run_postgres

from imagehost_core import HostLocation, MigrationProgress, MigrationStage, migrate, parse_host_location


def measure(source: HostLocation, target: HostLocation) -> None:
    """Migrate a host, and print how long it took."""
    records_began: list[float] = []

    def note(progress: MigrationProgress) -> None:
        if progress.stage is MigrationStage.RECORDS and not records_began:
            records_began.append(time.monotonic())

    start, cpu = time.monotonic(), time.process_time()
    result = migrate(source, target, progress=note)
    end = time.monotonic()
    print(
        f"{result.image_count} images, {result.row_count} rows: {end - start:.1f} s, "
        f"{time.process_time() - cpu:.1f} s of CPU; records {end - records_began[0]:.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", nargs="?", type=Path)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=200_000)
    options = parser.parse_args()
    os.environ |= CREDENTIALS
    with ExitStack() as stack:
        temporary = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.directory)))
        first, second, third, s3 = (temporary / name for name in ("first", "second", "third", "s3"))
        s3.mkdir()
        server = stack.enter_context(run_s3_server(s3))
        postgres = stack.enter_context(run_postgres())
        shared = parse_host_location([postgres.url_of(), server.url()], "the target")
        build(first, options.images, options.bytes)
        (first / "complete").unlink()
        directories = [parse_host_location([str(path)], "the directory") for path in (first, second, third)]
        print("directory to PostgreSQL and SeaweedFS")
        measure(directories[0], shared)
        print("PostgreSQL and SeaweedFS to a directory")
        measure(shared, directories[1])
        print("directory to directory")
        measure(directories[1], directories[2])


if __name__ == "__main__":
    main()
