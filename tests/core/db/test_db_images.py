"""The rows of images: they come back as they went in, and each list shows what it should."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imagehost_core.db import AlbumRepository, Database, ImageRepository
from imagehost_core.db.images import to_image, to_row
from imagehost_core.formats import Format
from imagehost_core.models import Account, Image
from imagehost_core.pagination import PageRequest

START = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(
    text=TEXT,
    flags=st.tuples(st.booleans(), st.booleans()),
    numbers=st.tuples(*[st.integers(1, 2**40)] * 4),
    fmt=st.sampled_from(Format),
    moment=st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC)),
    rungs=st.lists(st.tuples(st.integers(1, 9999), st.integers(1, 9999)), max_size=3),
)
def test_an_image_comes_back_as_it_was_recorded(
    images: ImageRepository,
    add: Callable[..., Image],
    text: str,
    flags: tuple[bool, bool],
    numbers: tuple[int, ...],
    fmt: Format,
    moment: datetime,
    rungs: list[tuple[int, int]],
) -> None:
    size, width, height, frames = numbers
    made = add(
        filename=text,
        original_filename=text,
        description=text,
        is_public=flags[0],
        has_alpha=flags[1],
        format=fmt,
        size=size,
        width=width,
        height=height,
        frames=frames,
        created_at=moment,
        updated_at=moment,
        derivatives=tuple(rungs),
    )
    assert images.get(made.id) == made == to_image(to_row(made))
    assert images.exists(made.id)


def test_an_update_changes_what_an_owner_may_change_and_nothing_else(
    catalog: Database, images: ImageRepository, account: Account, add: Callable[..., Image]
) -> None:
    albums = AlbumRepository(catalog)
    made = add()
    with catalog.transaction() as transaction:
        fields: dict[str, str | int | bytes | None] = {"name": "a", "description": "", "is_public": 1}
        album_id = albums.insert(transaction, account.id, fields, START)
        allowed = attrs.evolve(
            made,
            album_id=album_id,
            description="new",
            is_public=False,
            filename="new.webp",
            updated_at=START + timedelta(days=1),
        )
        images.update(transaction, attrs.evolve(allowed, size=7, sha256="f" * 64, width=9))
    assert images.get(made.id) == allowed
    assert images.ids_by_album(album_id) == (made.id,)
    assert [image.id for image in images.list_by_album(album_id, PageRequest())] == [made.id]


def test_the_gallery_shows_public_images_of_accounts_that_are_not_suspended(
    catalog: Database, images: ImageRepository, account: Account, add: Callable[..., Image]
) -> None:
    shown = add()
    add(is_public=False)
    gallery = images.list_public(PageRequest())
    assert [image.id for image in gallery] == [shown.id]
    assert gallery.total == 1
    with catalog.transaction() as transaction:
        transaction.execute("UPDATE accounts SET suspended_at = 1 WHERE id = :id", {"id": account.id})
    assert len(images.list_public(PageRequest())) == 0


def test_a_buried_image_is_in_no_list_and_its_grave_waits_until_it_is_forgotten(
    catalog: Database, images: ImageRepository, account: Account, add: Callable[..., Image]
) -> None:
    made = add()
    with catalog.transaction() as transaction:
        images.insert_tombstone(transaction, made, START)
        assert images.get(made.id, transaction) is None
    assert images.get(made.id) is None
    assert not images.exists(made.id)
    assert images.list_by_account(account.id, PageRequest()).total == 0
    assert images.tombstones() == (made.id,)
    with catalog.transaction() as transaction:
        images.delete_tombstone(transaction, made.id)
    assert images.tombstones() == ()


def test_an_image_of_an_album_that_is_deleted_is_in_no_album(
    catalog: Database, images: ImageRepository, account: Account, add: Callable[..., Image]
) -> None:
    albums = AlbumRepository(catalog)
    with catalog.transaction() as transaction:
        fields: dict[str, str | int | bytes | None] = {"name": "a", "description": "", "is_public": 1}
        album_id = albums.insert(transaction, account.id, fields, START)
    made = add(album_id=album_id)
    with catalog.transaction() as transaction:
        albums.delete(transaction, album_id)
    assert images.get(made.id) == attrs.evolve(made, album_id=None)


def test_each_list_is_walked_along_an_index(catalog: Database) -> None:
    """A list of a million images may not be sorted for each page."""
    lists = {
        "account_id = 1": "images_by_account",
        "album_id = 1": "images_by_album",
        "is_public = 1": "images_in_gallery",
    }
    for where, index in lists.items():
        steps = catalog.fetch_all(
            f"EXPLAIN QUERY PLAN SELECT * FROM images AS item WHERE {where} "
            "ORDER BY item.created_at DESC, item.id DESC LIMIT 21",
            {},
        )
        told = " ".join(str(step["detail"]) for step in steps)
        assert index in told
        assert "TEMP B-TREE" not in told
