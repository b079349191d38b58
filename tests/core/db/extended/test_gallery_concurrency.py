"""Uploads of several accounts to the gallery at the same time, in PostgreSQL; SQLite has one writer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import islice
from random import Random

import attrs
import pytest

from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.db.counters import GALLERY_IMAGES, total
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.ids import AccountId, ImageId
from imagehost_core.maintenance.recount import check_counters, check_indexes
from imagehost_core.models import Image

pytestmark = pytest.mark.external
START = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNTS = 4


@pytest.fixture
def database(postgres_url: str) -> Iterator[PostgresDatabase]:
    """A database with four accounts, in which a transaction that waits for another soon fails."""
    with closing(PostgresDatabase(postgres_url, timeout=0.3)) as database:
        accounts = AccountRepository(database)
        with database.transaction() as transaction:
            for number in range(ACCOUNTS):
                accounts.insert(transaction, f"user{number}", None, b"secret", START)
        yield database


def public_image(image: Image, account: int, number: int, ending: str) -> Image:
    return attrs.evolve(
        image,
        id=ImageId(f"{account}{number:014}{ending}"),
        account_id=AccountId(account),
        album_id=None,
        is_public=True,
        size=0,
        created_at=START + timedelta(seconds=number),
    )


def test_a_public_upload_or_deletion_does_not_wait_for_the_commit_of_another_account(
    database: PostgresDatabase, image: Image
) -> None:
    images = ImageRepository(database)
    with database.transaction(AccountId(1)) as first:
        images.insert(first, public_image(image, 1, 1, "a"))
        with database.transaction(AccountId(2)) as second:
            for number in (2, 3):
                images.insert(second, public_image(image, 2, number, "a"))
            images.insert_tombstone(second, public_image(image, 2, 3, "a"), START)
        assert total(database, GALLERY_IMAGES) == 1
    assert total(database, GALLERY_IMAGES) == 2
    assert check_counters(database) == ()


def test_counters_are_exact_after_uploads_and_deletions_of_several_accounts(
    postgres_url: str, database: PostgresDatabase, image: Image
) -> None:
    def change(account: int) -> None:
        random, stored = Random(account), list[Image]()
        with closing(PostgresDatabase(postgres_url, timeout=60)) as own:
            images = ImageRepository(own)
            for number in islice(iter(lambda: random.randrange(10**6), -1), 25):
                added = public_image(image, account, number, random.choice("0abc"))
                with own.transaction(AccountId(account)) as transaction:
                    images.insert(transaction, added)
                stored.append(added)
                if random.random() < 0.3:
                    with own.transaction(AccountId(account)) as transaction:
                        for deleted in (stored.pop(0), *stored[:1]):
                            images.insert_tombstone(transaction, deleted, START)
                        del stored[:1]

    with ThreadPoolExecutor(ACCOUNTS) as executor:
        list(executor.map(change, range(1, ACCOUNTS + 1)))
    assert check_counters(database) == ()
    assert check_indexes(database) == ()
