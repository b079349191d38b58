"""The image repository: rows are read as they were written, and lists have the right images."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta

import attrs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imagehost_core.db.engines.database import Database
from imagehost_core.db.image_rows import to_image, to_image_row
from imagehost_core.db.lists.images import ImageListRepository
from imagehost_core.db.repositories.accounts import AccountRepository
from imagehost_core.db.repositories.albums import AlbumRepository
from imagehost_core.db.repositories.images import ImageRepository
from imagehost_core.formats import Format
from imagehost_core.ids import new_image_id
from imagehost_core.lists import ImageListRequest, PageRequest
from imagehost_core.models import Account, Image

START = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=TEXT,
    flags=st.tuples(st.booleans(), st.booleans()),
    numbers=st.tuples(*[st.integers(1, 2**40)] * 4),
    fmt=st.sampled_from(Format),
    timestamp=st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC)),
    derivatives=st.lists(st.tuples(st.integers(1, 9999), st.integers(1, 9999)), max_size=3),
)
def test_an_image_is_read_as_it_was_inserted(
    images: ImageRepository,
    add: Callable[..., Image],
    text: str,
    flags: tuple[bool, bool],
    numbers: tuple[int, ...],
    fmt: Format,
    timestamp: datetime,
    derivatives: list[tuple[int, int]],
) -> None:
    size, width, height, frames = numbers
    image = add(
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
        created_at=timestamp,
        updated_at=timestamp,
        derivatives=tuple(derivatives),
    )
    assert images.get(image.id) == image == to_image(to_image_row(image))
    assert images.exists(image.id)


def test_whether_an_image_is_recorded_is_known_once_its_transaction_has_ended(
    database: Database, images: ImageRepository, account: Account, add: Callable[..., Image]
) -> None:
    image = attrs.evolve(add(), id=new_image_id())
    assert not images.is_recorded(image.id, account.id)
    with ThreadPoolExecutor(2) as threads:
        with database.transaction(account.id) as transaction:
            images.insert(transaction, image)
            answers = [threads.submit(images.is_recorded, image.id, scope) for scope in (account.id, None)]
            # An answer that does not wait comes within a millisecond, and says no.
            assert not wait(answers, timeout=0.5).done
        assert [answer.result() for answer in answers] == [True, True]


def test_an_update_changes_only_what_an_owner_may_change(
    database: Database,
    images: ImageRepository,
    lists: ImageListRepository,
    account: Account,
    add: Callable[..., Image],
) -> None:
    albums = AlbumRepository(database)
    image = add()
    with database.transaction() as transaction:
        fields: dict[str, str | int | bytes | None] = {"name": "a", "description": "", "is_public": 1}
        album_id = albums.insert(transaction, account.id, fields, START)
        updated = attrs.evolve(
            image,
            album_id=album_id,
            description="new",
            is_public=False,
            filename="new.webp",
            updated_at=START + timedelta(days=1),
        )
        images.update(transaction, attrs.evolve(updated, size=7, sha256="f" * 64, width=9))
    assert images.get(image.id) == updated
    assert images.ids_by_album(album_id) == (image.id,)
    assert [image.id for image in lists.list_owned(account.id, ImageListRequest(album_id=album_id))] == [
        image.id
    ]


def test_the_gallery_shows_public_images_of_accounts_that_are_not_suspended(
    database: Database, lists: ImageListRepository, account: Account, add: Callable[..., Image]
) -> None:
    public = add()
    add(is_public=False)
    gallery = lists.list_gallery(PageRequest())
    assert [image.id for image in gallery] == [public.id]
    assert gallery.total == 1
    with database.transaction() as transaction:
        AccountRepository(database).update(transaction, attrs.evolve(account, suspended_at=START))
    assert len(lists.list_gallery(PageRequest())) == 0


def test_a_deleted_image_is_in_no_list_and_has_a_tombstone_until_it_is_removed(
    database: Database,
    images: ImageRepository,
    lists: ImageListRepository,
    account: Account,
    add: Callable[..., Image],
) -> None:
    image = add()
    with database.transaction() as transaction:
        images.insert_tombstone(transaction, image, START)
        assert images.get(image.id, transaction) is None
    assert images.get(image.id) is None
    assert not images.exists(image.id)
    assert lists.list_owned(account.id, ImageListRequest()).total == 0
    assert images.tombstones() == (image.id,)
    with database.transaction() as transaction:
        images.delete_tombstone(transaction, image.id)
    assert images.tombstones() == ()


def test_an_image_of_an_album_that_is_deleted_is_in_no_album(
    database: Database, images: ImageRepository, account: Account, add: Callable[..., Image]
) -> None:
    albums = AlbumRepository(database)
    with database.transaction() as transaction:
        fields: dict[str, str | int | bytes | None] = {"name": "a", "description": "", "is_public": 1}
        album_id = albums.insert(transaction, account.id, fields, START)
    image = add(album_id=album_id)
    with database.transaction() as transaction:
        album = albums.get(album_id, account.id, transaction)
        assert album is not None
        albums.delete(transaction, album)
    assert images.get(image.id) == attrs.evolve(image, album_id=None)


def test_equal_rows_are_the_same_image_and_changed_ones_are_not(
    images: ImageRepository, add: Callable[..., Image], database: Database
) -> None:
    image = add()
    assert images.get(image.id) is images.get(image.id)
    with database.transaction() as transaction:
        transaction.execute("UPDATE images SET description = 'new' WHERE id = :id", {"id": image.id})
    assert images.get(image.id) == attrs.evolve(image, description="new")
