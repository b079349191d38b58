"""Private albums: what becomes of their images, by the table of the documentation, on both engines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen
from tests.core.services.conftest import ONE_WORKER
from tests.transitions import DELETED, MOVES, SWITCHES, Transition, read_transitions

from imagehost_core import Album, Event, Image, ImageHost, ValidationError
from imagehost_core.errors import ImageHostError
from imagehost_core.events import AlbumUpdated
from imagehost_core.ids import ImageId
from imagehost_core.maintenance.recount import check_counters, check_indexes
from imagehost_core.observer import Measurement, TransactionEnded
from imagehost_core.resources import AlbumRecord
from imagehost_core.testing import make_image, shared_executor

EACH_ENGINE = True

SMALL = make_image(8, 8)


@pytest.fixture
def heard(host: ImageHost) -> Iterator[list[Event]]:
    """Events that subscribers received."""
    events: list[Event] = []
    end = host.subscribe(events.append)
    yield events
    end()


def make_album(host: ImageHost, is_public: bool | None) -> Album | None:
    return None if is_public is None else host.albums.create(owner="admin", name="a", is_public=is_public)


def update(host: ImageHost, image: Image, move: Move, options: Options) -> int:
    changed = host.images.update(image, album_id=move.target_id, **options)
    return image.is_public and not changed.is_public


def update_many(host: ImageHost, image: Image, move: Move, options: Options) -> int:
    results = host.images.update_many([image], owner="admin", album_id=move.target_id, **options)
    return sum(result.made_private for result in results)


def change_members(host: ImageHost, image: Image, move: Move, options: Options) -> int:
    if move.target is not None:
        changed = host.albums.add_images(move.target, [image], owner="admin", **options)
    else:
        assert move.source is not None
        changed = host.albums.remove_images(move.source, [image], owner="admin", **options)
    return changed.made_private_count


def delete(host: ImageHost, _image: Image, move: Move, options: Options) -> int:
    assert move.source is not None
    return host.albums.delete(move.source, owner="admin", **options).made_private_count


def switch(host: ImageHost, _image: Image, move: Move, options: Options) -> int:
    assert move.source is not None
    host.albums.update(move.source, owner="admin", is_public=SWITCHES[move.action], **options)
    return 0


@frozen
class Move:
    """An action with the albums that it concerns."""

    action: str
    source: Album | None
    target: Album | None

    @property
    def target_id(self) -> int | None:
        return None if self.target is None else self.target.id

    def ways(self) -> tuple[Request, ...]:
        """Return the requests that have the action as their effect."""
        if self.action in SWITCHES:
            return (switch,)
        if self.action == DELETED:
            return (delete,)
        has_album = self.source is not None or self.target is not None
        return (update, update_many, change_members) if has_album else (update, update_many)


Options = dict[str, Any]
Request = Callable[[ImageHost, Image, Move, Options], int]
"""A request that an action may be; it returns how many images it has made private."""


def count_events(move: Move, transition: Transition) -> int:
    """Return how many events a transition has."""
    if move.action == DELETED:
        return 0
    if move.source is not None and move.action in SWITCHES:
        is_switched = move.source.is_public != SWITCHES[move.action]
        return is_switched or transition.images_public == (not transition.image)
    return len({album.id for album in (move.source, move.target) if album is not None})


def test_every_transition_of_the_table_has_its_outcome_by_every_request(
    host: ImageHost, heard: list[Event], workspace: Path
) -> None:
    found_before = list(host.check(quick=True))
    image = host.upload(SMALL, owner="admin", filename="seagull.png")
    for transition in read_transitions(workspace):
        for way in (update, update_many, change_members, delete, switch):
            albums = [make_album(host, each) for each in (transition.album, MOVES.get(transition.action))]
            move = Move(transition.action, *albums)
            if way not in move.ways():
                continue
            source_id = None if move.source is None else move.source.id
            before = host.images.update(image, album_id=source_id, is_public=transition.image)
            options = {} if transition.images_public is None else {"images_public": transition.images_public}
            heard.clear()
            made_private = way(host, before, move, options)
            after = host.images.get(image.id)
            is_listed = image.id in [each.id for each in host.gallery(per_page=100)]
            outcome = "listed" if is_listed else "public" if after.is_public else "private"
            assert (outcome, made_private) == (transition.outcome, transition.is_made_private), transition
            assert len(host.gallery(q="seagull")) == is_listed
            assert (after.updated_at > before.updated_at) is (
                (after.is_public, after.album_id) != (before.is_public, before.album_id)
                and move.action != DELETED
            ) or transition.is_made_private
            assert len(heard) == count_events(move, transition), transition
            for event in heard:
                assert isinstance(event, AlbumUpdated)
                assert event.data == AlbumRecord.of(host.albums.get(event.data.id, owner="admin"))
    assert list(host.check(quick=True)) == found_before


def test_a_visibility_that_a_change_names_is_set(host: ImageHost) -> None:
    image = host.upload(SMALL, owner="admin")
    for is_public in (True, False):
        album = host.albums.create(owner="admin", name="a", is_public=False)
        host.images.update(image, album_id=album.id, is_public=True)
        assert host.images.update(image, album_id=None, is_public=is_public).is_public is is_public


def test_an_upload_into_a_private_album_is_private_unless_it_says_otherwise(host: ImageHost) -> None:
    for album in (make_album(host, True), make_album(host, False), None):
        expected = album is None or album.is_public
        assert host.upload(SMALL, owner="admin", album_id=album).is_public is expected
        for is_public in (True, False):
            image = host.upload(SMALL, owner="admin", album_id=album, is_public=is_public)
            assert image.is_public is is_public
        if album is not None:
            current = host.albums.get(album, owner="admin")
            assert (current.image_count, current.public_image_count) == (3, 1 + expected)


@pytest.mark.parametrize("value", ["true", 1, None])
def test_a_flag_that_is_no_boolean_is_refused_and_nothing_changes(host: ImageHost, value: Any) -> None:
    album = make_album(host, False)
    assert album is not None
    image = host.upload(SMALL, owner="admin", album_id=album, is_public=True)
    for request in (
        lambda: host.albums.delete(album, owner="admin", images_public=value),
        lambda: host.albums.add_images(album, [image], owner="admin", images_public=value),
        lambda: host.albums.remove_images(album, [image], owner="admin", images_public=value),
        lambda: host.images.update(image, album_id=None, images_public=value),
        lambda: host.images.update_many([image], owner="admin", album_id=None, images_public=value),
    ):
        with pytest.raises(ValidationError, match="expected true or false for images_public"):
            request()
    assert host.images.get(image.id) == image


def test_the_images_of_a_large_album_change_in_several_transactions_and_the_album_in_the_last(
    host: ImageHost, heard: list[Event]
) -> None:
    album = make_large_album(host, is_public=False)

    def listed(images_public: bool, is_public: bool) -> int:
        heard.clear()
        changed = host.albums.update(album, owner="admin", is_public=is_public, images_public=images_public)
        assert changed == host.albums.get(album, owner="admin")
        assert changed.public_image_count == (COPIES if images_public else 0)
        assert len(host.gallery(q="pelican")) == (20 if images_public and is_public else 0)
        return len(heard)

    assert listed(images_public=False, is_public=True) == 1
    assert listed(images_public=True, is_public=True) == 1
    assert listed(images_public=False, is_public=False) == 2
    # Their album is private before the images are public.
    assert host.albums.update(album, owner="admin", images_public=True).public_image_count == COPIES
    assert listed(images_public=False, is_public=True) == 1
    assert listed(images_public=True, is_public=False) == 2
    deleted = host.albums.delete(album, owner="admin")
    assert deleted.made_private_count == COPIES
    public = host.images.list(owner="admin", q="pelican", is_public=True)
    assert len(public) == 0


COPIES = 1_001


def make_large_album(host: ImageHost, *, is_public: bool) -> Album:
    """Return an album of 1,001 public images, of which one has a file."""
    album = host.albums.create(owner="admin", name="a", is_public=is_public)
    image = host.upload(SMALL, owner="admin", album_id=album, is_public=True, filename="pelican.png")
    records = host._context.records
    with records.database.transaction(album.account_id) as transaction:
        for number in range(COPIES - 1):
            records.images.insert(transaction, evolve(image, id=ImageId(f"pelican{number:09}")))
        records.accounts.add_usage(transaction, album.account_id, (COPIES - 1) * image.size, 0)
    return album


class EndOfProcess(Exception):
    """What ends a process between two transactions."""


@pytest.mark.parametrize(("is_public", "images_public"), [(True, False), (False, False), (False, True)])
def test_a_deletion_that_was_interrupted_leaves_a_smaller_album_and_another_completes_it(
    is_public: bool, images_public: bool
) -> None:
    is_ending = False

    def observe(measurement: Measurement) -> None:
        if is_ending and isinstance(measurement, TransactionEnded):
            raise EndOfProcess

    with ImageHost.open(":memory:", settings=ONE_WORKER, executor=shared_executor(), observe=observe) as host:
        album, stay_public = make_large_album(host, is_public=is_public), is_public or images_public
        is_ending = True
        with pytest.raises(EndOfProcess):
            host.albums.delete(album, owner="admin", images_public=images_public)
        is_ending = False
        left = host.albums.get(album, owner="admin")
        assert (left.is_public, left.image_count, left.public_image_count) == (is_public, 1, 1)
        assert host.gallery().total == (COPIES if is_public else 1_000 * images_public)
        require_counters(host)
        deleted = host.albums.delete(album, owner="admin", images_public=images_public)
        assert deleted.made_private_count == (not stay_public)
        assert host.albums.list(owner="admin").total == 0
        assert host.images.list(owner="admin", is_public=stay_public).total == COPIES
        assert host.gallery().total == COPIES * stay_public
        require_counters(host)


def require_counters(host: ImageHost) -> None:
    """Assert that counters and the list of the gallery are right."""
    database = host._context.records.database
    assert (check_counters(database), check_indexes(database)) == ((), ())


def test_a_variant_in_memory_is_not_sent_once_its_image_has_left_a_private_album(host: ImageHost) -> None:
    album = make_album(host, False)
    assert album is not None
    images = [host.upload(SMALL, owner="admin", album_id=album, is_public=True) for _ in range(3)]
    for image in images:
        host.delivery.open(host.delivery.resolve(image.id, "w=4"))
    host.albums.remove_images(album, [images[0]], owner="admin")
    host.images.update(images[1], album_id=None)
    host.albums.delete(album, owner="admin")
    for image in images:
        with pytest.raises(ImageHostError, match="image"):
            host.delivery.resolve(image.id, "w=4")
