"""Filters, orders and searches of image lists, compared with a plain Python model."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.image_order import in_order

from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.lists import searches
from imagehost_core.db.lists.images import ImageListRepository, image_list_id
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.errors import BadRequestError, UnavailableError
from imagehost_core.formats import UPLOADABLE, Format
from imagehost_core.ids import AccountId, AlbumId, new_image_id
from imagehost_core.lists import (
    FILTER_RULES,
    ImageFilter,
    ImageListRequest,
    ImageSort,
    PageRequest,
    parse_page_request,
    split_words,
)
from imagehost_core.models import Account, Image, Page

START = datetime(2026, 1, 1, tzinfo=UTC)
TIMES = st.integers(0, 4).map(lambda seconds: START + timedelta(seconds=seconds))
WORDS = ["cat", "category", "Cats", "IMG_20", "img", "20", "猫の写真", "写真", "x", "xy"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)
FILTERS = st.builds(
    ImageFilter,
    q=TEXTS,
    is_public=st.none() | st.booleans(),
    format=st.none() | st.sampled_from(UPLOADABLE),
    created_after=st.none() | TIMES,
    created_before=st.none() | TIMES,
)
TAKEN = (datetime(1, 1, 1, tzinfo=UTC), START, datetime(9999, 12, 31, 23, tzinfo=UTC))
FIELDS = st.fixed_dictionaries(
    {
        "filename": TEXTS,
        "description": TEXTS,
        "is_public": st.booleans(),
        "format": st.sampled_from(UPLOADABLE),
        "size": st.integers(1, 3),
        "created_at": TIMES,
        "taken_at": st.none() | st.sampled_from(TAKEN),
        "account_id": st.sampled_from([1, 12]),
    }
)


LIMITS = {
    "read a short list": {},
    "read the first images, then search": {"SHORT_LIST": 0},
    "search only": {"SHORT_LIST": 0, "READ_FIRST": 0, "MIN_READ_FIRST": 0},
}
"""The limits with which a search in SQLite finds its images in each way."""


def search_by(patch: pytest.MonkeyPatch, way: str) -> None:
    for name, value in LIMITS[way].items():
        patch.setattr(searches, name, value)


def has_phrase(text: str, phrase: tuple[str, ...], *, last_is_prefix: bool) -> bool:
    words = split_words(text)
    for start in range(len(words) - len(phrase) + 1):
        part = words[start : start + len(phrase)]
        if part == phrase or (
            last_is_prefix and part[:-1] == phrase[:-1] and part[-1].startswith(phrase[-1])
        ):
            return True
    return False


def matches(image: Image, text: str) -> bool:
    """Whether an image has all words of a search text, which is not blank."""
    phrases = [split_words(part) for part in text.split()]
    return all(
        any(
            has_phrase(
                field,
                phrase,
                last_is_prefix=phrase is phrases[-1] and len(phrase[-1]) > 1,
            )
            for field in (image.filename, image.description)
        )
        for phrase in phrases
    )


def pages(read: Callable[[PageRequest], Page[Image]], per_page: int) -> Iterator[Image]:
    """Yield the images of all pages of a list."""
    request = PageRequest(per_page=per_page)
    while True:
        page = read(request)
        yield from page
        if page.next_cursor is None:
            return
        request = parse_page_request(per_page=per_page, cursor=page.next_cursor)


def is_selected(image: Image, filters: ImageFilter) -> bool:
    return (
        image.account_id == 1
        and (filters.is_public is None or image.is_public is filters.is_public)
        and (filters.format is None or image.format is filters.format)
        and (filters.created_after is None or image.created_at > filters.created_after)
        and (filters.created_before is None or image.created_at < filters.created_before)
        and (not filters.has_search or matches(image, filters.q))
    )


@pytest.fixture(scope="module")
def empty() -> Iterator[Callable[[], tuple[Database, ImageRepository]]]:
    directory = Path(tempfile.mkdtemp(prefix="imagehost-test-"))
    database = SqliteDatabase(directory / "imagehost.sqlite3", LockManager(directory / "locks"))
    images = ImageRepository(database)
    with database.transaction() as transaction:
        for number in range(12):
            AccountRepository(database).insert(transaction, f"account{number}", None, b"secret", START)

    def clear() -> tuple[Database, ImageRepository]:
        with database.transaction() as transaction:
            for image in [image for id_ in (1, 12) for image in images.ids_by_account(AccountId(id_))]:
                stored = images.get(image, transaction)
                if stored is not None:
                    images.insert_tombstone(transaction, stored, START)
            transaction.execute("DELETE FROM tombstones", {})
        return database, images

    yield clear
    database.close()
    shutil.rmtree(directory)


@given(
    fields=st.lists(FIELDS, max_size=12),
    filters=FILTERS,
    sort=st.sampled_from(ImageSort),
    per_page=st.integers(1, 5),
    way=st.sampled_from([*LIMITS]),
)
def test_pages_list_the_selected_images_in_their_order(
    empty: Callable[[], tuple[Database, ImageRepository]],
    image: Image,
    fields: list[dict[str, Any]],
    filters: ImageFilter,
    sort: ImageSort,
    per_page: int,
    way: str,
) -> None:
    database, images = empty()
    stored = [attrs.evolve(image, id=new_image_id(), album_id=None, **changes) for changes in fields]
    with database.transaction() as transaction:
        for new in stored:
            images.insert(transaction, new)
    expected = in_order((image for image in stored if is_selected(image, filters)), sort)
    lists = ImageListRepository(database, timeout_seconds=60)
    request = ImageListRequest(filters=filters, sort=sort, page=PageRequest(per_page=per_page))
    listed: list[Image] = []
    with pytest.MonkeyPatch.context() as patch:
        search_by(patch, way)
        while True:
            page = lists.list_owned(AccountId(1), request)
            assert page.total == (len(expected) if filters.has_total else None)
            listed += page
            if page.next_cursor is None:
                break
            next_page = parse_page_request(per_page=per_page, cursor=page.next_cursor)
            request = attrs.evolve(request, page=next_page)
        second = attrs.evolve(request, page=PageRequest(2, per_page))
        assert list(lists.list_owned(AccountId(1), second)) == expected[per_page : 2 * per_page]
        if filters.has_search:
            found = list(pages(lambda page: lists.list_gallery(page, filters.q), per_page))
            public = [image for image in stored if image.is_public and matches(image, filters.q)]
            assert found == sorted(public, key=lambda image: (image.created_at, image.id), reverse=True)
    assert listed == expected


@given(text=st.text(max_size=100))
def test_any_text_can_be_searched(empty: Callable[[], tuple[Database, ImageRepository]], text: str) -> None:
    database, _ = empty()
    lists = ImageListRepository(database, timeout_seconds=60)
    page = lists.list_owned(AccountId(1), ImageListRequest(filters=ImageFilter(q=text)))
    assert page.items == ()
    assert page.total == (None if text.strip() else 0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", True),
        ("  ", True),
        ("!!!", False),
        ("harbour", True),
        ("HARB", True),
        ("arbour", False),
        ("harb sunset", False),
        ("sunset harb", True),
        ("img_2034.webp", True),
        ("img_2034.png", False),
        ("2034 harbour", True),
        ('"harbour" OR NOT (*', False),
        ("malaga", True),
        ("日の入", True),
        ("入り", True),
        ("の日", False),
    ],
)
def test_images_are_found_by_words_of_their_filename_and_description(
    lists: ImageListRepository, account: Account, add: Callable[..., Image], text: str, found: bool
) -> None:
    add(filename="IMG_2034.webp", description="Sunset over the harbour of Málaga, 日の入り")
    page = lists.list_owned(account.id, ImageListRequest(filters=ImageFilter(q=text)))
    assert bool(page.items) is found


def test_a_changed_or_deleted_image_is_not_found_by_its_previous_words(
    database: Database,
    images: ImageRepository,
    lists: ImageListRepository,
    account: Account,
    add: Callable[..., Image],
) -> None:
    def found(text: str) -> list[str]:
        page = lists.list_owned(account.id, ImageListRequest(filters=ImageFilter(q=text)))
        return [image.id for image in page]

    image = add(filename="one.webp", description="first")
    with database.transaction() as transaction:
        images.update(transaction, attrs.evolve(image, description="second"))
    assert (found("first"), found("second"), found("one")) == ([], [image.id], [image.id])
    with database.transaction() as transaction:
        images.insert_tombstone(transaction, attrs.evolve(image, description="second"), START)
    assert found("second") == []


def test_a_cursor_of_other_filters_another_order_or_another_list_is_rejected(
    lists: ImageListRepository, account: Account, add: Callable[..., Image]
) -> None:
    for _ in range(3):
        add(format=Format.PNG)
    first = ImageListRequest(
        filters=ImageFilter(format=Format.PNG), sort=ImageSort.LARGEST, page=PageRequest(per_page=1)
    )
    cursor = lists.list_owned(account.id, first).next_cursor
    page = parse_page_request(cursor=cursor)
    assert len(lists.list_owned(account.id, attrs.evolve(first, page=page))) == 2
    others = [
        (AccountId(2), attrs.evolve(first, page=page)),
        (account.id, attrs.evolve(first, page=page, sort=ImageSort.SMALLEST)),
        (account.id, attrs.evolve(first, page=page, sort=ImageSort.NEWEST)),
        (account.id, attrs.evolve(first, page=page, album_id=AlbumId(1))),
        (account.id, attrs.evolve(first, page=page, filters=ImageFilter())),
        (account.id, attrs.evolve(first, page=page, filters=ImageFilter(format=Format.PNG, q="a"))),
        (account.id, attrs.evolve(first, page=page, filters=ImageFilter(format=Format.PNG, is_public=True))),
    ]
    for account_id, request in others:
        with pytest.raises(BadRequestError, match="with the same filters and sort, for cursor"):
            lists.list_owned(account_id, request)
    with pytest.raises(BadRequestError, match="for cursor"):
        lists.list_gallery(page)


def test_a_query_is_interrupted_at_its_deadline_and_the_next_one_is_not(database: Database) -> None:
    endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    with pytest.raises(UnavailableError):
        database.fetch_all(endless, {}, deadline=time.monotonic() + 0.05)
    assert database.fetch_all("SELECT 1 AS one", {}) == [{"one": 1}]
    with pytest.raises(UnavailableError), database.transaction() as transaction:
        transaction.fetch_all(endless, {}, deadline=time.monotonic() + 0.05)


@pytest.mark.parametrize(
    "query", ["cat", "ca", "cat dog", "cat-dog", "dog-cat", "cat-do", "webp cat-do", "x_1 ca"]
)
def test_each_way_of_a_search_finds_the_same_images(
    add: Callable[..., Image], lists: ImageListRepository, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    for text in ("cat", "dog", "cat dog", "dog cat", "cat x_1", "cats x_12", "concat", "a cat, dogs"):
        add(description=text, filename="x_1.webp")
        add(description="", filename=f"{text}.webp")
    request = ImageListRequest(filters=ImageFilter(q=query))
    first = lists.list_owned(AccountId(1), request)
    assert 0 < len(first.items) < 16
    for way in LIMITS:
        search_by(monkeypatch, way)
        assert lists.list_owned(AccountId(1), request) == first, way
        assert lists.list_gallery(request.page, query).items == first.items, way


@pytest.mark.parametrize("sort", [ImageSort.NEWEST, ImageSort.OLDEST])
def test_a_search_lists_many_images_of_one_second_and_those_around_it_in_their_order(
    database: Database,
    images: ImageRepository,
    lists: ImageListRepository,
    account: Account,
    add: Callable[..., Image],
    monkeypatch: pytest.MonkeyPatch,
    sort: ImageSort,
) -> None:
    """Files of an archive have one time, and imported images a time before 1970 or long ago."""
    search_by(monkeypatch, "search only")
    template = add(description="cat", created_at=datetime(1965, 1, 1, tzinfo=UTC))
    stored = [template]
    with database.transaction() as transaction:
        for number in range(60):
            # Older images are inserted last.
            created_at = START - timedelta(milliseconds=number // 40 * 700 + number % 3)
            stored.append(attrs.evolve(template, id=new_image_id(), created_at=created_at))
            images.insert(transaction, stored[-1])
    expected = sorted(stored, key=lambda image: (image.created_at, image.id), reverse=sort.is_descending)
    filters, listed, page = ImageFilter(q="cat"), list[Image](), PageRequest(per_page=7)
    while True:
        found = lists.list_owned(account.id, ImageListRequest(filters=filters, sort=sort, page=page))
        listed += found
        if found.next_cursor is None:
            break
        page = parse_page_request(per_page=7, cursor=found.next_cursor)
    assert listed == expected


def test_a_search_that_does_not_end_in_time_is_503_in_every_order(
    account: Account, add: Callable[..., Image], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    search_by(monkeypatch, "search only")
    images, template = ImageRepository(database), add(description="cat")
    with database.transaction() as transaction:
        for _ in range(900):
            images.insert(transaction, attrs.evolve(template, id=new_image_id()))
    lists = ImageListRepository(database, timeout_seconds=0)
    for sort in ImageSort:
        request = ImageListRequest(filters=ImageFilter(q="cat"), sort=sort)
        with pytest.raises(UnavailableError) as caught:
            lists.list_owned(account.id, request)
        assert caught.value.retry_after == 5
    with pytest.raises(UnavailableError):
        lists.list_gallery(PageRequest(), "cat")


OTHER_VALUES: dict[str, Any] = {
    "q": "dog",
    "is_public": False,
    "format": Format.GIF,
    "created_after": START,
    "created_before": START,
    "sha256": "0" * 64,
}


def test_every_filter_has_a_value_in_the_next_tests() -> None:
    assert OTHER_VALUES.keys() == FILTER_RULES.keys()


@pytest.mark.parametrize("name", FILTER_RULES)
def test_a_list_with_another_filter_has_another_cursor(name: str) -> None:
    plain = ImageListRequest()
    filtered = ImageListRequest(filters=ImageFilter(**{name: OTHER_VALUES[name]}))
    assert image_list_id(AccountId(1), plain) != image_list_id(AccountId(1), filtered)


@pytest.mark.parametrize("name", FILTER_RULES)
def test_a_list_with_any_filter_but_that_for_public_images_has_no_total(name: str) -> None:
    assert ImageFilter().has_total
    assert ImageFilter(**{name: OTHER_VALUES[name]}).has_total is (name == "is_public")
