"""ZIP archives of albums."""

from __future__ import annotations

from io import BytesIO
from urllib.parse import unquote
from zipfile import ZipFile

import attrs
import httpx2
import pytest
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.server.web.conftest import SETTINGS

from imagehost_core import ImageHost
from imagehost_core.errors import InternalError
from imagehost_core.models import Image
from imagehost_core.services.delivery import Blob
from imagehost_core.testing import make_image
from imagehost_server.settings import GallerySettings
from imagehost_server.web.pages import public
from imagehost_server.web.zip_archive import portable_name


def contents(response: httpx2.Response) -> dict[str, bytes]:
    """Return the files of an archive by name, in its order."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/zip"
    with ZipFile(BytesIO(response.content)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def stored(host: ImageHost, image: Image) -> bytes:
    """Return the bytes that the image's URL has."""
    with host.delivery.open(host.delivery.resolve(str(image.id), viewer=host.accounts.get("admin"))) as blob:
        return blob.read()


def test_an_album_is_an_archive_of_its_public_images_and_of_all_for_its_owner(
    host: ImageHost, visitor: httpx2.Client, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(public, "IMAGES_PER_READ", 2)
    admin = host.accounts.get("admin")
    album = host.albums.create("Trip/Ü", owner=admin)
    images = [
        host.upload(make_image(64 + n, 48), owner=admin, filename=name, album_id=album.id, is_public=visible)
        for n, (name, visible) in enumerate(
            [("a.png", True), ("b.png", True), ("a.png", True), ("c.png", False), ("ü.png", True)]
        )
    ]
    host.upload(make_image(32, 32), owner=admin, filename="other.png")
    names = [image.filename for image in images]
    # The newest first: the older of the two of one name has its id in its name.
    stem, _, extension = names[0].rpartition(".")
    names[0] = f"{stem}-{images[0].id}.{extension}"
    expected = {name: stored(host, image) for name, image in reversed(list(zip(names, images, strict=True)))}
    response = owner.get(f"/albums/{album.id}/images.zip")
    assert list(contents(response).items()) == list(expected.items())
    assert response.headers["content-disposition"].endswith("filename*=UTF-8''Trip_%C3%9C.zip")
    assert response.headers["cache-control"] == "no-store"
    del expected[names[3]]
    response = visitor.get(f"/a/{album.id}/images.zip")
    assert list(contents(response).items()) == list(expected.items())
    assert response.headers["x-robots-tag"] == "noindex"
    head = visitor.head(f"/a/{album.id}/images.zip")
    assert (head.status_code, head.content) == (200, b"")
    for client, page in ((visitor, f"/a/{album.id}"), (owner, f"/albums/{album.id}")):
        assert f'href="{page}/images.zip"' in client.get(page).text


def test_the_name_of_an_archive_may_have_any_character(host: ImageHost, visitor: httpx2.Client) -> None:
    name = "".join(map(chr, (*range(1, 0x30), *range(0x5B, 0x81))))
    album = host.albums.create(name, owner="admin")
    response = visitor.get(f"/a/{album.id}/images.zip")
    assert contents(response) == {}
    disposition, _, encoded = response.headers["content-disposition"].partition("filename*=UTF-8''")
    assert disposition.startswith("attachment; ")
    assert unquote(encoded) == portable_name(f"{album.name}.zip")


def test_an_archive_requires_what_its_page_requires(
    host: ImageHost, visitor: httpx2.Client, owner: httpx2.Client
) -> None:
    admin = host.accounts.get("admin")
    private = host.albums.create("Harbour", owner=admin, is_public=False)
    assert contents(owner.get(f"/albums/{private.id}/images.zip")) == {}
    other = host.albums.create("Pier", owner=host.accounts.create("other"))
    assert visitor.get(f"/a/{private.id}/images.zip").status_code == 404
    assert visitor.get("/a/1x/images.zip").status_code == 404
    response = visitor.get(f"/albums/{private.id}/images.zip", follow_redirects=False)
    assert response.headers["location"].startswith("/login?next=/albums/")
    assert owner.get(f"/albums/{other.id}/images.zip").status_code == 404
    closed = attrs.evolve(SETTINGS, gallery=GallerySettings(require_sign_in=True))
    with open_host(settings=closed) as hidden, serving(hidden, closed) as origin:
        album = hidden.albums.create("Lighthouse", owner=hidden.accounts.create("owner"))
        response = httpx2.get(f"{origin}/a/{album.id}/images.zip", follow_redirects=False)
        assert response.headers["location"].startswith("/login?next=/a/")


def test_an_archive_whose_image_cannot_be_read_has_no_end(
    host: ImageHost, visitor: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    album = host.albums.create("Lighthouse", owner="admin")
    host.upload(make_image(64, 48), owner="admin", album_id=album.id)

    def fail(*_: object) -> Blob:
        raise InternalError

    monkeypatch.setattr(type(host.delivery), "open", fail)
    with pytest.raises(httpx2.RemoteProtocolError):
        visitor.get(f"/a/{album.id}/images.zip")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_an_archive_has_no_ranges(host: ImageHost, visitor: httpx2.Client, method: str) -> None:
    album = host.albums.create("Lighthouse", owner="admin")
    response = visitor.request(method, f"/a/{album.id}/images.zip", headers={"Range": "bytes=0-1"})
    assert response.status_code == 200
    assert "accept-ranges" not in response.headers
