"""Measure the records of uploads per second in PostgreSQL, of public and of private images.

    python -m bench.postgres_uploads [--seconds 5] [--rounds 3]

A server with default settings is started, so each commit is synced. Each writer has an account and a
connection of its own, and inserts the record of one image in each transaction, without its files. Public
images also count in the gallery, which all accounts share. The sides alternate; the output has the medians
and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from itertools import product

from tests.postgres import run_postgres

from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, new_image_id
from imagehost_core.models import Image

WRITERS = (1, 4, 16)


def new_image(account_id: AccountId, *, is_public: bool) -> Image:
    """Return the record of a new image."""
    now = datetime.now(UTC)
    return Image(
        id=new_image_id(),
        account_id=account_id,
        album_id=None,
        filename="IMG_1.webp",
        original_filename="IMG_1.jpg",
        description="",
        is_public=is_public,
        format=Format.WEBP,
        size=0,
        width=4_000,
        height=3_000,
        frames=1,
        has_alpha=False,
        sha256="0" * 64,
        placeholder="",
        derivatives=(),
        created_at=now,
        updated_at=now,
    )


def insert_images(url: str, is_public: bool, end: float, account_id: AccountId) -> int:
    """Insert images until the time `end` of `time.monotonic`; return their number."""
    count = 0
    with closing(PostgresDatabase(url, pool_size=1, timeout=60)) as database:
        images = ImageRepository(database)
        while time.monotonic() < end:
            with database.transaction(account_id) as transaction:
                images.insert(transaction, new_image(account_id, is_public=is_public))
            count += 1
    return count


def rate(url: str, seconds: float, writers: int, *, is_public: bool) -> float:
    """Return the images per second of so many writers."""
    start = time.monotonic()
    insert = partial(insert_images, url, is_public, start + seconds)
    with ThreadPoolExecutor(writers) as executor:
        count = sum(executor.map(insert, map(AccountId, range(1, writers + 1))))
    return count / (time.monotonic() - start)


def main() -> None:
    """Start a server, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with run_postgres() as server, server.empty_database() as url:
        with closing(PostgresDatabase(url)) as database, database.transaction() as transaction:
            for number in range(max(WRITERS)):
                AccountRepository(database).insert(transaction, f"user{number}", None, b"", datetime.now(UTC))
        rates: dict[tuple[int, bool], list[float]] = {key: [] for key in product(WRITERS, (False, True))}
        for _, (writers, is_public) in product(range(options.rounds), rates):
            rates[writers, is_public].append(rate(url, options.seconds, writers, is_public=is_public))
        print(f"{'writers':>8}{'private /s':>12}{'public /s':>12}   ratio")
        for writers in WRITERS:
            private, public = (statistics.median(rates[writers, is_public]) for is_public in (False, True))
            print(f"{writers:8}{private:12.0f}{public:12.0f}   {public / private:.2f}")


if __name__ == "__main__":
    main()
