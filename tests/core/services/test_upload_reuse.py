"""Uploads that reuse an image of the same account, bytes and options, and lists by the uploaded bytes."""

from __future__ import annotations

import io
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import attrs
import pytest

from imagehost_core import Image, ImageHost, Scope, UnauthorizedError, UploadOptions
from imagehost_core.authorization import authorize
from imagehost_core.events import Event
from imagehost_core.observer import Measurement, TaskEnded
from imagehost_core.testing import make_image

EACH_ENGINE = True


def sha256_of(data: bytes) -> str:
    return sha256(data).hexdigest()


@pytest.fixture
def data(request: pytest.FixtureRequest) -> bytes:
    """A file of each test's own, which is not stored as it is."""
    return make_image(60, 40) + str(request.node.name).encode()


def test_an_equal_upload_returns_the_image_and_stores_nothing(host: ImageHost, data: bytes) -> None:
    first = host.upload(data, owner="admin", filename="a.png", reuse=True)
    assert not first.is_reused
    usage, events = host.accounts.usage("admin"), list[Event]()
    unsubscribe = host.subscribe(events.append)
    again = host.upload(data, owner="admin", filename="b.png", reuse=True)
    unsubscribe()
    assert again == first == host.images.get(first.id)
    assert again.is_reused
    assert (host.accounts.usage("admin"), events) == (usage, [])
    assert host.upload(data, owner="admin") != first


OTHER_OPTIONS: dict[str, Any] = {
    "album_id": None,  # the album of the test
    "description": "other",
    "quality": 50,
    "format": "png",
    "remove_exif": True,
    "convert_to_webp": False,
    "auto_rename": True,
    "is_public": False,
}


def test_an_upload_with_any_other_option_is_another_image(host: ImageHost, data: bytes) -> None:
    album = host.albums.create("A", owner="admin")
    names = {attribute.name for attribute in attrs.fields(UploadOptions)} - {"reuse"}
    assert names == OTHER_OPTIONS.keys()
    seen = {host.upload(data, owner="admin").id}
    for name in sorted(names):
        options: dict[str, Any] = {name: album if name == "album_id" else OTHER_OPTIONS[name]}
        image = host.upload(data, owner="admin", reuse=True, **options)
        assert image.id not in seen, name
        assert host.upload(data, owner="admin", reuse=True, **options).id == image.id, name
        seen.add(image.id)


def test_options_that_have_the_same_effect_are_the_same(host: ImageHost, data: bytes) -> None:
    first = host.upload(data, owner="admin", format="jpeg")
    same: list[dict[str, Any]] = [{"convert_to_webp": False}, {"remove_exif": False}, {"is_public": True}]
    for options in same:
        assert host.upload(data, owner="admin", reuse=True, format="jpeg", **options) == first


CHANGES: dict[str, Callable[[ImageHost, Image], object]] = {
    "deleted": lambda host, image: host.images.delete(image.id, owner="admin"),
    "private": lambda host, image: host.images.update(image.id, owner="admin", is_public=False),
    "described": lambda host, image: host.images.update(image.id, owner="admin", description="b"),
    "moved": lambda host, image: host.images.update(
        image.id, owner="admin", album_id=host.albums.create("B", owner="admin").id
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_image_that_is_not_what_the_upload_would_store_is_not_reused(
    host: ImageHost, data: bytes, change: str
) -> None:
    first = host.upload(data, owner="admin", reuse=True)
    CHANGES[change](host, first)
    second = host.upload(data, owner="admin", reuse=True)
    assert (second.id != first.id, second.is_public, second.is_reused) == (True, True, False)


def test_an_image_in_a_private_album_is_reused_as_a_private_one(host: ImageHost, data: bytes) -> None:
    album = host.albums.create("A", owner="admin", is_public=False)
    public = host.upload(data, owner="admin", album_id=album, is_public=True)
    private = host.upload(data, owner="admin", album_id=album, reuse=True)
    assert (private.is_public, private.id != public.id) == (False, True)
    assert host.upload(data, owner="admin", album_id=album, reuse=True) == private


def test_images_of_other_accounts_are_neither_reused_nor_listed(host: ImageHost, data: bytes) -> None:
    other = host.accounts.create("other").name
    first = host.upload(data, owner="admin")
    second = host.upload(data, owner=other, reuse=True)
    assert first.id != second.id
    for owner, image in (("admin", first), (other, second)):
        assert host.images.list(owner=owner, sha256=sha256_of(data)).items == (image,)


def test_images_are_listed_by_their_uploaded_bytes_in_every_list(host: ImageHost, data: bytes) -> None:
    album = host.albums.create("A", owner="admin")
    host.upload(data + b"x", owner="admin", album_id=album)
    images = [
        host.upload(data, owner="admin", album_id=album, filename=name) for name in ("a b.jpg", "c.jpg")
    ]
    assert images[0].sha256 != sha256_of(data)
    for options in ({}, {"album_id": album.id}, {"is_public": True, "format": "webp"}):
        found: dict[str, Any] = {"owner": "admin", "sha256": sha256_of(data).upper(), **options}
        assert host.images.list(**found).items == tuple(reversed(images))
        assert host.images.list(**found, sort="filename").items == tuple(images)
        assert host.images.list(**found, q="b").items == (images[0],)


def test_a_token_that_has_ended_reuses_nothing(host: ImageHost, data: bytes) -> None:
    host.upload(data, owner="admin")
    key = host.keys.create(owner="admin")
    account = authorize(host.authenticate(key.token), Scope.IMAGES_WRITE)

    class Revoking(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            host.keys.delete(key.id, owner="admin")
            return super().read(size)

    with pytest.raises(UnauthorizedError):
        host.upload(Revoking(data), owner=account, reuse=True)


def test_of_two_equal_uploads_at_once_one_is_stored(tmp_path: Path, data: bytes) -> None:
    """The second begins and ends while the first is decoded."""
    stored: list[Image] = []

    def observe(measurement: Measurement) -> None:
        if isinstance(measurement, TaskEnded) and not stored:
            stored.append(Image.__new__(Image))  # the upload below is observed too
            stored[0] = host.upload(data, owner="admin", reuse=True)

    with ImageHost.open(tmp_path / "data", observe=observe) as host:
        first = host.upload(data, owner="admin", reuse=True)
        assert (first.id, first.is_reused) == (stored[0].id, True)
        assert host.images.list(owner="admin").items == (first,)
        assert host.accounts.usage("admin").bytes == first.size
        assert list(host.check()) == []
