"""Measure the bytes that an upload takes in the database, by table and index, and its transactions' CPU time.

    python bench/catalog.py [--uploads 10000]

Images with names, descriptions and an album are recorded as uploads record them, without files: first without
a webhook, then with one that receives all events. Then the deliveries are reported, which frees the pages of
their index of due deliveries, and all events expire. The bytes are those of the pages (SQLite's dbstat), so
they contain what is unused; free pages are counted apart. CPU times are those of a database of that size.
"""

from __future__ import annotations

import argparse
import base64
import os
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs

from imagehost_core import ImageHost
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database, Transaction
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.events import DeletedImage
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, new_image_id
from imagehost_core.models import Image, UrlBuilder
from imagehost_core.services.unit_of_work import UnitOfWork, UnitOfWorkFactory
from imagehost_core.settings import Settings, WebhookSettings
from imagehost_core.testing import FrozenClock
from imagehost_core.webhooks import Attempt

WORDS = ("beach", "sunset", "family", "dog", "holiday", "mountain", "snow", "city", "night", "wedding")
URLS = UrlBuilder("https://images.example.com/v1", "https://images.example.com/img")
SETTINGS = Settings(base_url="https://img.example/v1", webhooks=WebhookSettings(allow_loopback=True))
TIMED = 1_000
"""Transactions whose CPU time is measured."""
START = datetime(2026, 1, 1, tzinfo=UTC)


def make_images(count: int) -> list[Image]:
    """Return records such as those of photographs."""
    generator = random.Random(1)

    def words(number: int) -> str:
        return " ".join(generator.choices(WORDS, k=number))

    def image(number: int) -> Image:
        created_at = START + timedelta(seconds=7 * number, microseconds=generator.randrange(10**6))
        return Image(
            id=new_image_id(),
            account_id=AccountId(1),
            album_id=AlbumId(1),
            filename=f"DSC_{number:05} {words(1)}.webp",
            original_filename=f"DSC_{number:05} {words(1)}.JPG",
            description=words(8),
            is_public=True,
            format=Format.WEBP,
            size=generator.randrange(10**5, 4 * 10**6),
            width=4000,
            height=3000,
            frames=1,
            has_alpha=False,
            sha256=generator.randbytes(32).hex(),
            placeholder=base64.b64encode(generator.randbytes(22)).decode(),
            derivatives=((2048, 1536),),
            created_at=created_at,
            updated_at=created_at,
            urls=URLS,
        )

    return [image(number) for number in range(count)]


def page_bytes(data: Path) -> dict[str, int]:
    """Return the bytes of the pages of each table and index, and of free pages."""
    with closing(sqlite3.connect(data / "imagehost.sqlite3")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        sizes = dict(database.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name"))
        (free,), (size,) = (
            database.execute(f"PRAGMA {name}").fetchone() for name in ("freelist_count", "page_size")
        )
        return sizes | {"(free pages)": free * size}


@attrs.frozen
class Catalog:
    """The database of a data directory, and the units of work of its changes."""

    database: Database
    units: UnitOfWorkFactory

    def upload(self, images: Iterable[Image]) -> None:
        """Record uploads in one transaction."""
        with self.units.begin() as unit, self.database.transaction() as transaction:
            for image in images:
                ImageRepository(self.database).insert(transaction, image)
                AccountRepository(self.database).add_usage(transaction, image.account_id, image.size, 0)
                unit.image_uploaded(transaction, image)

    def delete(self, images: Iterable[Image]) -> None:
        """Record deletions in one transaction."""
        with self.units.begin() as unit, self.database.transaction() as transaction:
            for image in images:
                self._delete(unit, transaction, image)

    def _delete(self, unit: UnitOfWork, transaction: Transaction, image: Image) -> None:
        deleted = DeletedImage(id=image.id, album_id=image.album_id, deleted_at=START)
        ImageRepository(self.database).insert_tombstone(transaction, image, START)
        AccountRepository(self.database).add_usage(transaction, image.account_id, -image.size, 0)
        unit.image_deleted(transaction, image.account_id, deleted)


def batches(images: list[Image], size: int = 100) -> Iterable[list[Image]]:
    """Yield the images in batches, each for one transaction."""
    for start in range(0, len(images), size):
        yield images[start : start + size]


def cpu_microseconds(change: Callable[[list[Image]], None], images: list[Image]) -> float:
    """Return the CPU time of a transaction for one image."""
    start = time.process_time()
    for image in images:
        change([image])
    return 1e6 * (time.process_time() - start) / len(images)


def measure(uploads: int, *, has_webhook: bool) -> list[dict[str, float]]:
    """Return the bytes for each upload after the uploads, the deliveries and the expiry of events."""
    clock = FrozenClock(START)
    with tempfile.TemporaryDirectory() as name, ImageHost.open(name, settings=SETTINGS, clock=clock) as host:
        data = Path(name)
        host.albums.create(owner="admin", name="Photographs")
        if has_webhook:
            host.webhooks.create(owner="admin", url="http://127.0.0.1:9/")
        empty = page_bytes(data)
        with closing(SqliteDatabase(data / "imagehost.sqlite3", LockManager(data / "locks"))) as database:
            records = Repositories.of(database, os.urandom, URLS, list_timeout_seconds=10, with_purges=False)
            units = UnitOfWorkFactory(records, Environment(clock=clock))
            catalog = Catalog(database, units)

            def per_upload() -> dict[str, float]:
                return {
                    table: (size - empty.get(table, 0)) / uploads for table, size in page_bytes(data).items()
                }

            images = make_images(uploads + TIMED)
            for batch in batches(images[:uploads]):
                catalog.upload(batch)
            results = [per_upload()]
            if has_webhook:
                while leased := host.webhooks.lease(100):
                    attempt = Attempt(at=clock(), status=204, duration_ms=1, response="")
                    host.webhooks.report((delivery, attempt) for delivery in leased)
                results.append(per_upload())
                clock.advance(days=31)
                host.webhooks.delete_expired()
                results.append(per_upload())
            timed = images[uploads:]
            upload, delete = cpu_microseconds(catalog.upload, timed), cpu_microseconds(catalog.delete, timed)
            print(
                f"{'one webhook' if has_webhook else 'no webhook'}: CPU time of the transaction of an upload "
                f"{upload:.0f} µs, of a deletion {delete:.0f} µs",
                flush=True,
            )
        return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--uploads", type=int, default=10_000)
    options = parser.parse_args()
    columns = [
        *measure(options.uploads, has_webhook=False),
        *measure(options.uploads, has_webhook=True),
    ]
    print(f"{'bytes per upload':42}{'no webhook':>12}{'one webhook':>12}{'delivered':>12}{'expired':>12}")
    tables = sorted(columns[1], key=lambda table: -columns[1][table])
    for table in tables:
        values = [column.get(table, 0) for column in columns]
        if max(values) >= 1:
            print(f"{table:42}" + "".join(f"{value:12.0f}" for value in values))
    print(f"{'in all':42}" + "".join(f"{sum(column.values()):12.0f}" for column in columns))


if __name__ == "__main__":
    main()
