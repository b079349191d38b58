"""Fixtures of the database tests: an empty database with one account, and images to insert."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

from imagehost_core.cluster.postgres_database import PostgresDatabase
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.lists.images import ImageListRepository
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.ids import new_image_id
from imagehost_core.models import Account, Image

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.external)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database, of each engine."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        with closing(PostgresDatabase(url)) as database:
            yield database
        return
    with closing(SqliteDatabase(tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"))) as database:
        yield database


@pytest.fixture
def images(database: Database) -> ImageRepository:
    return ImageRepository(database)


@pytest.fixture
def lists(database: Database) -> ImageListRepository:
    return ImageListRepository(database, timeout_seconds=60)


@pytest.fixture
def account(database: Database) -> Account:
    """The only account."""
    accounts = AccountRepository(database)
    with database.transaction() as transaction:
        accounts.insert(transaction, "admin", None, b"secret", START)
    account = accounts.get_by_name("admin")
    assert account is not None
    return account


@pytest.fixture
def add(database: Database, images: ImageRepository, account: Account, image: Image) -> Callable[..., Image]:
    """A function that inserts an image of the account: the shared photo with some fields changed."""

    def insert(**changes: Any) -> Image:
        fields: dict[str, Any] = {"id": new_image_id(), "account_id": account.id, "album_id": None} | changes
        new_image = attrs.evolve(image, **fields)
        with database.transaction() as transaction:
            images.insert(transaction, new_image)
        return new_image

    return insert
