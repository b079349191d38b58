"""Pages of share links: what they show without an account, their password, and how they end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from urllib.parse import urlsplit
from zipfile import ZipFile

import httpx2
import pytest
from attrs import evolve
from tests.open_host import open_host
from tests.server.conftest import hash_quickly
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, SETTINGS, SignedIn
from tests.server.web.test_web_gallery import Tags
from tests.waiting import PATIENCE

from imagehost_core import Album, Image, ImageHost
from imagehost_core.models import AlbumShare
from imagehost_core.settings import LimitSettings
from imagehost_core.testing import make_image
from imagehost_server.auth.cookies import SHARE_COOKIE
from imagehost_server.settings import GallerySettings

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def album(host: ImageHost) -> Album:
    return host.albums.create("Secret <b>", owner="admin", description="Ours", is_public=False)


@pytest.fixture(scope="module")
def images(host: ImageHost, album: Album) -> list[Image]:
    return [
        host.upload(make_image(400, 300 + n), owner="admin", album_id=album.id, is_public=n == 1)
        for n in range(3)
    ]


@pytest.fixture
def share(host: ImageHost, album: Album, images: list[Image]) -> AlbumShare:
    del images
    return host.albums.create_share(album, owner="admin")


@pytest.fixture
def locked(host: ImageHost, album: Album, images: list[Image]) -> AlbumShare:
    """A share with a password."""
    del images
    return host.albums.create_share(album, owner="admin", password_hash=hash_quickly(PASSWORD))


def addresses(page: str) -> set[str]:
    """Return the URLs of images and the links in a page."""
    tags = Tags(page)
    found = {tag["src"] or "" for tag in tags.all("img")}
    for tag in tags.all("img"):
        found |= {part.split()[0] for part in (tag.get("srcset") or "").split(",") if part.strip()}
    return found | {tag.get("href") or "" for tag in tags.all("a")}


def test_a_share_shows_its_album_and_images_to_a_visitor_and_nothing_else(
    host: ImageHost, visitor: httpx2.Client, album: Album, images: list[Image], share: AlbumShare
) -> None:
    path = f"/s/{share.token}"
    assert visitor.get(f"/a/{album.id}").status_code == 404
    page = visitor.get(path)
    assert page.status_code == 200
    assert "Secret &lt;b&gt;" in page.text
    assert "admin" not in page.text
    assert "feed.xml" not in page.text
    headers = {name: page.headers[name] for name in ("cache-control", "referrer-policy", "x-robots-tag")}
    assert headers == {
        "cache-control": "no-store",
        "referrer-policy": "same-origin",
        "x-robots-tag": "noindex",
    }
    pages = [page, *(visitor.get(f"{path}/{image.id}") for image in images)]
    for each, image in zip(pages[1:], images, strict=True):
        assert (each.status_code, each.headers["cache-control"]) == (200, "no-store")
        assert str(image.id) in each.text
        assert not [text for text in ("oembed", "canonical", "[img]") if text in each.text]
    shown = set[str]().union(*(addresses(each.text) for each in pages))
    for url in shown:
        parts = urlsplit(url)
        if parts.path.startswith("/img/"):
            is_public = str(images[1].id) in url
            assert (f"share={share.id}" in parts.query) is not is_public
            response = visitor.get(f"{parts.path}?{parts.query}")
            assert response.status_code == 200
            assert response.headers["cache-control"].startswith(
                "public" if is_public else "private, no-store"
            )
        else:
            assert parts.path in ("", "/", "/login") or parts.path.startswith((path, "/assets/")), url
    archive = ZipFile(BytesIO(visitor.get(f"{path}/images.zip").content))
    assert len(archive.namelist()) == 3


def test_an_image_of_another_album_is_no_page_of_the_share(
    host: ImageHost, visitor: httpx2.Client, share: AlbumShare
) -> None:
    other = host.upload(make_image(40, 30), owner="admin", is_public=False)
    elsewhere = host.albums.create("Another", owner="admin")
    of_another_album = host.upload(make_image(40, 30), owner="admin", album_id=elsewhere.id)
    missing = visitor.get(f"/s/{share.token}/{'0' * 16}")
    for image_id in (other.id, of_another_album.id, "x", "%00"):
        response = visitor.get(f"/s/{share.token}/{image_id}")
        assert response.status_code == missing.status_code == 404


def test_a_share_that_has_ended_is_like_none(
    host: ImageHost, visitor: httpx2.Client, album: Album, images: list[Image]
) -> None:
    ended = host.albums.create_share(album, owner="admin", password_hash=hash_quickly(PASSWORD))
    host.albums.delete_share(album, ended, owner="admin")
    never = (ended.token or "")[:4] + "0" * 36

    def texts(token: str) -> list[tuple[int, str]]:
        responses = [
            *(visitor.get(f"/s/{token}{path}") for path in ("", f"/{images[0].id}", "/images.zip")),
            visitor.post(f"/s/{token}", data={"password": PASSWORD}),
        ]
        return [
            (each.status_code, re.sub(r"<code>.*?</code>", "", each.text.replace(token, "TOKEN")))
            for each in responses
        ]

    assert texts(ended.token or "") == texts(never) == texts("iha_nonsense")
    assert {status for status, _ in texts(never)} == {404}


def test_a_password_opens_all_pages_of_its_share_only(
    host: ImageHost, visitor: httpx2.Client, images: list[Image], album: Album, locked: AlbumShare
) -> None:
    path = f"/s/{locked.token}"
    paths = [path, f"{path}/{images[0].id}", f"{path}/images.zip"]
    for each in paths:
        response = visitor.get(each)
        assert response.status_code == 403
        assert not [text for text in ("Secret", str(locked.id), *map(str, images)) if text in response.text]
    for wrong in ("", "wrong", PASSWORD + " ", "x" * 2_000):
        response = visitor.post(path, data={"password": wrong})
        assert (response.status_code, "set-cookie" in response.headers) == (403, False)
    entered = visitor.post(path, data={"password": PASSWORD, "next": "https://evil.example/"})
    assert (entered.status_code, entered.headers["location"]) == (303, path)
    cookie = entered.headers["set-cookie"]
    assert {f"Path={path}", "Secure", "HttpOnly", "SameSite=lax"} <= set(cookie.split("; "))
    value = {"Cookie": cookie.split(";")[0]}
    assert [visitor.get(each, headers=value).status_code for each in paths] == [200, 200, 200]
    other = host.albums.create_share(album, owner="admin", password_hash=hash_quickly(PASSWORD))
    assert visitor.get(f"/s/{other.token}", headers=value).status_code == 403
    for forged in ("", "x", (locked.password_hash or "")[:90], "\u00fc"):
        headers = [(b"Cookie", f"{SHARE_COOKIE}={forged}".encode("latin-1"))]
        assert visitor.get(path, headers=headers).status_code == 403
    host.albums.delete_share(album, locked, owner="admin")
    assert visitor.get(path, headers=value).status_code == 404


def test_wrong_passwords_are_limited_by_ip_address_as_those_of_signing_in(
    host: ImageHost, locked: AlbumShare
) -> None:
    settings = evolve(SETTINGS, limits=LimitSettings(sign_ins_per_minute=3, pages_per_minute=0))
    with (
        open_host(host.path, settings=settings) as limited,
        serving(limited, settings) as origin,
        httpx2.Client(base_url=origin, timeout=PATIENCE, headers=HTML) as client,
    ):
        passwords = [*[PASSWORD] * 4, *["wrong"] * 5]
        statuses = [
            client.post(f"/s/{locked.token}", data={"password": each}).status_code for each in passwords
        ]
        assert statuses == [303, 303, 303, 303, 403, 403, 403, 429, 429]
        refused = client.post(f"/s/{locked.token}", data={"password": PASSWORD})
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
def test_another_site_cannot_send_the_form_of_a_password(
    visitor: httpx2.Client, locked: AlbumShare, headers: dict[str, str]
) -> None:
    response = visitor.post(f"/s/{locked.token}", data={"password": PASSWORD}, headers=headers)
    assert (response.status_code, "set-cookie" in response.headers) == (403, False)


def test_a_share_is_shown_where_public_pages_require_a_session(host: ImageHost, share: AlbumShare) -> None:
    settings = evolve(SETTINGS, gallery=GallerySettings(require_sign_in=True))
    with (
        open_host(host.path, settings=settings) as closed,
        serving(closed, settings) as origin,
        httpx2.Client(base_url=origin, headers=HTML) as client,
    ):
        assert client.get("/").status_code == 303
        assert client.get(f"/s/{share.token}").status_code == 200


@pytest.fixture
def own_album(host: ImageHost) -> Iterator[Album]:
    album = host.albums.create("Own", owner="admin", is_public=False)
    yield album
    host.albums.delete(album, owner="admin")


def test_the_owner_creates_lists_and_revokes_shares(
    host: ImageHost, owner: httpx2.Client, visitor: httpx2.Client, session: SignedIn, own_album: Album
) -> None:
    path = f"/albums/{own_album.id}"
    form = {"csrf_token": session.csrf, "expires_in": "3600", "password": PASSWORD}
    created = owner.post(f"{path}/shares", data=form)
    assert created.status_code == 200
    link = next(
        str(tag["value"]) for tag in Tags(created.text).all("input") if "/s/" in (tag.get("value") or "")
    )
    assert link.startswith(f"{SETTINGS.base_url.removesuffix('/v1')}/s/iha_")
    assert visitor.get(urlsplit(link).path).status_code == 403
    (share,) = host.albums.list_shares(own_album, owner="admin")
    assert share.expires_at is not None
    assert 3_590 < (share.expires_at - share.created_at).total_seconds() <= 3_600
    listed = owner.get(path).text
    assert f"{path}/shares/{share.id}/delete" in listed
    assert "iha_" not in listed
    for wrong, data in ((422, {**form, "password": "short"}), (403, {"expires_in": "3600"})):
        assert owner.post(f"{path}/shares", data=data).status_code == wrong
    assert owner.post(f"{path}/shares/{share.id}/delete", data={"x": "y"}).status_code == 403
    revoked = owner.post(f"{path}/shares/{share.id}/delete", data={"csrf_token": session.csrf})
    assert (revoked.status_code, revoked.headers["location"]) == (303, f"{path}?done=saved")
    assert visitor.get(urlsplit(link).path).status_code == 404
