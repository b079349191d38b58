"""Bulk requests: all or nothing for invalid requests, a result for each image of valid ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imagehost_core import (
    Event,
    Image,
    ImageHost,
    NotFoundError,
    RateLimitError,
    ValidationError,
)
from imagehost_core.models import BulkStatus
from imagehost_core.services.images import MAX_IMAGES
from imagehost_core.testing import make_image

if TYPE_CHECKING:
    from tests.programs import Program

EACH_ENGINE = True

PNG = make_image(8, 8)
MISSING = "0000000000000000"


@pytest.fixture
def heard(host: ImageHost) -> Iterator[list[Event]]:
    """Events that subscribers received."""
    events: list[Event] = []
    end = host.subscribe(events.append)
    yield events
    end()


def upload(host: ImageHost, count: int, **options: object) -> list[Image]:
    return [host.upload(PNG, owner="admin", **options) for _ in range(count)]  # type: ignore[arg-type]


def refuse(_count: int) -> None:
    raise RateLimitError("refused", retry_after=1)


# Update.


def test_every_image_is_changed_and_has_a_result_in_the_order_of_the_ids(host: ImageHost) -> None:
    first, second, third = upload(host, 3)
    host.images.update(second, description="new")
    foreign = host.upload(PNG, owner=host.accounts.get_or_create("other"))
    ids = [third.id, MISSING, second.id, foreign.id, "not an id", first.id, third.id]
    results = host.images.update_many(ids, owner="admin", description="new")
    assert [(result.id, result.status) for result in results] == [
        (third.id, BulkStatus.UPDATED),
        (MISSING, BulkStatus.NOT_FOUND),
        (second.id, BulkStatus.UNCHANGED),
        (foreign.id, BulkStatus.NOT_FOUND),
        ("not an id", BulkStatus.NOT_FOUND),
        (first.id, BulkStatus.UPDATED),
    ]
    assert {host.images.get(image.id).description for image in (first, second, third)} == {"new"}
    assert host.images.get(foreign.id) == foreign


def test_a_foreign_image_has_the_same_error_as_a_missing_one(host: ImageHost) -> None:
    foreign = host.upload(PNG, owner=host.accounts.get_or_create("other"))
    for call in (
        host.images.delete_many([foreign, MISSING], owner="admin"),
        host.images.update_many([foreign, MISSING], owner="admin", description="mine"),
    ):
        first, second = (result.error for result in call)
        assert first is not None
        assert second is not None
        assert first.code == second.code == "NOT_FOUND"
        assert first.details.replace(foreign.id, MISSING) == second.details


def test_an_update_that_changes_no_image_writes_nothing_and_emits_nothing(
    host: ImageHost, heard: list[Event]
) -> None:
    album = host.albums.create(owner="admin", name="one")
    images = upload(host, 2, album_id=album.id)
    album = host.albums.get(album, owner="admin")
    heard.clear()
    results = host.images.update_many(images, owner="admin", album_id=album.id, is_public=True)
    assert {result.status for result in results} == {BulkStatus.UNCHANGED}
    assert [host.images.get(image.id) for image in images] == images
    assert (host.albums.get(album, owner="admin"), heard) == (album, [])


def test_each_album_that_gains_or_loses_images_is_updated_once(host: ImageHost, heard: list[Event]) -> None:
    old, new, other = (host.albums.create(owner="admin", name=name) for name in ("old", "new", "other"))
    images = [*upload(host, 3, album_id=old.id), *upload(host, 2), *upload(host, 1, album_id=new.id)]
    heard.clear()
    host.images.update_many(images, owner="admin", album_id=new.id)
    albums = {event.data.id: event.data for event in heard}
    assert [event.type for event in heard] == ["album.updated"] * 2
    assert {id_: record.image_count for id_, record in albums.items()} == {old.id: 0, new.id: 6}  # type: ignore[union-attr]
    heard.clear()
    host.images.update_many(images, owner="admin", album_id=None)
    assert [event.data.id for event in heard] == [new.id]
    assert host.albums.get(other, owner="admin") == other
    host.images.update_many(images, owner="admin", album_id=old.id, is_public=False)
    host.images.delete_many(images[:2], owner="admin")
    assert list(host.check(quick=True)) == []


INVALID: dict[str, object] = {
    "album_id": 10**9,
    "description": "x" * 2_001,
    "is_public": "yes",
    "filename": "",
}


@pytest.mark.parametrize("name", INVALID)
def test_one_value_that_is_not_allowed_is_422_and_changes_no_image(host: ImageHost, name: str) -> None:
    images = upload(host, 2)
    changes = {"filename": "dog.png", name: INVALID[name]}
    with pytest.raises(ValidationError) as caught:
        host.images.update_many(images, owner="admin", **changes)  # type: ignore[arg-type]
    assert [error.name for error in caught.value.errors] == [name]
    assert [host.images.get(image.id) for image in images] == images


@pytest.mark.parametrize("images", [[], [MISSING] * 101, ["x", 5], "abc", 7, [None], {"id": MISSING}])
def test_no_too_many_or_malformed_ids_are_422_together_with_the_values(
    host: ImageHost, images: object
) -> None:
    with pytest.raises(ValidationError) as caught:
        host.images.update_many(images, owner="admin", **INVALID)  # type: ignore[arg-type]
    assert [error.name.partition("[")[0] for error in caught.value.errors] == ["image_ids", *INVALID]
    with pytest.raises(ValidationError, match="image_ids"):
        host.images.delete_many(images, owner="admin")  # type: ignore[arg-type]


def test_one_hundred_ids_are_accepted(host: ImageHost) -> None:
    (image,) = upload(host, 1)
    ids = [image.id, *(f"{number:016}" for number in range(MAX_IMAGES - 1))]
    assert len(host.images.update_many(ids, owner="admin", description="many")) == MAX_IMAGES
    assert len(host.images.delete_many(ids, owner="admin")) == MAX_IMAGES


def test_a_refused_request_changes_nothing_and_an_invalid_one_is_not_admitted(host: ImageHost) -> None:
    images = upload(host, 2)
    counts: list[int] = []
    with pytest.raises(RateLimitError):
        host.images.update_many(images, owner="admin", admit=refuse, description="new")
    with pytest.raises(RateLimitError):
        host.images.delete_many(images, owner="admin", admit=refuse)
    assert [host.images.get(image.id) for image in images] == images
    with pytest.raises(ValidationError):
        host.images.update_many(images, owner="admin", admit=counts.append, filename="")
    with pytest.raises(ValidationError):
        host.images.delete_many([], owner="admin", admit=counts.append)
    host.images.update_many([*images, images[0]], owner="admin", admit=counts.append, description="new")
    host.images.delete_many([*images, MISSING], owner="admin", admit=counts.append)
    assert counts == [2, 3]


def test_a_private_image_is_private_when_the_request_returns(host: ImageHost) -> None:
    images = upload(host, 3)
    for image in images:
        host.delivery.resolve(image.id)
    host.images.update_many(images, owner="admin", is_public=False)
    for image in images:
        assert host.delivery.resolve_cached(image.id) is None
        with pytest.raises(NotFoundError):
            host.delivery.resolve(image.id)


# Delete.


def test_every_image_is_deleted_with_all_files_and_variants(
    host: ImageHost, folder: Path, stored_files: Callable[[Path], list[str]], heard: list[Event]
) -> None:
    host.upload(PNG, owner="admin")
    host.images.delete_many([image.id for image in host.images.list(owner="admin")], owner="admin")
    before, used = stored_files(folder), host.accounts.usage("admin")
    images = upload(host, 4)
    for image in images:
        host.render(image.id, "w=4")
    deliveries = [host.delivery.resolve(image.id, "w=4") for image in images]
    heard.clear()
    results = host.images.delete_many([images[2], MISSING, *images], owner="admin")
    assert [(result.id, result.status) for result in results] == [
        (images[2].id, BulkStatus.DELETED),
        (MISSING, BulkStatus.NOT_FOUND),
        *((images[number].id, BulkStatus.DELETED) for number in (0, 1, 3)),
    ]
    assert sorted(event.data.id for event in heard) == sorted(image.id for image in images)
    assert {event.type for event in heard} == {"image.deleted"}
    assert (stored_files(folder), host.accounts.usage("admin")) == (before, used)
    for image, delivery in zip(images, deliveries, strict=True):
        assert host.delivery.resolve_cached(image.id, "w=4") is None
        with pytest.raises(NotFoundError):
            host.delivery.open(delivery)
    again = host.images.delete_many(images, owner="admin")
    assert {result.status for result in again} == {BulkStatus.NOT_FOUND}


def test_an_image_whose_files_cannot_be_removed_now_failed_and_the_others_are_deleted(
    host: ImageHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = upload(host, 3)
    unlink = os.unlink

    def fail(path: object, *arguments: object, **options: object) -> None:
        if images[1].id in str(Path(f"/proc/self/fd/{options['dir_fd']}").readlink()):
            raise OSError(5, "Input/output error")
        unlink(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "unlink", fail)
    results = host.images.delete_many(images, owner="admin")
    monkeypatch.undo()
    assert [result.status for result in results] == [
        BulkStatus.DELETED,
        BulkStatus.FAILED,
        BulkStatus.DELETED,
    ]
    assert results[1].error is not None
    assert results[1].error.code == "INTERNAL_ERROR"
    (finished,) = host.images.delete_many([images[1]], owner="admin")
    assert finished.status is BulkStatus.DELETED


DELETE = """
    import os, signal, sys
    from imagehost_core import ImageHost, Settings
    from imagehost_core.settings import RenderingSettings

    renames = 0

    def kill(event, arguments):
        global renames
        # Only on this event: os.kill is audited too.
        if event == "os.rename":
            renames += 1
            if renames == int(sys.argv[2]):
                os.kill(os.getpid(), signal.SIGKILL)

    with ImageHost.open(sys.argv[1], settings=Settings(rendering=RenderingSettings(processes=1))) as host:
        sys.addaudithook(kill)
        host.images.delete_many(sys.argv[3:], owner="admin")
"""


@pytest.mark.parametrize("renames", [1, 3])
def test_a_deletion_whose_process_dies_is_finished_by_the_next_one(
    opened: Callable[..., ImageHost],
    program: Callable[..., Program],
    stored_files: Callable[[Path], list[str]],
    renames: int,
) -> None:
    host = opened()
    before = stored_files(host.path)
    images = upload(host, 3)
    dying = program(DELETE, host.path, renames, *(image.id for image in images))
    dying.end()
    for image in images:
        with pytest.raises(NotFoundError):
            host.images.get(image.id)
    assert stored_files(host.path) != before
    host.maintenance.cleanup()
    assert stored_files(host.path) == before


def test_concurrent_bulk_requests_of_the_same_images_finish(host: ImageHost) -> None:
    images = upload(host, 12)

    def change(turn: int) -> set[str]:
        chosen = images[::-1] if turn % 2 else images
        results = host.images.update_many(chosen, owner="admin", description=f"{turn}")
        return {str(result.status) for result in results}

    with ThreadPoolExecutor(6) as executor:
        statuses = list(executor.map(change, range(12)))
    assert set().union(*statuses) <= {BulkStatus.UPDATED, BulkStatus.UNCHANGED}
    assert len({host.images.get(image.id).description for image in images}) == 1
    with ThreadPoolExecutor(6) as executor:
        deletions = list(executor.map(lambda _: host.images.delete_many(images, owner="admin"), range(6)))
    deleted = [result.id for results in deletions for result in results if result.status == "deleted"]
    assert sorted(deleted) == sorted(image.id for image in images)


# Sign.


def test_each_item_has_the_url_that_signing_it_alone_returns(host: ImageHost) -> None:
    first, second = upload(host, 2, is_public=False)
    items: list[dict[str, object]] = [
        {"image_id": second.id, "w": 4, "fm": "png"},
        {"image_id": first.id, "unknown": "ignored"},
        {"image_id": second.id, "w": "4", "h": "2", "q": 50, "fit": "fill", "fm": "webp"},
    ]
    urls = [signed.url for signed in host.images.signed_urls(items, owner="admin", expires_in=60)]
    assert [urlsplit(url).path.rpartition("/")[2][:16] for url in urls] == [second.id, first.id, second.id]
    for url in urls:
        parts = urlsplit(url)
        assert host.delivery.resolve(parts.path.rpartition("/")[2], parts.query).format
    with pytest.raises(NotFoundError):
        host.delivery.resolve(first.id, urlsplit(urls[0]).query)


def test_all_errors_of_all_items_are_reported_with_the_index_of_the_item(host: ImageHost) -> None:
    (image,) = upload(host, 1)
    foreign = host.upload(PNG, owner=host.accounts.get_or_create("other"))
    items: list[dict[str, object]] = [
        {"image_id": image.id, "w": 0, "fit": "crop"},
        {"image_id": image.id},
        {"image_id": MISSING, "q": 101},
        {"image_id": foreign.id},
        {"w": 8192, "h": 8192},
        {"image_id": 5},
        {"image_id": image.id, "w": 8192, "h": 8192},
    ]
    with pytest.raises(NotFoundError) as caught:
        host.images.signed_urls(items, owner="admin", expires_in=0)
    assert [error.name for error in caught.value.errors] == [
        "items[0].w",
        "items[0].fit",
        "items[2].image_id",
        "items[2].q",
        "items[3].image_id",
        "items[4].image_id",
        "items[5].image_id",
        "items[6].the output",
        "expires_in",
    ]


@pytest.mark.parametrize(
    ("items", "named"),
    [
        ([], ["items"]),
        ([{}] * 101, ["items"]),
        ("abc", ["items"]),
        (5, ["items"]),
        ({"image_id": MISSING}, ["items"]),
        ([{}, 5, None], ["items[0].image_id", "items[1]", "items[2]"]),
    ],
)
def test_no_too_many_or_malformed_items_are_422(host: ImageHost, items: object, named: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        host.images.signed_urls(items, owner="admin", expires_in=0)  # type: ignore[arg-type]
    assert [error.name for error in caught.value.errors] == [*named, "expires_in"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wrong=st.sets(st.integers(0, 9)))
def test_the_details_name_exactly_the_items_that_are_not_allowed(host: ImageHost, wrong: set[int]) -> None:
    image = next(host.images.iter(owner="admin"), None) or host.upload(PNG, owner="admin")
    items = [{"image_id": image.id, "w": -1 if number in wrong else 5} for number in range(10)]
    try:
        host.images.signed_urls(items, owner="admin")
        named = set[str]()
    except ValidationError as error:
        named = {each.name for each in error.errors}
    assert named == {f"items[{number}].w" for number in wrong}
