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

import attrs
import pytest

from imagehost_core.db import (
    AccountRepository,
    AlbumRepository,
    Database,
    ImageListRepository,
    KeyRepository,
    OutboxRepository,
    SqliteDatabase,
    WebhookRepository,
    image_searches,
)
from imagehost_core.db.database import SqlRow, SqlValue
from imagehost_core.db.image_lists import image_list_id
from imagehost_core.db.pagination import list_id
from imagehost_core.formats import Format
from imagehost_core.gallery import PublicAlbum
from imagehost_core.ids import AccountId, AlbumId, WebhookId
from imagehost_core.image_lists import ImageFilter, ImageListRequest, ImageSort
from imagehost_core.models import Account, Image
from imagehost_core.pagination import CursorPosition, PageRequest
from imagehost_core.storage import LockManager

ACCOUNT = AccountId(1)
ALBUM = PublicAlbum(id=AlbumId(1), name="a", description="", image_count=1, cover=None)
TIME = datetime(2026, 1, 1, tzinfo=UTC)
FILTERS = {
    "all": ImageFilter(),
    "public": ImageFilter(is_public=True),
    "format": ImageFilter(format=Format.PNG),
    "dates": ImageFilter(created_after=TIME, created_before=TIME, is_public=False, format=Format.GIF),
}

MATCHES_PLAN = ["CO-ROUTINE matching", "SCAN image_words VIRTUAL TABLE INDEX 0:M2", "SCAN matching"]
"""The plan of the query for the numbers of images that match a search: by the index of words only."""
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
    suffix = "" if sort.column == "created_at" else f"_and_{sort.column}"
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
def test_a_search_with_few_matches_reads_these_by_their_numbers(
    recorder: RecordsPlans, add: Callable[..., Image]
) -> None:
    add(description="cat")
    lists = ImageListRepository(recorder, timeout_seconds=60)
    for sort in ImageSort:
        lists.list_owned(ACCOUNT, ImageListRequest(filters=ImageFilter(q="cat"), sort=sort))
        first, search, page = recorder.plans[-3:]
        assert any("COVERING INDEX images_by_account" in str(step["detail"]) for step in first)
        assert [str(step["detail"]) for step in search] == MATCHES_PLAN
        assert page_ids_plan(page)[:2] == [
            "SCAN json_each VIRTUAL TABLE INDEX 1:",
            "SEARCH item USING INTEGER PRIMARY KEY (rowid=?)",
        ]


@SQLITE_ONLY
def test_matches_are_sorted_before_more_images_are_checked_only_if_they_are_close_together(
    recorder: RecordsPlans, add: Callable[..., Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        add(description="cat")
    monkeypatch.setattr(image_searches, "FEW_MATCHES", 1)
    lists = ImageListRepository(recorder, timeout_seconds=60)

    def count_queries(sort: ImageSort) -> int:
        recorder.plans.clear()
        request = ImageListRequest(filters=ImageFilter(q="cat"), sort=sort)
        assert len(lists.list_owned(ACCOUNT, request)) == 2
        return len(recorder.plans)

    # In another order, images that were uploaded together may be far apart.
    assert (count_queries(ImageSort.NEWEST), count_queries(ImageSort.LARGEST)) == (4, 5)
    with recorder.transaction() as transaction:
        transaction.execute("UPDATE image_words SET rowid = 9999 WHERE rowid = 2", {})
        transaction.execute("UPDATE images SET number = 9999 WHERE number = 2", {})
    assert count_queries(ImageSort.NEWEST) == 5


@SQLITE_ONLY
@pytest.mark.parametrize("album_id", [None, AlbumId(1)])
def test_the_images_that_a_search_checks_are_read_from_a_covering_index(
    recorder: RecordsPlans,
    add: Callable[..., Image],
    monkeypatch: pytest.MonkeyPatch,
    album_id: AlbumId | None,
) -> None:
    add(description="cat")
    owner = "account" if album_id is None else "album"
    for name in ("FEW_MATCHES", "MANY_MATCHES"):
        monkeypatch.setattr(image_searches, name, 0)
    lists = ImageListRepository(recorder, timeout_seconds=60)
    for sort, name in product(ImageSort, FILTERS):
        filters = attrs.evolve(FILTERS[name], q="cat")
        recorder.plans.clear()
        lists.list_owned(ACCOUNT, ImageListRequest(album_id=album_id, filters=filters, sort=sort))
        first, few, *then, every = ([str(step["detail"]) for step in plan] for plan in recorder.plans)
        more, many = reversed(then) if sort.column == "created_at" else then
        for steps in (first, more, every):
            read = [step for step in steps if " item USING COVERING INDEX" in step]
            assert len(read) == 1, steps
            assert f"images_by_{owner}" in read[0]
            # The outer query sorts the rows of the page.
            assert sum("TEMP B-TREE" in step for step in steps) <= 1
        assert few == many == MATCHES_PLAN


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
