"""ZIP archives of albums."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from urllib.parse import unquote
from zipfile import ZipFile

import attrs
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.server.in_process import serving
from tests.server.web.conftest import SETTINGS

from imagehost_core import ImageHost
from imagehost_core.errors import NotFoundError
from imagehost_core.ids import ImageId
from imagehost_core.models import Image
from imagehost_core.services.delivery import Blob
from imagehost_core.testing import make_image
from imagehost_server.settings import GallerySettings
from imagehost_server.web.pages import albums, public
from imagehost_server.web.pages.albums import zip_pieces

NAMES = st.sampled_from(["a.png", "A.PNG", "a", "ü/é.gif", "b.tar.gz"])
BODIES = st.builds(bytes.__mul__, st.binary(max_size=3), st.integers(0, 10**6))


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
    _, _, encoded = response.headers["content-disposition"].partition("filename*=UTF-8''")
    assert unquote(encoded) == f"{album.name.replace('/', '_')}.zip"


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
    with ImageHost.open(settings=closed) as hidden, serving(hidden, closed) as origin:
        album = hidden.albums.create("Lighthouse", owner=hidden.accounts.create("owner"))
        response = httpx2.get(f"{origin}/a/{album.id}/images.zip", follow_redirects=False)
        assert response.headers["location"].startswith("/login?next=/a/")


def test_an_image_that_is_deleted_or_made_private_meanwhile_is_left_out(host: ImageHost) -> None:
    admin = host.accounts.get("admin")
    images = [host.upload(make_image(64, number), owner=admin) for number in (50, 51, 52)]

    def listed() -> Iterator[Image]:
        yield images[0]
        host.images.delete(images[1].id)
        host.images.update(images[2].id, is_public=False)
        yield from images[1:]

    pieces = zip_pieces(listed(), lambda image: host.delivery.open(host.delivery.resolve(str(image.id))))
    with ZipFile(BytesIO(b"".join(pieces))) as archive:
        assert archive.namelist() == [images[0].filename]


def test_an_image_is_checked_again_when_its_turn_comes(
    host: ImageHost, visitor: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin = host.accounts.get("admin")
    album = host.albums.create("Lighthouse", owner=admin)
    images = [
        host.upload(
            make_image(64, 48), owner=admin, album_id=album.id, filename=f"{visible}", is_public=visible
        )
        for visible in (True, False)
    ]
    monkeypatch.setattr(albums, "iter_gallery", lambda *_: iter(images))
    assert list(contents(visitor.get(f"/a/{album.id}/images.zip"))) == [images[0].filename]


@pytest.fixture(scope="session")
def template(host: ImageHost) -> Image:
    return host.upload(make_image(8, 8), owner="admin")


@given(st.lists(st.tuples(NAMES, BODIES), max_size=6))
def test_every_image_is_in_the_archive_under_a_name_of_its_own(
    template: Image, files: list[tuple[str, bytes]]
) -> None:
    images = [
        attrs.evolve(template, id=ImageId(f"{n:012}"), filename=name) for n, (name, _) in enumerate(files)
    ]
    data = {image.id: body for image, (_, body) in zip(images, files, strict=True)}
    with ZipFile(BytesIO(b"".join(zip_pieces(iter(images), lambda image: Blob(data[image.id]))))) as archive:
        assert [archive.read(info) for info in archive.infolist()] == [body for _, body in files]
        # Windows and macOS do not tell cases apart.
        assert len({name.casefold() for name in archive.namelist()}) == len(files)


def test_an_archive_is_written_in_pieces_of_a_mebibyte(host: ImageHost) -> None:
    image = host.upload(make_image(8, 8), owner="admin")
    images = [attrs.evolve(image, filename=f"{number}.png") for number in range(20)]
    pieces = list(zip_pieces(iter(images), lambda _: Blob(bytes(5 * 2**20))))
    assert max(map(len, pieces)) < 2**20 + 4096
    assert sum(map(len, pieces)) > 100 * 2**20


def test_an_archive_whose_image_cannot_be_read_has_no_end(host: ImageHost) -> None:
    image = host.upload(make_image(8, 8), owner="admin")

    def fail(_: Image) -> Blob:
        raise OSError

    with pytest.raises(OSError):
        list(zip_pieces(iter([image]), fail))
    assert not list(zip_pieces(iter([image]), lambda _: _missing()))[:-1]


def _missing() -> Blob:
    raise NotFoundError
