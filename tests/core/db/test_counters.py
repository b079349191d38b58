"""Counters, the gallery and the search index agree with the images after any sequence of changes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.counters import GALLERY_IMAGES, total
from imagehost_core.db.engines.database import Database
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.lists.images import ImageListRepository
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.db.repositories.outbox import OutboxRepository
from imagehost_core.db.repositories.webhooks import WebhookRepository
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, ImageId, WebhookId, new_event_id, new_id, new_image_id
from imagehost_core.lists import ImageListRequest, ImageSort, PageRequest
from imagehost_core.maintenance.recount import (
    CounterMismatch,
    check_counters,
    check_indexes,
    repair_counters,
    repair_index,
)
from imagehost_core.models import Account, Image, Page, Webhook

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["cat.webp", "dog.webp", "猫の写真.webp", "a-b c.webp", "…"])


def list_owned(
    lists: ImageListRepository, account_id: AccountId, request: ImageListRequest, page: PageRequest
) -> Page[Image]:
    return lists.list_owned(account_id, attrs.evolve(request, page=page))


class CounterMachine(RuleBasedStateMachine):
    """Images are uploaded, changed, moved and deleted, albums too, and accounts are suspended.

    A model of two accounts with their albums and images says what the counters and the gallery must be.
    """

    @initialize()
    def begin(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="imagehost-test-"))
        self.database = SqliteDatabase(
            self.directory / "imagehost.sqlite3", LockManager(self.directory / "locks")
        )
        self.accounts = AccountRepository(self.database)
        self.albums = AlbumRepository(self.database)
        self.images = ImageRepository(self.database)
        with self.database.transaction() as transaction:
            for name in ("one", "two"):
                self.accounts.insert(transaction, name, None, b"secret", NOW)
        self.suspended: set[AccountId] = set()
        self.uploads = 0
        self.album_flags: dict[AlbumId, tuple[AccountId, bool]] = {}
        self.stored: dict[ImageId, Image] = {}

    def draw_album(self, data: st.DataObject, account_id: AccountId) -> AlbumId | None:
        own = [album_id for album_id, (owner, _) in self.album_flags.items() if owner == account_id]
        return data.draw(st.sampled_from([None, *own]))

    @rule(
        data=st.data(),
        account_id=st.sampled_from([1, 1, 1, 2]),
        is_public=st.sampled_from([True, True, False]),
        name=NAMES,
        seconds=st.integers(0, 3),
        ending=st.sampled_from("01"),
    )
    def upload(
        self,
        data: st.DataObject,
        account_id: AccountId,
        is_public: bool,
        name: str,
        seconds: int,
        ending: str,
    ) -> None:
        self.uploads += 1
        image = attrs.evolve(
            _IMAGE,
            id=ImageId(f"{self.uploads * 7 % 100:015}{ending}"),
            created_at=NOW + timedelta(seconds=self.uploads // 4 + seconds),
            account_id=account_id,
            album_id=self.draw_album(data, account_id),
            is_public=is_public,
            filename=name,
        )
        with self.database.transaction() as transaction:
            self.images.insert(transaction, image)
            self.accounts.add_usage(transaction, account_id, image.size, 0)
        self.stored[image.id] = image

    @precondition(lambda self: self.stored)
    @rule(data=st.data(), is_public=st.booleans(), name=NAMES)
    def change(self, data: st.DataObject, is_public: bool, name: str) -> None:
        image = self.stored[data.draw(st.sampled_from(sorted(self.stored)))]
        album_id = self.draw_album(data, image.account_id)
        image = attrs.evolve(image, is_public=is_public, album_id=album_id, description=name)
        with self.database.transaction() as transaction:
            self.images.update(transaction, image)
        self.stored[image.id] = image

    @precondition(lambda self: self.stored)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        image = self.stored.pop(data.draw(st.sampled_from(sorted(self.stored))))
        with self.database.transaction() as transaction:
            self.images.insert_tombstone(transaction, image, NOW)
            self.accounts.add_usage(transaction, image.account_id, -image.size, 0)

    @rule(account_id=st.sampled_from([1, 2]), is_public=st.booleans())
    def create_album(self, account_id: AccountId, is_public: bool) -> None:
        fields: dict[str, Any] = {"name": "a", "description": "", "is_public": int(is_public)}
        with self.database.transaction() as transaction:
            album_id = self.albums.insert(transaction, account_id, fields, NOW)
        self.album_flags[album_id] = (account_id, is_public)

    @precondition(lambda self: self.album_flags)
    @rule(data=st.data(), is_public=st.booleans())
    def change_album(self, data: st.DataObject, is_public: bool) -> None:
        album_id = data.draw(st.sampled_from(sorted(self.album_flags)))
        with self.database.transaction() as transaction:
            self.albums.update(transaction, album_id, {"is_public": int(is_public)}, NOW)
        self.album_flags[album_id] = (self.album_flags[album_id][0], is_public)

    @precondition(lambda self: self.album_flags)
    @rule(data=st.data())
    def delete_album(self, data: st.DataObject) -> None:
        album_id = data.draw(st.sampled_from(sorted(self.album_flags)))
        account_id, _ = self.album_flags.pop(album_id)
        with self.database.transaction() as transaction:
            album = self.albums.get(album_id, account_id, transaction)
            assert album is not None
            self.albums.delete(transaction, album)
        for image in self.stored.values():
            if image.album_id == album_id:
                self.stored[image.id] = attrs.evolve(image, album_id=None)

    @rule(account_id=st.sampled_from([1, 2]), is_suspended=st.booleans())
    def suspend(self, account_id: AccountId, is_suspended: bool) -> None:
        with self.database.transaction() as transaction:
            account = self.accounts.get(account_id, transaction)
            assert account is not None
            suspended_at = NOW if is_suspended else None
            self.accounts.update(transaction, attrs.evolve(account, suspended_at=suspended_at))
        (self.suspended.add if is_suspended else self.suspended.discard)(account_id)

    @rule(per_page=st.integers(1, 3))
    def list_every_page(self, per_page: int) -> None:
        lists = ImageListRepository(self.database, 30)
        stored = sorted(self.stored.values(), key=lambda image: (image.created_at, image.id))

        def require(read: Callable[[PageRequest], Page[Image]], expected: list[Image]) -> None:
            for number in range(1, len(expected) // per_page + 3):
                page = read(PageRequest(number, per_page))
                assert page.total == len(expected)
                assert list(page) == expected[(number - 1) * per_page : number * per_page]

        require(lists.list_gallery, [image for image in reversed(stored) if self.is_listed(image)])
        for account_id in (AccountId(1), AccountId(2)):
            own = [image for image in stored if image.account_id == account_id]
            oldest = ImageListRequest(sort=ImageSort.OLDEST)
            require(partial(list_owned, lists, account_id, oldest), own)
            require(partial(list_owned, lists, account_id, ImageListRequest()), own[::-1])
        for album_id, (account_id, is_public) in self.album_flags.items():
            members = [image for image in reversed(stored) if image.album_id == album_id]
            require(partial(list_owned, lists, account_id, ImageListRequest(album_id=album_id)), members)
            album = self.albums.get_public(album_id)
            assert (album is not None) is (is_public and account_id not in self.suspended)
            if album is not None:
                public = [image for image in members if image.is_public]
                require(partial(lists.list_public_in_album, album), public)

    def is_listed(self, image: Image) -> bool:
        in_public = image.album_id is None or self.album_flags[image.album_id][1]
        return image.is_public and in_public and image.account_id not in self.suspended

    @invariant()
    def everything_agrees_with_a_recount(self) -> None:
        if hasattr(self, "database"):
            assert check_counters(self.database) == ()
            assert check_indexes(self.database) == ()

    @invariant()
    def the_gallery_lists_what_the_model_lists(self) -> None:
        if hasattr(self, "database"):
            listed = {image.id for image in self.stored.values() if self.is_listed(image)}
            page = ImageListRepository(self.database, 30).list_gallery(PageRequest(per_page=100))
            assert {image.id for image in page} == listed
            assert page.total == total(self.database, GALLERY_IMAGES) == len(listed)

    @invariant()
    def usage_and_album_counts_are_those_of_the_model(self) -> None:
        if hasattr(self, "database"):
            for account_id in (AccountId(1), AccountId(2)):
                own = [image for image in self.stored.values() if image.account_id == account_id]
                albums = [owner for owner, _ in self.album_flags.values() if owner == account_id]
                usage = self.accounts.usage(account_id)
                assert (usage.images, usage.albums, usage.bytes) == (
                    len(own),
                    len(albums),
                    sum(image.size for image in own),
                )
            for album_id, (account_id, _) in self.album_flags.items():
                album = self.albums.get(album_id, account_id)
                assert album is not None
                members = [image for image in self.stored.values() if image.album_id == album_id]
                assert album.image_count == len(members)

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.list_every_page(2)
            self.database.close()
            shutil.rmtree(self.directory)


_IMAGE = Image(
    id=new_image_id(),
    account_id=AccountId(1),
    album_id=None,
    filename="a.png",
    original_filename="a.png",
    description="",
    is_public=True,
    format=Format.PNG,
    size=7,
    width=1,
    height=1,
    frames=1,
    has_alpha=False,
    sha256="",
    placeholder="",
    created_at=NOW,
    updated_at=NOW,
)

TestCounters = CounterMachine.TestCase
TestCounters.settings = settings(max_examples=6, stateful_step_count=40)


@pytest.fixture
def image(add: Callable[..., Image], database: Database) -> Image:
    with database.transaction() as transaction:
        AccountRepository(database).add_usage(transaction, AccountId(1), 7, 0)
    return add(size=7)


@pytest.mark.parametrize(
    ("damage", "mismatch"),
    [
        ("UPDATE accounts SET image_count = 3", CounterMismatch("accounts", "1", "image_count", 3, 1)),
        (
            "UPDATE accounts SET public_image_count = 0",
            CounterMismatch("accounts", "1", "public_image_count", 0, 1),
        ),
        ("UPDATE accounts SET album_count = 5", CounterMismatch("accounts", "1", "album_count", 5, 0)),
        ("UPDATE accounts SET used_bytes = 8", CounterMismatch("accounts", "1", "used_bytes", 8, 7)),
        (
            "UPDATE counters SET value = value - 3 WHERE name = 'gallery_images'",
            CounterMismatch("counters", "gallery_images", "value", -2, 1),
        ),
        (
            "UPDATE counters SET value = value + 6 WHERE name = 'accounts'",
            CounterMismatch("counters", "accounts", "value", 7, 1),
        ),
        ("UPDATE accounts SET key_count = 4", CounterMismatch("accounts", "1", "key_count", 4, 0)),
    ],
)
def test_a_wrong_counter_is_found_and_repaired(
    database: Database, image: Image, damage: str, mismatch: CounterMismatch
) -> None:
    assert check_counters(database) == ()
    with database.transaction() as transaction:
        transaction.execute(damage, {})
    assert check_counters(database) == (mismatch,)
    with database.transaction() as transaction:
        assert repair_counters(transaction) == (mismatch,)
    assert check_counters(database) == ()


def test_a_wrong_counter_of_an_album_is_found_and_repaired(
    database: Database, image: Image, add: Callable[..., Image]
) -> None:
    fields: dict[str, Any] = {"name": "a", "description": "", "is_public": 1}
    with database.transaction() as transaction:
        album_id = AlbumRepository(database).insert(transaction, AccountId(1), fields, NOW)
        ImageRepository(database).update(transaction, attrs.evolve(image, album_id=album_id))
        transaction.execute("UPDATE albums SET public_image_count = 9", {})
    mismatch = CounterMismatch("albums", str(album_id), "public_image_count", 9, 1)
    with database.transaction() as transaction:
        assert repair_counters(transaction) == (mismatch,)
    assert check_counters(database) == ()


def test_a_wrong_number_of_deliveries_is_found_and_repaired(database: Database, account: Account) -> None:
    webhooks = WebhookRepository(database)
    webhook = Webhook(
        id=new_id(WebhookId),
        account_id=account.id,
        url="https://example.com",
        events=(),
        description="",
        is_active=True,
        created_at=NOW,
    )
    outbox = OutboxRepository(database, webhooks, os.urandom)
    with database.transaction() as transaction:
        webhooks.insert(transaction, webhook, "secret")
        for _ in range(3):
            outbox.insert(transaction, new_event_id(), "webhook.test", NOW, b"{}", [webhook.id])
    assert outbox.list_by_webhook(webhook.id, PageRequest()).total == 3
    assert check_counters(database) == ()
    mismatch = CounterMismatch("webhooks", webhook.id, "delivery_count", 9, 3)
    with database.transaction() as transaction:
        transaction.execute("UPDATE webhooks SET delivery_count = 9", {})
        assert repair_counters(transaction) == (mismatch,)
    assert check_counters(database) == ()


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM gallery_images",
        "DELETE FROM image_words",
        "UPDATE image_words SET description = 'other'",
        "UPDATE images SET is_public = 0",
    ],
)
def test_a_wrong_entry_of_the_gallery_or_the_search_index_is_found_and_repaired(
    database: Database, image: Image, damage: str
) -> None:
    assert check_indexes(database) == ()
    with database.transaction() as transaction:
        transaction.execute(damage, {})
    assert check_indexes(database) == (image.id,)
    with database.transaction() as transaction:
        repair_index(transaction, image.id)
        repair_counters(transaction)
    assert check_indexes(database) == ()
    assert check_counters(database) == ()


def test_an_entry_of_the_gallery_without_an_image_is_found_and_repaired(database: Database) -> None:
    with database.transaction() as transaction:
        transaction.insert("gallery_images", {"created_at": 1, "id": "lost"})
        assert check_indexes(transaction) == ("lost",)
        repair_index(transaction, "lost")
    assert check_indexes(database) == ()
