"""Pagination: newest first; following the cursor neither skips nor repeats an item."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.image_order import in_order

from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database, SqlRow, SqlValue
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.lists.images import ImageListRepository, image_list_id
from imagehost_core.db.lists.pages import list_id
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.errors import BadRequestError
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, new_image_id
from imagehost_core.lists import (
    CursorPosition,
    ImageFilter,
    ImageListRequest,
    ImageSort,
    PageRequest,
    parse_page_request,
)
from imagehost_core.models import Account, Image

START = datetime(2026, 1, 1, tzinfo=UTC)


def follow_cursor(lists: ImageListRepository, account: Account, per_page: int) -> list[Image]:
    """Return all images of an account, following the cursor."""
    items: list[Image] = []
    request = PageRequest(per_page=per_page)
    while True:
        page = lists.list_owned(account.id, ImageListRequest(page=request))
        items.extend(page)
        if page.next_cursor is None:
            return items
        request = parse_page_request(per_page=per_page, cursor=page.next_cursor)


TAKEN = (None, START, START - timedelta(days=40_000), None)


def newest_first(images: list[Image]) -> list[Image]:
    return sorted(images, key=lambda image: (image.created_at, image.id), reverse=True)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 10, 11])
def test_page_numbers_and_cursors_give_the_same_list_newest_first(
    lists: ImageListRepository, account: Account, add: Callable[..., Image], count: int
) -> None:
    added = [add(created_at=START + timedelta(seconds=number // 3)) for number in range(count)]
    requests = [ImageListRequest(page=PageRequest(page, 5)) for page in (1, 2, 3, 4)]
    pages = [lists.list_owned(account.id, request) for request in requests]
    assert [image for page in pages for image in page] == newest_first(added)
    assert follow_cursor(lists, account, 5) == newest_first(added)
    assert {page.total for page in pages} == {count}
    assert pages[0].total_pages == -(-count // 5)
    assert len(pages[3]) == 0
    assert pages[3].next_cursor is None


@given(
    times=st.lists(st.integers(0, 5), max_size=25),
    per_page=st.integers(1, 9),
    sort=st.sampled_from(ImageSort),
    filters=st.sampled_from([ImageFilter(), ImageFilter(is_public=True), ImageFilter(is_public=False)]),
)
def test_a_page_of_any_number_is_the_part_of_the_list_from_whichever_end_it_is_counted(
    times: list[int], per_page: int, sort: ImageSort, filters: ImageFilter
) -> None:
    with (
        tempfile.TemporaryDirectory() as directory,
        closing(SqliteDatabase(Path(directory) / "file", LockManager(Path(directory) / "locks"))) as database,
    ):
        with database.transaction() as transaction:
            AccountRepository(database).insert(transaction, "admin", None, b"secret", START)
            for number, seconds in enumerate(times):
                image = attrs.evolve(
                    _IMAGE,
                    id=new_image_id(),
                    created_at=START + timedelta(seconds=seconds),
                    size=1 + seconds % 3,
                    taken_at=TAKEN[seconds % 4],
                    is_public=number % 3 > 0,
                )
                ImageRepository(database).insert(transaction, image)
        lists = ImageListRepository(database, timeout_seconds=60)
        stored = [
            image
            for page in range(1, 4)
            for image in lists.list_owned(AccountId(1), ImageListRequest(page=PageRequest(page, 9)))
        ]
        assert len(stored) == len(times)
        expected = in_order((image for image in stored if filters.is_public in (None, image.is_public)), sort)
        gallery = [image for image in newest_first(stored) if image.is_public]
        for number in range(1, len(times) // per_page + 3):
            request = PageRequest(number, per_page)
            page = lists.list_owned(AccountId(1), ImageListRequest(filters=filters, sort=sort, page=request))
            part = slice(request.offset, request.offset + per_page)
            assert list(page) == expected[part]
            assert (page.next_cursor is None) == (part.stop >= len(expected))
            assert list(lists.list_gallery(request)) == gallery[part]


def test_a_page_by_its_number_skips_at_most_half_of_a_list_whose_total_is_known(tmp_path: Path) -> None:
    class RecordsOffsets(SqliteDatabase):
        offsets: ClassVar[list[SqlValue]] = []

        def fetch_all(
            self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
        ) -> list[SqlRow]:
            if "offset" in values:
                self.offsets.append(values["offset"])
            return super().fetch_all(sql, values, deadline=deadline)

    with closing(RecordsOffsets(tmp_path / "file", LockManager(tmp_path / "locks"))) as database:
        with database.transaction() as transaction:
            AccountRepository(database).insert(transaction, "admin", None, b"secret", START)
            for _ in range(40):
                ImageRepository(database).insert(transaction, attrs.evolve(_IMAGE, id=new_image_id()))
        lists = ImageListRepository(database, timeout_seconds=60)
        for number in range(1, 12):
            lists.list_owned(AccountId(1), ImageListRequest(page=PageRequest(number, 4)))
    assert database.offsets == [0, 4, 8, 12, 16, 15, 11, 7, 3, 0, 0]


@pytest.mark.parametrize("sort", [ImageSort.NEWEST, ImageSort.OLDEST])
@pytest.mark.parametrize("added", [1, 3, 8])
def test_images_that_are_stored_while_a_page_is_read_cut_nothing_off_it(
    tmp_path: Path, sort: ImageSort, added: int
) -> None:
    class GrowsOnceCounted(SqliteDatabase):
        to_add = 0

        def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
            row = super().fetch_one(sql, values)
            store(self.to_add)
            return row

    stored: list[str] = []

    def store(count: int) -> None:
        with database.transaction() as transaction:
            for _ in range(count):
                image = attrs.evolve(
                    _IMAGE, id=new_image_id(), created_at=START + timedelta(seconds=len(stored))
                )
                ImageRepository(database).insert(transaction, image)
                stored.append(image.id)

    with closing(GrowsOnceCounted(tmp_path / "file", LockManager(tmp_path / "locks"))) as database:
        with database.transaction() as transaction:
            AccountRepository(database).insert(transaction, "admin", None, b"secret", START)
        lists = ImageListRepository(database, timeout_seconds=60)
        store(6)
        database.to_add = added
        page = lists.list_owned(AccountId(1), ImageListRequest(sort=sort, page=PageRequest(per_page=10)))
        database.to_add = 0
        found = [image.id for image in page]
        if page.next_cursor is not None:
            request = parse_page_request(per_page=10, cursor=page.next_cursor)
            rest = lists.list_owned(AccountId(1), ImageListRequest(sort=sort, page=request))
            found += [image.id for image in rest]
    assert found == (stored if sort is ImageSort.OLDEST else stored[::-1])
    assert page.total is not None
    assert page.total >= len(page)


def test_a_full_last_page_has_no_cursor(
    lists: ImageListRepository, account: Account, add: Callable[..., Image]
) -> None:
    for _ in range(5):
        add()
    five, four = (ImageListRequest(page=PageRequest(per_page=count)) for count in (5, 4))
    assert lists.list_owned(account.id, five).next_cursor is None
    assert lists.list_owned(account.id, four).next_cursor is not None


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
        self.database = SqliteDatabase(
            self.directory / "imagehost.sqlite3", LockManager(self.directory / "locks")
        )
        self.images = ImageRepository(self.database)
        self.lists = ImageListRepository(self.database, timeout_seconds=60)
        accounts = AccountRepository(self.database)
        with self.database.transaction() as transaction:
            accounts.insert(transaction, "admin", None, b"secret", START)
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
        page = self.lists.list_owned(self.account, ImageListRequest(page=request))
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


@pytest.mark.parametrize(
    ("sort", "key"), [(ImageSort.NEWEST, "text"), (ImageSort.LARGEST, "5"), (ImageSort.FILENAME, 5)]
)
def test_a_changed_cursor_with_a_value_of_another_type_is_a_bad_request(
    lists: ImageListRepository, account: Account, sort: ImageSort, key: str | int
) -> None:
    request = ImageListRequest(sort=sort)
    position = CursorPosition(image_list_id(account.id, request), key, "x")
    with pytest.raises(BadRequestError):
        lists.list_owned(account.id, attrs.evolve(request, page=PageRequest(after=position)))


def test_a_changed_cursor_of_albums_without_a_number_is_a_bad_request(
    database: Database, account: Account
) -> None:
    for item_id in ("x", "9" * 40):
        page = PageRequest(after=CursorPosition(list_id("albums", account.id), 5, item_id))
        with pytest.raises(BadRequestError):
            AlbumRepository(database).list_by_account(account.id, page)
