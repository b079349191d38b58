"""What the tests of the catalog share: an empty catalog with one account, and images to put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
import pytest

from imagehost_core.db import AccountRepository, Database, ImageRepository
from imagehost_core.ids import new_image_id
from imagehost_core.models import Account, Image
from imagehost_core.storage import LockManager

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"))
    yield made
    made.close()


@pytest.fixture
def images(catalog: Database) -> ImageRepository:
    return ImageRepository(catalog)


@pytest.fixture
def account(catalog: Database) -> Account:
    accounts = AccountRepository(catalog)
    with catalog.transaction() as transaction:
        accounts.insert(transaction, "admin", None, START)
    found = accounts.get_by_name("admin")
    assert found is not None
    return found


@pytest.fixture
def add(catalog: Database, images: ImageRepository, account: Account, image: Image) -> Callable[..., Image]:
    """Record an image of the account, like the photo of all tests but for what is given."""

    def record(**changes: Any) -> Image:
        given: dict[str, Any] = {"id": new_image_id(), "account_id": account.id, "album_id": None} | changes
        made = attrs.evolve(image, **given)
        with catalog.transaction() as transaction:
            images.insert(transaction, made)
        return made

    return record
