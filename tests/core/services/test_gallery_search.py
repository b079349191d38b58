"""Searches of the gallery: public images by words, and no others, in either engine."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from imagehost_core import ImageHost
from imagehost_core.errors import BadRequestError
from imagehost_core.models import Image
from imagehost_core.testing import make_image

EACH_ENGINE = True
PNG = make_image(4, 4)
Opened = Callable[..., ImageHost]


@pytest.fixture
def host(opened: Opened) -> ImageHost:
    return opened()


@pytest.fixture
def add(host: ImageHost) -> Callable[..., Image]:
    """A function that uploads an image with `harbour` in its description."""

    def upload(owner: str = "admin", **options: object) -> Image:
        values = {"description": "The harbour", "format": "png", "filename": "a.png", **options}
        return host.upload(PNG, owner=owner, **values)  # type: ignore[arg-type]

    return upload


def found(host: ImageHost, q: str = "harbour", **options: object) -> list[str]:
    return [image.id for image in host.gallery(q=q, **options)]  # type: ignore[arg-type]


def test_images_of_all_accounts_are_found_as_by_their_owners(
    host: ImageHost, add: Callable[..., Image]
) -> None:
    host.accounts.create("walker")
    first, second = add(filename="IMG_2034.png"), add("walker", description="Málaga, harbour")
    assert found(host) == found(host, "HARB") == found(host, " harbour ") == [second.id, first.id]
    assert found(host, "malaga harb") == [second.id]
    assert found(host, "img_2034") == found(host, "2034 harbour") == [first.id]
    assert found(host, "arbour") == found(host, "!!!") == found(host, "1xharbour") == []
    assert found(host, "  ") == [second.id, first.id]
    assert host.gallery(q="harbour").total is None
    with pytest.raises(BadRequestError, match="at most 100 characters for q"):
        host.gallery(q="a" * 101)


def test_an_image_that_is_not_listed_is_never_found(host: ImageHost, add: Callable[..., Image]) -> None:
    host.accounts.create("walker")
    album = host.albums.create(owner="walker", name="a")
    image, owner = add("walker", album_id=album.id), "walker"
    add("walker", is_public=False)
    deleted = add("walker")
    host.images.delete(deleted)
    changes: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "private": (
            lambda: host.images.update(image, is_public=False),
            lambda: host.images.update_many([image.id], owner=owner, is_public=True),
        ),
        "renamed": (
            lambda: host.images.update(image, description=""),
            lambda: host.images.update(image, description="harbour"),
        ),
        "in a private album": (
            lambda: host.albums.update(album, owner=owner, is_public=False),
            lambda: host.albums.update(album, owner=owner, is_public=True),
        ),
        "suspended": (
            lambda: host.accounts.update(owner, suspended=True),
            lambda: host.accounts.update(owner, suspended=False),
        ),
    }
    for name, (hide, show) in changes.items():
        assert found(host) == found(host, album_id=album.id) == [image.id], name
        hide()
        assert found(host) == [], name
        show()
    assert list(host.check()) == []
    host.albums.delete(album, owner=owner, delete_images=True)
    assert found(host) == []
    assert list(host.check()) == []


def test_a_cursor_belongs_to_the_search_that_it_is_of(host: ImageHost, add: Callable[..., Image]) -> None:
    album = host.albums.create(owner="admin", name="a")
    images = [add(album_id=album.id).id for _ in range(3)]
    everywhere: dict[str, object] = {}
    for options in (everywhere, {"album_id": album.id}):
        page = host.gallery(q="harbour", per_page=2, **options)
        assert found(host, per_page=2, cursor=page.next_cursor, **options) == images[:1]
        for other in ("", "the"):
            with pytest.raises(BadRequestError, match="for cursor"):
                found(host, other, cursor=page.next_cursor, **options)
        with pytest.raises(BadRequestError, match="for cursor"):
            found(host, cursor=host.gallery(per_page=2, **options).next_cursor, **options)
