"""What programs read of the public pages: feeds, the site map, the manifest, the security contact."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from xml.etree import ElementTree

import attrs
import httpx2
import pytest
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.server.web.conftest import SETTINGS

from imagehost_core import ImageHost, to_rfc3339
from imagehost_core.testing import make_image
from imagehost_server.settings import GallerySettings, WebSettings

ATOM = "{http://www.w3.org/2005/Atom}"
SITE = "http://testserver.local:8000"


def entries(client: httpx2.Client, path: str) -> tuple[ElementTree.Element, list[str]]:
    """Return a feed, and the URLs of the pages in it."""
    response = client.get(path)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("application/atom+xml")
    feed = ElementTree.fromstring(response.content)
    links = (entry.find(f"{ATOM}link[@rel='alternate']") for entry in feed.iter(f"{ATOM}entry"))
    return feed, [link.get("href", "") for link in links if link is not None]


def test_the_feed_has_the_newest_public_images_and_texts_are_escaped(
    host: ImageHost, visitor: httpx2.Client
) -> None:
    owner = host.accounts.get("admin")
    text = "<b>&\"' 🐈"
    image = host.upload(make_image(64, 48), owner=owner, filename="cat.png", description=text)
    private = host.upload(make_image(64, 48), owner=owner, is_public=False)
    feed, pages = entries(visitor, "/feed.xml")
    assert pages[0] == f"{SITE}/i/{image.id}"
    assert f"{SITE}/i/{private.id}" not in pages
    entry = next(feed.iter(f"{ATOM}entry"))
    assert entry.findtext(f"{ATOM}title") == text
    links = {link.get("rel"): link.get("href") for link in entry.iter(f"{ATOM}link")}
    assert links == {"alternate": f"{SITE}/i/{image.id}", "enclosure": host.urls.image(image)}
    host.images.delete(image.id)
    assert f"{SITE}/i/{image.id}" not in entries(visitor, "/feed.xml")[1]


def test_a_feed_says_when_its_images_were_changed_last(host: ImageHost, visitor: httpx2.Client) -> None:
    album = host.albums.create("Changed", owner="admin")
    older, newer = (host.upload(make_image(64, 48), owner="admin", album_id=album.id) for _ in range(2))
    changed = host.images.update(older.id, owner="admin", description="Another one")
    assert changed.updated_at > newer.created_at
    feed, _ = entries(visitor, f"/a/{album.id}/feed.xml")
    assert feed.findtext(f"{ATOM}updated") == to_rfc3339(changed.updated_at)
    found = [
        [entry.findtext(ATOM + name) for name in ("published", "updated")]
        for entry in feed.iter(f"{ATOM}entry")
    ]
    assert found == [
        [to_rfc3339(image.created_at), to_rfc3339(image.updated_at)] for image in (newer, changed)
    ]


def test_an_album_has_a_feed_while_it_is_public(host: ImageHost, visitor: httpx2.Client) -> None:
    owner = host.accounts.get("admin")
    album = host.albums.create("Trip & Co", owner=owner)
    image = host.upload(make_image(64, 48), owner=owner, album_id=album.id)
    other = host.upload(make_image(64, 48), owner=owner)
    feed, pages = entries(visitor, f"/a/{album.id}/feed.xml")
    assert (feed.findtext(f"{ATOM}title"), pages) == ("Trip & Co", [f"{SITE}/i/{image.id}"])
    assert other.id not in str(pages)
    assert f'href="/a/{album.id}/feed.xml"' in visitor.get(f"/a/{album.id}").text
    host.albums.update(album.id, owner=owner, is_public=False)
    assert visitor.get(f"/a/{album.id}/feed.xml").status_code == 404


def test_the_ids_in_a_feed_stay_when_the_site_moves_to_another_domain(tmp_path: Path) -> None:
    found = []
    for domain in ("old.example", "new.example"):
        settings = attrs.evolve(SETTINGS, base_url=f"https://{domain}/v1")
        with open_host(tmp_path, settings=settings) as host:
            if domain == "old.example":
                album = host.albums.create("Trip", owner="admin")
                host.upload(make_image(64, 48), owner="admin", album_id=album.id)
            with serving(host, settings) as origin:
                for path in ("/feed.xml", f"/a/{album.id}/feed.xml"):
                    feed = ElementTree.fromstring(httpx2.get(origin + path).content)
                    found.append([each.text or "" for each in feed.iter(f"{ATOM}id")])
                    assert f"https://{domain}/i/" in ElementTree.tostring(feed, "unicode")
    gallery, of_album = found[:2]
    assert found == [gallery, of_album] * 2
    assert len({*gallery, *of_album}) == 3, "one id for the gallery, one for the album, one for the image"
    assert all(re.fullmatch(r"tag:[0-9a-z.-]+,\d{4}:[\w/]+", each) for each in gallery + of_album)


POLLED = ("/feed.xml", "/a/{album}/feed.xml", "/sitemap.xml", f"/oembed?url={SITE}/i/{{image}}")
"""What programs poll."""


@pytest.mark.parametrize("template", POLLED)
def test_what_programs_poll_is_304_until_it_changes(
    host: ImageHost, visitor: httpx2.Client, template: str
) -> None:
    album = host.albums.create("Polled", owner="admin")
    image = host.upload(make_image(64, 48), owner="admin", album_id=album.id)
    path = template.format(album=album.id, image=image.id)
    first = visitor.get(path)
    etag = first.headers["etag"]
    assert parsedate_to_datetime(first.headers["last-modified"]) <= host.now()
    for condition in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        for method in ("GET", "HEAD"):
            response = visitor.request(method, path, headers={"If-None-Match": condition})
            assert (response.status_code, response.content) == (304, b"")
            for name in ("etag", "cache-control", "vary", "last-modified"):
                assert response.headers[name] == first.headers[name]
            assert "content-length" not in response.headers
    since = {"If-Modified-Since": format_datetime(host.now(), usegmt=True)}
    host.images.delete(image.id)
    for headers in (since, {"If-None-Match": etag}):
        response = visitor.get(path, headers=headers)
        assert response.status_code == (404 if "oembed" in path else 200)
        assert response.status_code == 404 or image.id not in response.text


def test_characters_that_xml_has_not_are_left_out_of_feeds(host: ImageHost, visitor: httpx2.Client) -> None:
    text = "".join(map(chr, (*range(1, 0x20), 0x7F, 0xFFFD, 0xFFFE, 0xFFFF, 0x1F408)))
    album = host.albums.create(f"a{text}b", owner="admin")
    image = host.upload(make_image(64, 48), owner="admin", album_id=album.id, description=f"c{text}d")
    for path in ("/feed.xml", f"/a/{album.id}/feed.xml"):
        feed, pages = entries(visitor, path)
        assert pages[0] == f"{SITE}/i/{image.id}"
    assert feed.findtext(f"{ATOM}title", "").split() == ["a", "\x7f\ufffd🐈b"]


def test_the_site_map_has_the_pages_of_public_images(host: ImageHost, visitor: httpx2.Client) -> None:
    image = host.upload(make_image(64, 48), owner="admin")
    response = visitor.get("/sitemap.xml")
    assert response.headers["content-type"].startswith("application/xml")
    locations = [each.text for each in ElementTree.fromstring(response.content).iter() if each.text]
    assert {f"{SITE}/", f"{SITE}/i/{image.id}", host.urls.image(image)} <= set(locations)
    assert f"Sitemap: {SITE}/sitemap.xml" in visitor.get("/robots.txt").text


def test_a_site_that_is_closed_or_not_listed_has_no_feed_or_site_map() -> None:
    closed = attrs.evolve(SETTINGS, gallery=GallerySettings(require_sign_in=True))
    unlisted = attrs.evolve(SETTINGS, web=WebSettings(listed=False))
    with open_host(settings=closed) as host, serving(host, closed) as origin:
        for path in ("/feed.xml", "/sitemap.xml"):
            assert httpx2.get(f"{origin}{path}").status_code == 401
    with open_host(settings=unlisted) as host, serving(host, unlisted) as origin:
        assert httpx2.get(f"{origin}/sitemap.xml").status_code == 404
        assert "Sitemap" not in httpx2.get(f"{origin}/robots.txt").text


def test_a_phone_can_share_files_with_the_app(owner: httpx2.Client, visitor: httpx2.Client) -> None:
    response = visitor.get("/manifest.webmanifest")
    assert response.headers["content-type"] == "application/manifest+json"
    target = response.json()["share_target"]
    assert visitor.get(response.json()["icons"][0]["src"]).status_code == 200
    (field,) = target["params"]["files"]
    files = {field["name"]: ("shared.png", make_image(64, 48))}
    headers = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate", "Origin": "null"}
    shared = owner.post(target["action"], files=files, headers=headers)
    assert shared.status_code == 200
    assert "shared.webp" in shared.text


@pytest.mark.parametrize("contact", [None, "mailto:security@example.com", "https://example.com/report"])
def test_the_security_contact_is_that_of_the_settings(contact: str | None) -> None:
    settings = attrs.evolve(SETTINGS, web=WebSettings(security_contact=contact))
    with open_host(settings=settings) as host, serving(host, settings) as origin:
        response = httpx2.get(f"{origin}/.well-known/security.txt")
        if not contact:
            assert response.status_code == 404
            return
        fields = dict(line.split(": ", 1) for line in response.text.splitlines())
        assert fields["Contact"] == contact
        left = datetime.fromisoformat(fields["Expires"]) - host.now()
        assert timedelta(days=363) < left < timedelta(days=366)


def test_a_browser_finds_the_icon_without_a_page(visitor: httpx2.Client) -> None:
    response = visitor.get("/favicon.ico")
    assert (response.status_code, response.headers["content-type"]) == (200, "image/svg+xml")
    assert response.content.startswith(b"<svg")
