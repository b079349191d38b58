"""Pagination: newest first; following the cursor neither skips nor repeats an item."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import attrs
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from imagehost_core.db import (
    AccountRepository,
    AlbumRepository,
    Database,
    ImageRepository,
    KeyRepository,
    WebhookRepository,
)
from imagehost_core.db.database import SqlRow, SqlValue
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, new_image_id
from imagehost_core.models import Account, Image
from imagehost_core.pagination import CursorPosition, PageRequest, parse_page_request
from imagehost_core.storage import LockManager

START = datetime(2026, 1, 1, tzinfo=UTC)


def follow_cursor(images: ImageRepository, account: Account, per_page: int) -> list[Image]:
    """Return all images of an account, following the cursor."""
    items: list[Image] = []
    request = PageRequest(per_page=per_page)
    while True:
        page = images.list_by_account(account.id, request)
        items.extend(page)
        if page.next_cursor is None:
            return items
        request = parse_page_request(per_page=per_page, cursor=page.next_cursor)


def newest_first(images: list[Image]) -> list[Image]:
    return sorted(images, key=lambda image: (image.created_at, image.id), reverse=True)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10, 11])
def test_page_numbers_and_cursors_give_the_same_list_newest_first(
    images: ImageRepository, account: Account, add: Callable[..., Image], count: int
) -> None:
    added = [add(created_at=START + timedelta(seconds=number // 3)) for number in range(count)]
    pages = [images.list_by_account(account.id, PageRequest(page, 5)) for page in (1, 2, 3, 4)]
    assert [image for page in pages for image in page] == newest_first(added)
    assert follow_cursor(images, account, 5) == newest_first(added)
    assert {page.total for page in pages} == {count}
    assert pages[0].total_pages == -(-count // 5)
    assert len(pages[3]) == 0
    assert pages[3].next_cursor is None


class RecordsPlans(Database):
    """A database that records the plan of each query (https://sqlite.org/eqp.html)."""

    def __init__(self, path: Path, locks: LockManager) -> None:
        super().__init__(path, locks)
        self.plans: list[list[str]] = []

    def fetch_all(self, sql: str, values: Mapping[str, SqlValue]) -> list[SqlRow]:
        self.plans.append(
            [str(row["detail"]) for row in super().fetch_all(f"EXPLAIN QUERY PLAN {sql}", values)]
        )
        return super().fetch_all(sql, values)


def lists(database: Database) -> dict[str, Callable[[PageRequest], object]]:
    images = ImageRepository(database)
    return {
        "images of an account": partial(images.list_by_account, AccountId(1)),
        "images of an album": partial(images.list_by_album, AlbumId(1)),
        "gallery": images.list_public,
        "albums": partial(AlbumRepository(database).list_by_account, AccountId(1)),
        "keys": partial(KeyRepository(database).list_by_account, AccountId(1)),
        "webhooks": partial(WebhookRepository(database).list_by_account, AccountId(1)),
    }


@pytest.mark.parametrize(
    "name", ["images of an account", "images of an album", "gallery", "albums", "keys", "webhooks"]
)
@pytest.mark.parametrize(
    "request_", [PageRequest(), PageRequest(page=900), PageRequest(after=CursorPosition(5, "x"))]
)
def test_counting_and_skipping_items_reads_a_covering_index_and_no_rows(
    database: Database, tmp_path: Path, name: str, request_: PageRequest
) -> None:
    """Any client may request any page of the gallery, so skipped items must cost next to nothing."""
    recorder = RecordsPlans(tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"))
    lists(recorder)[name](request_)
    count, rows = recorder.plans
    recorder.close()
    assert [step for step in count if " item" in step and "COVERING INDEX" not in step] == []
    steps = [step for step in rows if " item" in step]
    by_id = [step for step in steps if "PRIMARY KEY" in step]
    assert len(by_id) == 1, "the rows of the page are read by their ids"
    assert [step for step in steps if step not in by_id and "COVERING INDEX" not in step] == []
    assert len(steps) == 2


def test_a_full_last_page_has_no_cursor(
    images: ImageRepository, account: Account, add: Callable[..., Image]
) -> None:
    for _ in range(5):
        add()
    assert images.list_by_account(account.id, PageRequest(per_page=5)).next_cursor is None
    assert images.list_by_account(account.id, PageRequest(per_page=4)).next_cursor is not None


def test_albums_of_one_timestamp_are_sorted_by_number_and_not_by_text(
    database: Database, images: ImageRepository, account: Account
) -> None:
    """As text, `9` would come after `10`, and the cursor would skip or repeat albums."""
    albums = AlbumRepository(database)
    fields: dict[str, str | int | bytes | None] = {"name": "a", "description": "", "is_public": 1}
    with database.transaction() as transaction:
        album_ids = [albums.insert(transaction, account.id, fields, START) for _ in range(25)]
    listed, request = [], PageRequest(per_page=3)
    while True:
        page = albums.list_by_account(account.id, request)
        listed += [album.id for album in page]
        if page.next_cursor is None:
            break
        request = parse_page_request(per_page=3, cursor=page.next_cursor)
    assert listed == sorted(album_ids, reverse=True)


class CursorMachine(RuleBasedStateMachine):
    """A client follows the cursor while images are added and deleted.

    An image that exists from the first page to the last is listed once, no image is listed twice, and
    no deleted image is listed after its deletion.
    """

    @initialize(per_page=st.integers(1, 4))
    def begin(self, per_page: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="imagehost-test-"))
        self.database = Database(self.directory / "imagehost.sqlite3", LockManager(self.directory / "locks"))
        self.images = ImageRepository(self.database)
        accounts = AccountRepository(self.database)
        with self.database.transaction() as transaction:
            accounts.insert(transaction, "admin", None, START)
        self.account = AccountId(1)
        self.existing: dict[str, Image] = {}
        self.restart(per_page)

    @rule(per_page=st.integers(1, 4))
    def restart(self, per_page: int) -> None:
        self.per_page, self.is_finished = per_page, False
        self.cursor: str | None = None
        self.listed: list[str] = []
        self.existing_throughout = set(self.existing)

    @rule(seconds=st.integers(0, 3))
    def add(self, seconds: int) -> None:
        image = attrs.evolve(_IMAGE, id=new_image_id(), created_at=START + timedelta(seconds=seconds))
        with self.database.transaction() as transaction:
            self.images.insert(transaction, image)
        self.existing[image.id] = image

    @precondition(lambda self: self.existing)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        deleted = self.existing.pop(data.draw(st.sampled_from(sorted(self.existing))))
        self.existing_throughout.discard(deleted.id)
        with self.database.transaction() as transaction:
            self.images.insert_tombstone(transaction, deleted, START)

    @precondition(lambda self: not self.is_finished)
    @rule()
    def get_next_page(self) -> None:
        request = parse_page_request(per_page=self.per_page, cursor=self.cursor)
        page = self.images.list_by_account(self.account, request)
        assert page.total == len(self.existing)
        assert all(image == self.existing[image.id] for image in page)
        self.listed += [image.id for image in page]
        self.cursor, self.is_finished = page.next_cursor, page.next_cursor is None

    @invariant()
    def no_image_is_listed_twice(self) -> None:
        if hasattr(self, "listed"):
            assert len(set(self.listed)) == len(self.listed)

    @invariant()
    def no_image_is_skipped(self) -> None:
        if getattr(self, "is_finished", False):
            assert self.existing_throughout <= set(self.listed)

    def teardown(self) -> None:
        if hasattr(self, "database"):
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
    size=1,
    width=1,
    height=1,
    frames=1,
    has_alpha=False,
    sha256="0" * 64,
    placeholder="",
    created_at=START,
    updated_at=START,
)
TestCursor = CursorMachine.TestCase
TestCursor.settings = settings(max_examples=15, stateful_step_count=30)
