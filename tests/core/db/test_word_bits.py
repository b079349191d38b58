"""Bloom filters of words: no search misses an image because of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.db import Database, ImageListRepository, ImageRepository, SqliteDatabase
from imagehost_core.db.recount import check_indexes, repair_indexes
from imagehost_core.db.sqlite_migrations import migrate
from imagehost_core.db.word_bits import UNKNOWN, filter_of_image, filter_of_words
from imagehost_core.ids import AccountId
from imagehost_core.image_lists import ImageFilter, ImageListRequest
from imagehost_core.models import Image
from imagehost_core.storage import LockManager

LETTERS = st.text(st.sampled_from("abc猫é0"), min_size=1, max_size=12)


@given(words=st.lists(LETTERS, min_size=1, max_size=8), data=st.data())
def test_the_filter_of_an_image_has_the_bits_of_all_words_and_their_beginnings(
    words: list[str], data: st.DataObject
) -> None:
    searched = data.draw(st.sampled_from(words))
    beginning = searched[: data.draw(st.integers(min(2, len(searched)), len(searched)))]
    bits = filter_of_words([beginning])
    assert bits > 0
    assert filter_of_words(words) & bits == bits
    assert bits & UNKNOWN == bits


def test_most_filters_lack_a_bit_of_another_word() -> None:
    """The filters of 1,000 images with five words each, and the searches for 100 other words."""
    filters = [filter_of_words(["img", f"{n * 7919:08}", "webp", "lake", "summer"]) for n in range(1_000)]
    searches = [filter_of_words([f"z{n * 31:03}"]) for n in range(100)]
    false_positives = sum(bits & search == search for bits in filters for search in searches)
    assert false_positives < 0.05 * len(filters) * len(searches)


def stored_filter(database: Database, image: Image) -> object:
    row = database.fetch_one("SELECT word_bits FROM images WHERE id = :id", {"id": image.id})
    return row and row["word_bits"]


def test_the_filter_of_an_image_follows_its_file_name_and_description(
    database: Database, images: ImageRepository, add: Callable[..., Image]
) -> None:
    image = add(filename="one.webp", description="first")
    assert stored_filter(database, image) == filter_of_words(["one", "webp", "first"])
    changed = attrs.evolve(image, filename="two.webp", description="second")
    with database.transaction() as transaction:
        images.update(transaction, changed)
    assert stored_filter(database, image) == filter_of_words(["two", "webp", "second"])


@pytest.mark.parametrize(("stored", "is_wrong"), [(0, True), (UNKNOWN, False)])
def test_a_check_of_the_indexes_finds_and_corrects_a_wrong_filter(
    database: Database, add: Callable[..., Image], stored: int, is_wrong: bool
) -> None:
    image = add(description="cat")
    with database.transaction() as transaction:
        transaction.execute("UPDATE images SET word_bits = :bits", {"bits": stored})
    assert check_indexes(database) == ((image.id,) if is_wrong else ())
    with database.transaction() as transaction:
        repair_indexes(transaction)
    assert stored_filter(database, image) == filter_of_image(image)


def test_a_database_without_filters_is_upgraded_and_searched(tmp_path: Path) -> None:
    path = tmp_path / "imagehost.sqlite3"
    with closing(sqlite3.connect(path)) as old:
        migrate(old, stop_before="word_bits")
        old.execute("INSERT INTO accounts (name, signing_secret, created_at) VALUES ('a', '', 0)")
        old.execute(
            "INSERT INTO images SELECT 1, 'x', 1, NULL, 'cat.webp', 'cat.webp', '', 1, 'webp', "
            "1, 1, 1, 1, 0, '', '', '[]', 0, 0"
        )
        old.execute("INSERT INTO image_words (rowid, filename, description) VALUES (1, '1xcat 1xwebp', '')")
        old.commit()
    with closing(SqliteDatabase(path, LockManager(tmp_path / "locks"))) as database:
        lists = ImageListRepository(database, timeout_seconds=60)
        found = [
            [image.id for image in lists.list_owned(AccountId(1), ImageListRequest(filters=ImageFilter(q=q)))]
            for q in ("cat", "ca", "dog")
        ]
    assert found == [["x"], ["x"], []]
