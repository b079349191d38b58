"""Lists in pages: newest first; walking on by the cursor neither skips nor repeats."""

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
from imagehost_core.db.database import Row, Value
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, new_image_id
from imagehost_core.models import Account, Image
from imagehost_core.pagination import CursorPosition, PageRequest, parse_page_request
from imagehost_core.storage import LockManager

START = datetime(2026, 1, 1, tzinfo=UTC)


def walk(images: ImageRepository, account: Account, per_page: int) -> list[Image]:
    """Return all images of an account, page by page along the cursor."""
    found: list[Image] = []
    request = PageRequest(per_page=per_page)
    while True:
        page = images.list_by_account(account.id, request)
        found.extend(page)
        if page.next_cursor is None:
            return found
        request = parse_page_request(per_page=per_page, cursor=page.next_cursor)


def newest_first(images: list[Image]) -> list[Image]:
    return sorted(images, key=lambda image: (image.created_at, image.id), reverse=True)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10, 11])
def test_pages_and_cursor_give_the_same_list_newest_first(
    images: ImageRepository, account: Account, add: Callable[..., Image], count: int
) -> None:
    made = [add(created_at=START + timedelta(seconds=number // 3)) for number in range(count)]
    pages = [images.list_by_account(account.id, PageRequest(page, 5)) for page in (1, 2, 3, 4)]
    assert [image for page in pages for image in page] == newest_first(made)
    assert walk(images, account, 5) == newest_first(made)
    assert {page.total for page in pages} == {count}
    assert pages[0].total_pages == -(-count // 5)
    assert len(pages[3]) == 0
    assert pages[3].next_cursor is None


class Watched(Database):
    """A catalog that keeps the plan of each query (https://sqlite.org/eqp.html)."""

    def __init__(self, path: Path, locks: LockManager) -> None:
        super().__init__(path, locks)
        self.plans: list[list[str]] = []

    def fetch_all(self, sql: str, values: Mapping[str, Value]) -> list[Row]:
        self.plans.append(
            [str(row["detail"]) for row in super().fetch_all(f"EXPLAIN QUERY PLAN {sql}", values)]
        )
        return super().fetch_all(sql, values)


def lists(catalog: Database) -> dict[str, Callable[[PageRequest], object]]:
    images = ImageRepository(catalog)
    return {
        "images of an account": partial(images.list_by_account, AccountId(1)),
        "images of an album": partial(images.list_by_album, AlbumId(1)),
        "gallery": images.list_public,
        "albums": partial(AlbumRepository(catalog).list_by_account, AccountId(1)),
        "keys": partial(KeyRepository(catalog).list_by_account, AccountId(1)),
        "webhooks": partial(WebhookRepository(catalog).list_by_account, AccountId(1)),
    }


@pytest.mark.parametrize(
    "name", ["images of an account", "images of an album", "gallery", "albums", "keys", "webhooks"]
)
@pytest.mark.parametrize(
    "request_", [PageRequest(), PageRequest(page=900), PageRequest(after=CursorPosition(5, "x"))]
)
def test_counting_a_list_and_passing_over_items_reads_an_index_and_no_rows(
    catalog: Database, tmp_path: Path, name: str, request_: PageRequest
) -> None:
    """Anybody may ask for any page of the gallery: what is not shown must cost next to nothing."""
    watched = Watched(tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"))
    lists(watched)[name](request_)
    count, rows = watched.plans
    watched.close()
    assert [step for step in count if " item" in step and "COVERING INDEX" not in step] == []
    steps = [step for step in rows if " item" in step]
    shown = [step for step in steps if "PRIMARY KEY" in step]
    assert len(shown) == 1, "the items that are shown, by their ids"
    assert [step for step in steps if step not in shown and "COVERING INDEX" not in step] == []
    assert len(steps) == 2


def test_the_last_page_has_no_cursor_though_it_is_full(
    images: ImageRepository, account: Account, add: Callable[..., Image]
) -> None:
    for _ in range(5):
        add()
    assert images.list_by_account(account.id, PageRequest(per_page=5)).next_cursor is None
    assert images.list_by_account(account.id, PageRequest(per_page=4)).next_cursor is not None


def test_albums_of_one_moment_are_walked_by_number_and_not_by_text(
    catalog: Database, images: ImageRepository, account: Account
) -> None:
    """As text `9` would come after `10`, and a walk would skip or repeat."""
    albums = AlbumRepository(catalog)
    fields: dict[str, str | int | bytes | None] = {"name": "a", "description": "", "is_public": 1}
    with catalog.transaction() as transaction:
        made = [albums.insert(transaction, account.id, fields, START) for _ in range(25)]
    found, request = [], PageRequest(per_page=3)
    while True:
        page = albums.list_by_account(account.id, request)
        found += [album.id for album in page]
        if page.next_cursor is None:
            break
        request = parse_page_request(per_page=3, cursor=page.next_cursor)
    assert found == sorted(made, reverse=True)


class Walking(RuleBasedStateMachine):
    """Somebody walks along the list while others add and delete.

    Whatever was there when the walk began and is still there when it ends was seen, once; nothing was
    seen twice; and no deleted image is ever seen after its deletion.
    """

    @initialize(per_page=st.integers(1, 4))
    def begin(self, per_page: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="imagehost-test-"))
        self.catalog = Database(self.folder / "imagehost.sqlite3", LockManager(self.folder / "locks"))
        self.images = ImageRepository(self.catalog)
        accounts = AccountRepository(self.catalog)
        with self.catalog.transaction() as transaction:
            accounts.insert(transaction, "admin", None, START)
        self.account = AccountId(1)
        self.there: dict[str, Image] = {}
        self.restart(per_page)

    @rule(per_page=st.integers(1, 4))
    def restart(self, per_page: int) -> None:
        self.per_page, self.ended = per_page, False
        self.cursor: str | None = None
        self.seen: list[str] = []
        self.from_the_start = set(self.there)

    @rule(seconds=st.integers(0, 3))
    def add(self, seconds: int) -> None:
        made = attrs.evolve(_IMAGE, id=new_image_id(), created_at=START + timedelta(seconds=seconds))
        with self.catalog.transaction() as transaction:
            self.images.insert(transaction, made)
        self.there[made.id] = made

    @precondition(lambda self: self.there)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        gone = self.there.pop(data.draw(st.sampled_from(sorted(self.there))))
        self.from_the_start.discard(gone.id)
        with self.catalog.transaction() as transaction:
            self.images.insert_tombstone(transaction, gone, START)

    @precondition(lambda self: not self.ended)
    @rule()
    def walk_on(self) -> None:
        request = parse_page_request(per_page=self.per_page, cursor=self.cursor)
        page = self.images.list_by_account(self.account, request)
        assert page.total == len(self.there)
        assert all(image == self.there[image.id] for image in page)
        self.seen += [image.id for image in page]
        self.cursor, self.ended = page.next_cursor, page.next_cursor is None

    @invariant()
    def nothing_is_seen_twice(self) -> None:
        if hasattr(self, "seen"):
            assert len(set(self.seen)) == len(self.seen)

    @invariant()
    def nothing_is_skipped(self) -> None:
        if getattr(self, "finish", False):
            assert self.from_the_start <= set(self.seen)

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.catalog.close()
            shutil.rmtree(self.folder)


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
TestWalking = Walking.TestCase
TestWalking.settings = settings(max_examples=15, stateful_step_count=30)
