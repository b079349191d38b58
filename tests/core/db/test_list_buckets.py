"""Buckets of lists: a page of any number is found near the beginning of a bucket, and no range grows long."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import accumulate, count
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.db import (
    AlbumRepository,
    CounterMismatch,
    Database,
    ImageListRepository,
    ImageRepository,
    SqliteDatabase,
    list_buckets,
)
from imagehost_core.db.database import SqlRow, SqlValue
from imagehost_core.db.list_buckets import Buckets
from imagehost_core.db.recount import check_counters, repair_counters
from imagehost_core.ids import AccountId, AlbumId, ImageId
from imagehost_core.image_lists import ImageListRequest, ImageSort
from imagehost_core.models import Account, Image, Page
from imagehost_core.pagination import PageRequest
from imagehost_core.storage import LockManager

START = datetime(2026, 1, 1, tzinfo=UTC)
ACCOUNT = AccountId(1)
BUCKET = 5
LISTS = ("account", "album", "public_album", "gallery")

SQLITE_ONLY = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


class RecordsQueries(SqliteDatabase):
    """A database that records the plan and the parameters of each query."""

    def __init__(self, path: Path, locks: LockManager) -> None:
        super().__init__(path, locks)
        self.queries: list[tuple[list[str], Mapping[str, SqlValue]]] = []

    def fetch_all(
        self, sql: str, values: Mapping[str, SqlValue], *, deadline: float | None = None
    ) -> list[SqlRow]:
        plan = super().fetch_all(f"EXPLAIN QUERY PLAN {sql}", values)
        self.queries.append(([str(step["detail"]) for step in plan], values))
        return super().fetch_all(sql, values, deadline=deadline)

    def fetch_one(self, sql: str, values: Mapping[str, SqlValue]) -> SqlRow | None:
        return next(iter(self.fetch_all(sql, values)), None)


@pytest.fixture(autouse=True)
def _short_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_buckets, "BUCKET_IMAGES", BUCKET)
    monkeypatch.setattr(list_buckets, "GALLERY_FACTOR", 1)


@pytest.fixture
def recorder(tmp_path: Path, account: Account) -> Iterator[RecordsQueries]:
    database = RecordsQueries(tmp_path / "imagehost.sqlite3", LockManager(tmp_path / "locks"))
    yield database
    database.close()


@pytest.fixture
def album_id(database: Database, account: Account) -> AlbumId:
    """An empty public album."""
    with database.transaction() as transaction:
        fields: dict[str, SqlValue] = {"name": "a", "description": "", "is_public": 1}
        return AlbumRepository(database).insert(transaction, ACCOUNT, fields, START)


@pytest.fixture
def upload(add: Callable[..., Image]) -> Callable[..., list[Image]]:
    """A function that inserts images, each a second newer, whose ids by default have the checked ending."""
    numbers = count(1)

    def insert(images: int, album_id: AlbumId | None, ending: str = "0") -> list[Image]:
        chosen = [next(numbers) for _ in range(images)]
        return [
            add(
                id=ImageId(f"{number:015}{ending}"),
                created_at=START + timedelta(seconds=number),
                album_id=album_id,
                is_public=True,
                size=0,
            )
            for number in chosen
        ]

    return insert


def delete(database: Database, *images: Image) -> None:
    for image in images:
        with database.transaction() as transaction:
            ImageRepository(database).insert_tombstone(transaction, image, START)


def buckets(database: Database, kind: str) -> list[int]:
    """Return the numbers of images of a list's buckets, oldest first."""
    rows = database.fetch_all(
        "SELECT image_count FROM list_buckets WHERE list = :list ORDER BY last_created_at, last_id",
        {"list": kind},
    )
    return [int(row["image_count"] or 0) for row in rows]


def read(
    database: Database,
    kind: str,
    album_id: AlbumId,
    sort: ImageSort,
    page: PageRequest,
    lists: ImageListRepository | None = None,
) -> Page[Image]:
    """Return a page of one of the four lists."""
    lists = lists or ImageListRepository(database, 30)
    request = ImageListRequest(sort=sort, page=page)
    if kind == "account":
        return lists.list_owned(ACCOUNT, request)
    if kind == "album":
        return lists.list_owned(ACCOUNT, attrs.evolve(request, album_id=album_id))
    if kind == "gallery":
        return lists.list_gallery(page)
    album = AlbumRepository(database).get_public(album_id)
    assert album is not None
    return lists.list_public_in_album(album, page)


@SQLITE_ONLY
@pytest.mark.parametrize(
    ("kind", "sort"), [*((kind, ImageSort.NEWEST) for kind in LISTS), *(("account", ImageSort.OLDEST),)]
)
def test_a_page_of_any_number_is_read_from_a_bucket_on(
    recorder: RecordsQueries,
    upload: Callable[..., list[Image]],
    album_id: AlbumId,
    kind: str,
    sort: ImageSort,
) -> None:
    uploaded = upload(60, album_id)
    expected = uploaded if sort is ImageSort.OLDEST else uploaded[::-1]
    used = set[str]()
    for number in range(1, 33):
        page = read(recorder, kind, album_id, sort, PageRequest(number, 2))
        assert list(page) == expected[2 * number - 2 : 2 * number]
        assert page.total == 60
        steps, values = recorder.queries[-1]
        skipped = values["offset"]
        assert isinstance(skipped, int)
        # Half of the images of the largest bucket, from whichever of its ends is nearer.
        assert skipped <= BUCKET or 2 * number - 2 < BUCKET
        directions = re.findall(r"\(created_at,id\)([<>])\(", " ".join(steps))
        assert directions or 2 * number - 2 < 2 * BUCKET
        used |= set(directions)
    assert used == {"<", ">"}


@given(
    sizes=st.lists(st.integers(1, 9), max_size=8),
    newer=st.integers(0, 20),
    offset=st.integers(0, 120),
    count=st.integers(1, 30),
    is_descending=st.booleans(),
)
def test_the_range_of_any_page_has_its_images_and_is_counted_from_the_nearest_bucket(
    sizes: list[int], newer: int, offset: int, count: int, is_descending: bool
) -> None:
    through = tuple(accumulate(sizes))
    found_buckets = Buckets(through, tuple((last - 1, "") for last in through))
    images = list(range(sum(sizes) + newer))
    listed = images[::-1] if is_descending else images
    found = found_buckets.find_range(offset, count, len(images), is_descending=is_descending)
    if found is None:
        return
    if found.is_descending:
        counted = [image for image in images[::-1] if (image, "") <= found.bound]
    else:
        counted = [image for image in images if (image, "") > found.bound]
    page = counted[found.skipped : found.skipped + found.count]
    assert sorted(page, reverse=is_descending) == listed[offset : offset + count]
    assert found.skipped <= max(offset - 1, 0)
    # Half of a bucket, or the images after the last one, whose newest end moves with each upload.
    assert found.skipped <= max(max(sizes, default=0) // 2 + count, newer)


@SQLITE_ONLY
def test_buckets_are_found_by_their_primary_key(
    recorder: RecordsQueries, upload: Callable[..., list[Image]], album_id: AlbumId
) -> None:
    upload(60, album_id)
    read(recorder, "account", album_id, ImageSort.NEWEST, PageRequest(20, 2))
    steps = [step for plan, _ in recorder.queries for step in plan if "bucket" in step and "SEARCH" in step]
    # The version with the total, then the buckets with the version of the same moment.
    assert len(steps) == 3
    assert all("USING PRIMARY KEY (list=? AND owner_id=?" in step for step in steps), steps


@SQLITE_ONLY
@pytest.mark.parametrize("kind", [kind for kind in LISTS if kind != "public_album"])
def test_a_page_of_any_number_takes_no_query_more_than_the_first_one(
    recorder: RecordsQueries, upload: Callable[..., list[Image]], album_id: AlbumId, kind: str
) -> None:
    upload(60, album_id)
    lists = ImageListRepository(recorder, 30)
    for number in (1, 30, 2, 25):
        recorder.queries.clear()
        read(recorder, kind, album_id, ImageSort.NEWEST, PageRequest(number, 2), lists)
        buckets_read = [plan for plan, _ in recorder.queries if "SEARCH list_buckets" in " ".join(plan)]
        assert (len(recorder.queries), len(buckets_read)) == ((3, 1) if number == 30 else (2, 0))


@pytest.mark.parametrize("kind", LISTS)
def test_a_change_of_any_process_replaces_buckets_in_memory(
    database: Database, upload: Callable[..., list[Image]], album_id: AlbumId, kind: str
) -> None:
    stored = upload(60, album_id)
    lists = ImageListRepository(database, 30)

    def require_pages() -> None:
        for number in range(1, len(stored) // 2 + 1):
            page = read(database, kind, album_id, ImageSort.NEWEST, PageRequest(number, 2), lists)
            assert list(page) == stored[::-1][2 * number - 2 : 2 * number]

    require_pages()
    delete(database, stored.pop(5), stored.pop(20))
    require_pages()
    stored += upload(4 * BUCKET, album_id)
    require_pages()
    with database.transaction() as transaction:
        transaction.execute("UPDATE list_buckets SET image_count = image_count + 3", {})
        transaction.execute("UPDATE bucket_versions SET version = version + 1", {})
    with pytest.raises(AssertionError):
        require_pages()
    with database.transaction() as transaction:
        repair_counters(transaction)
    require_pages()


def test_buckets_in_memory_of_lost_changes_are_not_used_after_others(
    database: Database, images: ImageRepository, upload: Callable[..., list[Image]], album_id: AlbumId
) -> None:
    """As after the promotion of a standby that did not have the last changes."""
    stored = upload(60, album_id)
    lists = ImageListRepository(database, 30)

    def require_pages(expected: list[Image]) -> None:
        for number in range(1, len(expected) // 2 + 1):
            page = read(database, "account", album_id, ImageSort.NEWEST, PageRequest(number, 2), lists)
            assert list(page) == expected[::-1][2 * number - 2 : 2 * number]

    require_pages(stored)
    versions = database.fetch_all("SELECT * FROM bucket_versions", {})
    lost = stored[5]
    delete(database, lost)
    require_pages([image for image in stored if image != lost])
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM tombstones", {})
        images.insert(transaction, lost)
        transaction.execute("DELETE FROM bucket_versions", {})
        for row in versions:
            transaction.insert("bucket_versions", row)
    delete(database, stored[40])
    require_pages([image for image in stored if image != stored[40]])


@SQLITE_ONLY
def test_new_buckets_replace_those_in_memory(
    recorder: RecordsQueries, upload: Callable[..., list[Image]], album_id: AlbumId
) -> None:
    lists = ImageListRepository(recorder, 30)
    for _ in range(3):
        upload(8 * BUCKET, album_id)
        read(recorder, "account", album_id, ImageSort.NEWEST, PageRequest(10, 2), lists)
        skipped = recorder.queries[-1][1]["offset"]
        assert isinstance(skipped, int)
        assert skipped < 2 * BUCKET


@pytest.mark.parametrize("kind", LISTS)
def test_a_list_that_grows_gets_buckets_and_a_short_list_has_none(
    database: Database, upload: Callable[..., list[Image]], album_id: AlbumId, kind: str
) -> None:
    upload(2 * BUCKET - 1, album_id)
    assert buckets(database, kind) == []
    upload(1 + BUCKET, album_id)
    assert buckets(database, kind) == [BUCKET, BUCKET]


def test_the_images_after_the_last_bucket_stay_few_while_old_images_are_deleted(
    database: Database, upload: Callable[..., list[Image]]
) -> None:
    stored = upload(20, None)
    for _ in range(30):
        stored += upload(1, None)
        delete(database, stored.pop(0))
    assert 20 - sum(buckets(database, "account")) < 2 * BUCKET
    assert 0 not in buckets(database, "account"), "a bucket is deleted with its last image"
    assert check_counters(database) == ()


def test_images_that_join_a_list_at_an_old_position_split_its_buckets(
    database: Database, upload: Callable[..., list[Image]], album_id: AlbumId
) -> None:
    outside, _ = upload(30, None), upload(11, album_id)
    assert buckets(database, "album") == [BUCKET]
    for image in outside:
        with database.transaction() as transaction:
            ImageRepository(database).update(transaction, attrs.evolve(image, album_id=album_id))
    for kind in ("album", "public_album"):
        assert max(buckets(database, kind)) < 2 * BUCKET
        assert len(buckets(database, kind)) >= 41 // (2 * BUCKET)
    assert check_counters(database) == ()


def test_an_album_that_is_hidden_and_shown_keeps_the_gallerys_buckets_exact(
    database: Database, upload: Callable[..., list[Image]], album_id: AlbumId
) -> None:
    for _ in range(6):
        upload(10, album_id, "1")
        upload(2, None, "1")
    albums = AlbumRepository(database)
    for is_public in (0, 1):
        with database.transaction() as transaction:
            albums.update(transaction, album_id, {"is_public": is_public}, START)
        assert check_counters(database) == ()
        assert 0 not in buckets(database, "gallery")
    assert max(buckets(database, "gallery")) < 2 * BUCKET
    assert 72 - sum(buckets(database, "gallery")) < 2 * BUCKET


def test_only_public_images_are_in_the_buckets_of_public_lists(
    database: Database, upload: Callable[..., list[Image]], album_id: AlbumId
) -> None:
    uploaded = upload(25, album_id)
    images = ImageRepository(database)
    for public in (False, True, False):
        for image in uploaded[2:12]:
            with database.transaction() as transaction:
                images.update(transaction, attrs.evolve(image, is_public=public))
        assert check_counters(database) == ()
    delete(database, *(attrs.evolve(image, is_public=False) for image in uploaded[2:12]))
    assert check_counters(database) == ()
    assert sum(buckets(database, "public_album")) == sum(buckets(database, "album")) > 0


def test_a_deleted_album_leaves_no_buckets(
    database: Database, upload: Callable[..., list[Image]], album_id: AlbumId
) -> None:
    upload(20, album_id)
    album = AlbumRepository(database).get(album_id, ACCOUNT)
    assert album is not None
    with database.transaction() as transaction:
        AlbumRepository(database).delete(transaction, album)
    assert (buckets(database, "album"), buckets(database, "public_album")) == ([], [])
    assert buckets(database, "account") != []


@pytest.mark.parametrize("kind", LISTS)
def test_a_wrong_bucket_is_found_and_repaired(
    database: Database, upload: Callable[..., list[Image]], album_id: AlbumId, kind: str
) -> None:
    upload(20, album_id)
    with database.transaction() as transaction:
        transaction.execute(
            "UPDATE list_buckets SET image_count = 3 WHERE list = :list AND last_id = "
            "(SELECT max(last_id) FROM list_buckets WHERE list = :list)",
            {"list": kind},
        )
    (mismatch,) = check_counters(database)
    assert mismatch.row.startswith(f"{kind} ")
    assert mismatch == CounterMismatch("list_buckets", mismatch.row, "image_count", 3, BUCKET)
    with database.transaction() as transaction:
        assert repair_counters(transaction) == (mismatch,)
    assert check_counters(database) == ()


def test_repairing_counters_puts_long_lists_into_buckets(
    database: Database, upload: Callable[..., list[Image]], album_id: AlbumId
) -> None:
    upload(22, album_id)
    stored = {kind: buckets(database, kind) for kind in LISTS}
    with database.transaction() as transaction:
        transaction.execute("DELETE FROM list_buckets", {})
        assert repair_counters(transaction) == ()
    assert {kind: buckets(database, kind) for kind in LISTS} == stored
    assert stored == dict.fromkeys(LISTS, [BUCKET] * 3)
