"""Images know their URLs, wherever a host returns them; a host without a base URL has none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.open_host import open_host

from imagehost_core import Event, Image, ImageHost, Settings
from imagehost_core.errors import BaseUrlError
from imagehost_core.events import AlbumUpdated, ImageUploaded
from imagehost_core.settings import RenderingSettings, WebhookSettings
from imagehost_core.testing import make_image

ONE_WORKER = RenderingSettings(processes=1)
WEBHOOKS = WebhookSettings(allow_loopback=True)


@pytest.fixture(scope="module")
def bare() -> Iterator[ImageHost]:
    """Return a host without a base URL."""
    with open_host(settings=Settings(rendering=ONE_WORKER, webhooks=WEBHOOKS)) as host:
        yield host


def returned_images(host: ImageHost) -> dict[str, Image | None]:
    """Return one image from everything that returns images."""
    album = host.albums.create("Cats", owner="admin")
    image = host.upload(make_image(400, 300), owner="admin", album_id=album.id)
    listed = host.albums.get(album.id, owner="admin")
    return {
        "upload": image,
        "get": host.images.get(image.id),
        "get public": host.images.get(image.id, public=True),
        "list": next(iter(host.images.list(owner="admin"))),
        "search": next(iter(host.images.list(owner="admin", q=image.filename[:4]))),
        "iter": next(iter(host.images.iter(owner="admin"))),
        "gallery": next(iter(host.gallery())),
        "gallery of an album": next(iter(host.gallery(album_id=album.id))),
        "album": listed.cover,
        "albums": next(iter(host.albums.list(owner="admin"))).cover,
        "update": host.images.update(image.id, description="x"),
        "resolve": host.delivery.resolve(image.id).image,
    }


@pytest.mark.parametrize(
    ("settings", "base"),
    [
        (Settings(base_url="https://img.example/v1", rendering=ONE_WORKER), "https://img.example/img"),
        (Settings(cdn_url="https://cdn.example", rendering=ONE_WORKER), "https://cdn.example"),
    ],
)
def test_every_image_that_a_host_returns_knows_its_urls(settings: Settings, base: str) -> None:
    with open_host(settings=settings) as host:
        for source, image in returned_images(host).items():
            assert image is not None, source
            url = f"{base}/{image.id}.webp"
            assert (image.url, image.mime_type) == (url, "image/webp"), source
            assert image.thumb_url == f"{url}?w=320&h=320&fit=inside", source
            assert image.links is not None, source
            assert image.links.url == url, source
        album = next(iter(host.albums.list(owner="admin")))
        assert album.cover is not None
        assert (album.cover_image_id, album.cover_url) == (album.cover.id, album.cover.thumb_url)


def test_an_image_of_a_host_without_a_base_url_has_no_url(bare: ImageHost) -> None:
    for source, image in returned_images(bare).items():
        assert image is not None, source
        assert (image.url, image.thumb_url, image.links) == (None, None, None), source
    assert next(iter(bare.albums.list(owner="admin"))).cover_url is None
    assert "127.0.0.1" not in repr((bare.settings.base_url, bare.settings.delivery_url, bare.urls))


def test_events_of_a_host_without_a_base_url_have_empty_urls(bare: ImageHost) -> None:
    events: list[Event] = []
    unsubscribe = bare.subscribe(events.append)
    album = bare.albums.create("Dogs", owner="admin")
    image = bare.upload(make_image(), owner="admin", album_id=album.id)
    bare.albums.update(album.id, owner="admin", description="x")
    unsubscribe()
    _, uploaded, updated = events
    assert isinstance(uploaded, ImageUploaded)
    assert (uploaded.data.id, uploaded.data.url, uploaded.data.thumb_url) == (image.id, "", "")
    assert uploaded.data.links.html == ""
    assert isinstance(updated, AlbumUpdated)
    assert (updated.data.cover_image_id, updated.data.cover_url) == (image.id, None)


def test_no_webhook_receives_an_event_without_its_url() -> None:
    with open_host(settings=Settings(rendering=ONE_WORKER, webhooks=WEBHOOKS)) as host:
        album = host.albums.create("Cats", owner="admin")
        image = host.upload(make_image(), owner="admin", album_id=album.id)
        host.webhooks.create(owner="admin", url="http://127.0.0.1:9/")
        with pytest.raises(BaseUrlError, match="the setting base_url"):
            host.upload(make_image(9, 9), owner="admin")
        with pytest.raises(BaseUrlError, match="the setting base_url"):
            host.albums.update(album.id, owner="admin", description="x")
        assert host.albums.get(album.id, owner="admin").description == ""
        assert [listed.id for listed in host.images.list(owner="admin")] == [image.id]
        host.albums.create("without a cover", owner="admin")
        host.images.delete(image.id)
        assert list(host.check()) == []
