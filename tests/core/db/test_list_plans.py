"""The queries of lists in SQLite: they are read in the order of an index, and skipped items cost no row.

https://sqlite.org/eqp.html describes the plans.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import attrs
import pytest

from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database, SqlRow, SqlValue
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.lists import images, searches
from imagehost_core.db.lists.images import ImageListRepository, image_list_id
from imagehost_core.db.lists.pages import list_id
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.db.repositories.keys import KeyRepository
from imagehost_core.db.repositories.outbox import OutboxRepository
from imagehost_core.db.repositories.webhooks import WebhookRepository
from imagehost_core.formats import Format
from imagehost_core.ids import AccountId, AlbumId, WebhookId
from imagehost_core.lists import CursorPosition, ImageFilter, ImageListRequest, ImageSort, PageRequest
from imagehost_core.models import Account, Image, PublicAlbum

ACCOUNT = AccountId(1)
ALBUM = PublicAlbum(id=AlbumId(1), name="a", description="", image_count=1, cover=None)
TIME = datetime(2026, 1, 1, tzinfo=UTC)
FILTERS = {
    "all": ImageFilter(),
    "public": ImageFilter(is_public=True),
    "format": ImageFilter(format=Format.PNG),
    "dates": ImageFilter(created_after=TIME, created_before=TIME, is_public=False, format=Format.GIF),
}
INDEXES = {"all": "", "public": "_and_visibility", "format": "_and_format", "dates": "_and_visibility"}
"""The indexes that have the images of each filter in the order of time; few are public or private."""

SQLITE_ONLY = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


class RecordsPlans(SqliteDatabase):
    """A database that records the plan of each query."""

    def __init__(self, path: Path, locks: LockManager) -> None:
        super().__init__(path, locks)
        self.plans: list[list[SqlRow]] = []
        self.statements: list[str] = []

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        self.statements.append(sql)
        self.plans.append(super().fetch_all(f"EXPLAIN QUERY PLAN {sql}", values))
        return super().fetch_all(sql, values, deadline=deadline)

    def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
        return next(iter(self.fetch_all(sql, values)), None)


@pytest.fixture
def recorder(tmp_path: Path, account: Account) -> Iterator[RecordsPlans]:
    database = RecordsPlans(tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"))
    yield database
    database.close()


def page_ids_plan(plan: list[SqlRow]) -> list[str]:
    """Return the steps that find the ids of a page's items."""
    subquery = next(step["id"] for step in plan if str(step["detail"]).startswith("LIST SUBQUERY"))
    return [str(step["detail"]) for step in plan if step["parent"] == subquery]


def cursor_of(request: ImageListRequest) -> PageRequest:
    key = "a" if request.sort.column == "filename" else 5
    return PageRequest(after=CursorPosition(image_list_id(ACCOUNT, request), key, "x"))


@SQLITE_ONLY
@pytest.mark.parametrize("album_id", [None, AlbumId(1)])
@pytest.mark.parametrize("sort", list(ImageSort))
@pytest.mark.parametrize("name", FILTERS)
def test_every_order_and_filter_of_images_is_read_from_a_covering_index(
    recorder: RecordsPlans, album_id: AlbumId | None, sort: ImageSort, name: str
) -> None:
    lists = ImageListRepository(recorder, timeout_seconds=60)
    request = ImageListRequest(album_id=album_id, filters=FILTERS[name], sort=sort)
    owner = "account" if album_id is None else "album"
    suffix = f"_and_{sort.column}"
    if sort.column == "created_at":
        suffix = "" if album_id else INDEXES[name]
    for page in (PageRequest(), PageRequest(page=900), cursor_of(request)):
        lists.list_owned(ACCOUNT, attrs.evolve(request, page=page))
        (step,) = page_ids_plan(recorder.plans[-1])
        assert step.startswith("SEARCH item USING COVERING INDEX "), step
        assert f"images_by_{owner}{suffix} (" in step
        if page.after is not None:
            # The page begins at the cursor, and does not skip what is before it.
            operator = "<" if sort.is_descending else ">"
            assert f"({sort.column},id){operator}(?,?)" in step


@SQLITE_ONLY
@pytest.mark.parametrize("album_id", [None, AlbumId(1)])
@pytest.mark.parametrize("q", ["", "cat"])
def test_images_of_the_same_uploaded_bytes_are_found_by_an_index_in_every_order(
    recorder: RecordsPlans, add: Callable[..., Image], album_id: AlbumId | None, q: str
) -> None:
    add(description="cat")
    lists = ImageListRepository(recorder, timeout_seconds=60)
    for sort, name in product(ImageSort, FILTERS):
        filters = attrs.evolve(FILTERS[name], sha256="0" * 64, q=q)
        recorder.plans.clear()
        lists.list_owned(ACCOUNT, ImageListRequest(album_id=album_id, filters=filters, sort=sort))
        steps = [str(step["detail"]) for step in recorder.plans[-1]]
        assert any("images_by_upload (account_id=? AND upload_sha256=?)" in step for step in steps), (
            sort,
            name,
            steps,
        )


@SQLITE_ONLY
@pytest.mark.parametrize("rare", [True, False])
def test_a_search_among_few_private_images_reads_these_and_no_others(
    recorder: RecordsPlans, add: Callable[..., Image], monkeypatch: pytest.MonkeyPatch, rare: bool
) -> None:
    found = add(description="cat", is_public=False)
    add(description="cat")
    with recorder.transaction() as transaction:
        transaction.execute("UPDATE accounts SET image_count = 2, public_image_count = 1", {})
    if not rare:
        monkeypatch.setattr(images, "SHORT_LIST", 0)
    lists = ImageListRepository(recorder, timeout_seconds=60)
    private = ImageFilter(q="cat", is_public=False)
    for chosen in (private, attrs.evolve(private, format=Format(found.format))):
        recorder.plans.clear()
        page = lists.list_owned(ACCOUNT, ImageListRequest(filters=chosen))
        assert [image.id for image in page.items] == [found.id]
        steps = " ".join(str(step["detail"]) for plan in recorder.plans for step in plan)
        assert ("images_by_account_and_visibility" in steps) is rare


@SQLITE_ONLY
@pytest.mark.parametrize("sort", list(ImageSort))
def test_a_search_reads_the_index_of_words_and_the_rows_of_its_matches(
    recorder: RecordsPlans, add: Callable[..., Image], monkeypatch: pytest.MonkeyPatch, sort: ImageSort
) -> None:
    add(description="cat")
    monkeypatch.setattr(searches, "SHORT_LIST", -1)
    lists = ImageListRepository(recorder, timeout_seconds=60)
    for album_id, name in product((None, AlbumId(1)), FILTERS):
        filters = attrs.evolve(FILTERS[name], q="cat")
        recorder.plans.clear()
        recorder.statements.clear()
        lists.list_owned(ACCOUNT, ImageListRequest(album_id=album_id, filters=filters, sort=sort))
        statements = zip(recorder.statements, recorder.plans, strict=True)
        plan = next(plan for sql, plan in statements if "MATCH" in sql)
        search = [str(step["detail"]) for step in plan]
        assert any(step.startswith("SCAN image_words VIRTUAL TABLE") for step in search), search
        assert "SEARCH item USING INTEGER PRIMARY KEY (rowid=?)" in search
        # FTS5 returns its rows in the order of time; those of other orders are sorted.
        assert any("TEMP B-TREE" in step for step in search) == (sort.column != "created_at")


@SQLITE_ONLY
def test_a_search_of_the_gallery_reads_its_table_and_the_rows_of_matches(
    recorder: RecordsPlans, add: Callable[..., Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    add(description="cat")
    monkeypatch.setattr(searches, "SHORT_LIST", -1)
    ImageListRepository(recorder, timeout_seconds=60).list_gallery(PageRequest(), "cat")
    first, search = ([str(step["detail"]) for step in plan] for plan in recorder.plans[1:3])
    assert not any("TEMP B-TREE" in step for step in search)
    assert [step.partition(" VIRTUAL")[0] for step in search] == [
        "SCAN image_words",
        "SEARCH image USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH item USING PRIMARY KEY (created_at=? AND id=?)",
    ]
    # The outer query sorts the rows of the page.
    assert sum("TEMP B-TREE" in step for step in first) <= 1
    assert {step for step in first if step.startswith("SEARCH images")} == {
        "SEARCH images USING COVERING INDEX sqlite_autoindex_images_1 (id=?)"
    }


@SQLITE_ONLY
@pytest.mark.parametrize("album_id", [None, AlbumId(1)])
def test_the_images_that_a_search_reads_first_are_read_from_a_covering_index(
    recorder: RecordsPlans, add: Callable[..., Image], album_id: AlbumId | None
) -> None:
    add(description="cat")
    owner = "account" if album_id is None else "album"
    lists = ImageListRepository(recorder, timeout_seconds=60)
    for sort, name in product(ImageSort, FILTERS):
        filters = attrs.evolve(FILTERS[name], q="cat")
        recorder.plans.clear()
        lists.list_owned(ACCOUNT, ImageListRequest(album_id=album_id, filters=filters, sort=sort))
        # A short list is read to its end: there is no query after those for its length.
        _, *counts, first = recorder.plans
        assert len(counts) <= 1
        steps = [str(step["detail"]) for step in first]
        read = [step for step in steps if " item USING COVERING INDEX" in step]
        assert len(read) == 1, steps
        assert f"images_by_{owner}" in read[0]
        # The outer query sorts the rows of the page.
        assert sum("TEMP B-TREE" in step for step in steps) <= 1


@SQLITE_ONLY
def test_a_search_with_a_filter_that_few_images_meet_does_not_read_the_index_of_words(
    recorder: RecordsPlans, add: Callable[..., Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    (fmt,) = {add(description="cat", is_public=True).format for _ in range(3)}
    rare = next(each for each in Format if each is not fmt)
    monkeypatch.setattr(searches, "SHORT_LIST", 1)
    lists = ImageListRepository(recorder, timeout_seconds=60)

    def reads_words(**filters: Any) -> bool:
        recorder.statements.clear()
        request = ImageListRequest(filters=ImageFilter(q="missing", **filters))
        assert lists.list_owned(ACCOUNT, request).items == ()
        return any("MATCH" in sql and "false" not in sql for sql in recorder.statements)

    assert reads_words(format=fmt)
    assert not reads_words(format=rare)
    assert reads_words(is_public=True)
    assert not reads_words(is_public=False)


def other_lists(database: Database) -> dict[str, tuple[str, Callable[[PageRequest], object]]]:
    """Return each list with its id."""
    images = ImageListRepository(database, timeout_seconds=60)
    albums, keys, webhooks = AlbumRepository(database), KeyRepository(database), WebhookRepository(database)
    accounts, outbox = AccountRepository(database), OutboxRepository(database, webhooks, os.urandom)
    return {
        "gallery": (list_id("gallery"), images.list_gallery),
        "gallery of an album": (list_id("gallery", 1), partial(images.list_public_in_album, ALBUM)),
        "albums": (list_id("albums", 1), partial(albums.list_by_account, ACCOUNT)),
        "keys": (list_id("keys", 1), partial(keys.list_by_account, ACCOUNT)),
        "webhooks": (list_id("webhooks", 1), partial(webhooks.list_by_account, ACCOUNT)),
        "accounts": (list_id("accounts"), accounts.list),
        "deliveries": (list_id("deliveries", "x"), partial(outbox.list_by_webhook, WebhookId("x"))),
    }


NAMES = ("gallery", "gallery of an album", "albums", "keys", "webhooks", "accounts", "deliveries")


@SQLITE_ONLY
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("page", [PageRequest(), PageRequest(page=900), None])
def test_skipping_items_of_other_lists_reads_an_index_and_no_rows(
    recorder: RecordsPlans, name: str, page: PageRequest | None
) -> None:
    """Any client may request any page of the gallery, so skipped items must cost next to nothing."""
    id_, read = other_lists(recorder)[name]
    item = "1" if name in ("albums", "accounts") else "x"
    read(page or PageRequest(after=CursorPosition(id_, 5, item)))
    (step,) = page_ids_plan(recorder.plans[-1])
    # The table of the gallery has no other columns than its primary key.
    assert "COVERING INDEX" in step or name == "gallery", step
    assert "TEMP B-TREE" not in step
    outer = [str(row["detail"]) for row in recorder.plans[-1] if row["parent"] == 0]
    assert any("id=?" in detail or "rowid=?" in detail for detail in outer), outer


@SQLITE_ONLY
@pytest.mark.parametrize("name", [name for name in NAMES if name != "webhooks"])
def test_totals_of_lists_without_a_largest_length_are_not_counted(recorder: RecordsPlans, name: str) -> None:
    _, read = other_lists(recorder)[name]
    read(PageRequest())
    ImageListRepository(recorder, timeout_seconds=60).list_owned(ACCOUNT, ImageListRequest())
    assert len(recorder.statements) >= 3
    assert not [sql for sql in recorder.statements if "count(" in sql]


@SQLITE_ONLY
def test_disabled_webhooks_are_read_from_an_index_of_them_alone(recorder: RecordsPlans) -> None:
    WebhookRepository(recorder).list_disabled(20)
    steps = [str(step["detail"]) for step in recorder.plans[-1]]
    assert steps == ["SCAN item USING INDEX webhooks_disabled"]
