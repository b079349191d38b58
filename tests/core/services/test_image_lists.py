"""Lists of images and the gallery through the host, with the counters that their totals come from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from imagehost_core import ImageHost
from imagehost_core.context import open_context
from imagehost_core.environment import Environment
from imagehost_core.errors import BadRequestError, NotFoundError
from imagehost_core.lists import ImageSort
from imagehost_core.models import Album
from imagehost_core.settings import ListSettings, RenderingSettings, Settings
from imagehost_core.testing import make_image

PNG = make_image(4, 4)
Opened = Callable[..., ImageHost]


@pytest.fixture
def album(opened: Opened) -> Album:
    """An album of `admin` with three images, of which two are public; the cover is private."""
    host = opened()
    created = host.albums.create(owner="admin", name="Trip", description="By train")
    for number, is_public in enumerate((True, True, False)):
        host.upload(
            PNG,
            owner="admin",
            album_id=created.id,
            filename=f"{number}.png",
            is_public=is_public,
            format="png",
        )
    return host.albums.get(created, owner="admin")


def test_lists_are_filtered_and_sorted_and_iterated(opened: Opened, album: Album) -> None:
    host = opened()
    page = host.images.list(owner="admin", album_id=album, is_public=True, sort="filename")
    assert [image.filename for image in page] == ["0.png", "1.png"]
    assert (page.total, page.total_pages) == (2, 1)
    found = host.images.iter(owner="admin", q="png", sort=ImageSort.FILENAME_DESCENDING, per_page=1)
    assert [image.filename for image in found] == ["2.png", "1.png", "0.png"]


def test_the_gallery_of_an_album_has_its_public_images_with_a_public_cover(
    opened: Opened, album: Album
) -> None:
    host = opened()
    page = host.gallery(album_id=album.id)
    assert page.album is not None
    assert (page.album.name, page.album.description, page.album.image_count) == ("Trip", "By train", 2)
    assert page.album.cover == page.items[0]
    assert [image.filename for image in page] == ["1.png", "0.png"]
    assert page.total == 2
    assert host.gallery().album is None
    assert album.cover is not None
    assert album.cover not in page.items


def test_a_gallery_of_a_private_missing_or_suspended_album_is_the_same_404(
    opened: Opened, album: Album
) -> None:
    host = opened()

    def details(album_id: int | str) -> str:
        with pytest.raises(NotFoundError) as caught:
            host.gallery(album_id=album_id)
        return caught.value.details.replace(str(album_id), "N")

    missing = details(999)
    assert missing.startswith("expected the id of a public album but received")
    host.albums.update(album, owner="admin", is_public=False)
    assert details(album.id) == missing
    assert len(host.gallery()) == 0
    host.albums.update(album, owner="admin", is_public=True)
    assert len(host.gallery(album_id=album.id)) == 2


def test_images_of_a_deleted_private_album_are_in_the_gallery_if_the_request_says_so(
    opened: Opened, album: Album
) -> None:
    host = opened()
    host.albums.update(album, owner="admin", is_public=False)
    assert host.gallery().total == 0
    assert host.albums.delete(album, owner="admin", images_public=True).made_private_count == 0
    assert host.gallery().total == len(host.gallery()) == 2
    assert (host.accounts.usage("admin").images, host.accounts.usage("admin").albums) == (3, 0)


def test_images_of_a_suspended_account_return_to_the_gallery_with_it(opened: Opened) -> None:
    host = opened()
    user = host.accounts.create("walker")
    album = host.albums.create(owner=user, name="a")
    host.upload(PNG, owner=user, album_id=album.id)
    host.accounts.update("walker", suspended=True)
    assert host.gallery().total == len(host.gallery()) == 0
    with pytest.raises(NotFoundError):
        host.gallery(album_id=album.id)
    host.accounts.update("walker", suspended=False)
    assert host.gallery().total == host.gallery(album_id=album.id).total == 1


def test_the_counters_agree_with_a_recount_after_all_kinds_of_changes(opened: Opened, album: Album) -> None:
    host = opened()
    other = host.albums.create(owner="admin", name="Other", is_public=False)
    images = [image.id for image in host.images.iter(owner="admin")]
    host.albums.add_images(other, images[:2], owner="admin")
    host.images.update(images[0], is_public=True)
    host.albums.delete(other, owner="admin", delete_images=True)
    host.images.delete(images[2])
    user = host.accounts.create("walker")
    host.upload(PNG, owner=user, album_id=host.albums.create(owner=user, name="a").id)
    assert list(host.check(quick=True)) == []
    host.accounts.delete("walker")
    assert host.gallery().total == host.accounts.usage("admin").images == 0
    assert list(host.check(quick=True)) == []


def test_a_cursor_of_another_list_is_reported_with_an_unknown_album(opened: Opened, album: Album) -> None:
    host = opened()
    cursor = host.images.list(owner="admin", per_page=1).next_cursor
    with pytest.raises(BadRequestError) as caught:
        host.images.list(owner="admin", album_id=999, cursor=cursor)
    assert "for cursor" in caught.value.details
    assert "999" in caught.value.details
    with pytest.raises(BadRequestError, match="for cursor"):
        host.images.list(owner=host.accounts.create("walker"), cursor=cursor)
    with pytest.raises(NotFoundError, match="999"):
        host.images.list(owner="admin", album_id=999)


def test_texts_are_parsed_and_all_errors_are_reported_together(opened: Opened, album: Album) -> None:
    host = opened()
    page = host.images.list(owner="admin", album_id=str(album.id), sort="filename", per_page="1")
    assert ([image.filename for image in page], page.total) == (["0.png"], 3)
    with pytest.raises(BadRequestError) as caught:
        host.images.list(owner="admin", album_id="999", page="0")
    assert "for page" in caught.value.details
    assert "999" in caught.value.details
    assert len(host.gallery(album_id=str(album.id))) == 2
    with pytest.raises(BadRequestError) as caught:
        host.gallery(album_id="999", per_page="0")
    assert "for per_page" in caught.value.details
    assert "999" in caught.value.details


def test_the_setting_is_the_timeout_of_lists(tmp_path: Path) -> None:
    settings = Settings(rendering=RenderingSettings(processes=1), lists=ListSettings(timeout_seconds=0.5))
    with closing(open_context(tmp_path / "data", settings, Environment())) as context:
        assert context.records.image_lists.timeout_seconds == 0.5
    with pytest.raises(ValueError, match="timeout_seconds"):
        ListSettings(timeout_seconds=0)
