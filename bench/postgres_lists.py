"""Measure pages of lists in PostgreSQL with a million images of one account, in 10,000 albums.

    python -m bench.postgres_lists [URL] [--images 1000000] [--others 1000000] [--rounds 40] [--grown]

URL is that of an empty database, or of one that this program has filled before; without it a server with a
database is started for the run. The rows are inserted by SQL: the images of the account `admin`, half of them
in ten albums and the others in the rest, and those of a hundred other accounts. All are public. Each page is
read through one connection; the output has the median of the time of the whole call, and the CPU time of the
server's process for it, which other programs change less (on Linux, with a server on the same machine), the
memory of that process, and the bytes of tables and indexes for each image. With --grown the indexes
exist while rows are inserted, as when images are uploaded: that takes longer, and they are larger.
"""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
from bench.list_rows import (
    IMAGE_WORDS,
    albums,
    other_accounts,
    other_images,
    own_images,
    recount,
)
from bench.lists import Catalog, Measured, filtered, timed
from tests.postgres import run_postgres

from imagehost_core import ImageHost, Settings
from imagehost_core.cluster.postgres_database import PostgresDatabase

ALBUMS = 10_000
SERVER = ("shared_buffers=1GB", "max_wal_size=8GB", "maintenance_work_mem=512MB", "synchronous_commit=off")
INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ('images', 'image_words')"
SIZES = """
SELECT relname, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
ORDER BY pg_total_relation_size(oid) DESC LIMIT 5
"""
WORDS = f"INSERT INTO image_words (rowid, filename, description) {IMAGE_WORDS}"


def fill(url: str, images: int, others: int, *, grown: bool = False) -> None:
    """Insert the rows into an empty database; do nothing if it has images."""
    start = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as data,
        ImageHost.open(Path(data), settings=Settings(database=url)) as host,
        psycopg.connect(url) as connection,
    ):
        if connection.execute("SELECT id FROM images LIMIT 1").fetchone():
            return
        # Rows without indexes, then the indexes: a third of the time. Those of constraints stay.
        rows = connection.execute(INDEXES).fetchall()
        indexes = [] if grown else [row for row in rows if " UNIQUE " not in row[1]]
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}".encode())
        statements = (
            other_accounts(),
            albums(ALBUMS),
            own_images("postgres", images, ALBUMS),
            other_images("postgres", others),
            WORDS,
            "INSERT INTO gallery_images SELECT created_at, id FROM images ORDER BY 1, 2",
        )
        for statement in statements:
            connection.execute(statement.encode())
        for _, definition in indexes:
            connection.execute(definition.encode())
        connection.commit()
        print(f"{images + others:,} rows: {time.monotonic() - start:.0f} s", flush=True)
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE")
        recount(host)
    print(
        f"{images:,} images of one account, {others:,} of others: {time.monotonic() - start:.0f} s",
        flush=True,
    )


def cpu_nanoseconds(pid: int) -> int:
    """Return the CPU time of a process; 0 where the system does not say."""
    path = Path(f"/proc/{pid}/schedstat")
    return int(path.read_text().split()[0]) if path.exists() else 0


def print_sizes(url: str) -> None:
    """Print the bytes of the largest tables and of their indexes for each image."""
    with psycopg.connect(url) as connection:
        count = connection.execute("SELECT count(*) FROM images").fetchone()
        assert count is not None
        print(f"{'bytes for each image':40}{'table':>10}{'indexes':>10}")
        for name, *sizes in connection.execute(SIZES):
            print(f"{name:40}" + "".join(f"{size / count[0]:10.0f}" for size in sizes))


def measure(database: PostgresDatabase, measured: dict[str, Measured], rounds: int) -> None:
    """Print the median time of each call, and the CPU time of the server for it, in milliseconds."""
    row = database.fetch_one("SELECT pg_backend_pid() AS pid", {})
    assert row is not None
    pid = int(row["pid"] or 0)
    print(f"{'ms':40}{'time':>10}{'CPU':>10}")
    for name, call in measured.items():
        for _ in range(3):
            call()
        before = cpu_nanoseconds(pid)
        times = [timed(call) for _ in range(rounds)]
        cpu = (cpu_nanoseconds(pid) - before) / 1e6 / rounds
        print(f"{name:40}{statistics.median(times):10.2f}{cpu:10.2f}", flush=True)
    status = Path(f"/proc/{pid}/status")
    if status.exists() and (found := re.search(r"RssAnon:\s+(\d+) kB", status.read_text())):
        print(f"memory of the server's process, without what all share: {int(found[1]) / 1024:.1f} MiB")


def main() -> None:
    """Fill the database, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("url", nargs="?", help="an empty database, or one that this program has filled")
    parser.add_argument("--images", type=int, default=1_000_000)
    parser.add_argument("--others", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--grown", action="store_true", help="keep the indexes while rows are inserted")
    options = parser.parse_args()
    with ExitStack() as stack:
        url = options.url or stack.enter_context(stack.enter_context(run_postgres(*SERVER)).empty_database())
        fill(url, options.images, options.others, grown=options.grown)
        print_sizes(url)
        # One connection, whose process is measured.
        database = stack.enter_context(closing(PostgresDatabase(url, pool_size=1)))
        catalog = Catalog(options.images, database)
        measure(database, {**dict(catalog.measured()), **dict(filtered(database, ALBUMS))}, options.rounds)


if __name__ == "__main__":
    main()
