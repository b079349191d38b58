"""What robots.txt lets crawlers read, and what search engines are asked not to list."""

from __future__ import annotations

from html import unescape
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
from attrs import evolve
from protego import Protego
from tests.animations import make_animation
from tests.open_host import open_host
from tests.server.below_a_path import URL, References
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, SETTINGS, SignedIn

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.settings import ServerSettings, WebSettings
from imagehost_server.web.pages.images import IMAGES_PER_PAGE
from imagehost_server.web.router import HANDLERS

CRAWLER = "AnyBot"


def fill(host: ImageHost) -> dict[str, str]:
    """Upload more than a page of public images, and return values for the parameters of paths."""
    album = host.albums.create("Trip & more", owner="admin", description="Two weeks")
    share = host.albums.create_share(album, owner="admin")
    text = "A cat at https://cats.example/"
    host.upload(make_animation(300, 200), owner="admin", filename="moving.gif")
    images = [
        host.upload(make_image(800, 600 + n), owner="admin", album_id=album.id, description=text)
        for n in range(2)
    ]
    small = make_image(8, 6)
    for _ in range(IMAGES_PER_PAGE):
        host.upload(small, owner="admin")
    return {"album_id": str(album.id), "image_id": images[0].id, "token": share.token or ""}


def page_paths(values: dict[str, str]) -> list[str]:
    """Return the paths of all pages that people without an account can open; "" in place of other values."""
    paths = [path for handler in HANDLERS if "GET" in handler.http_methods for path in handler.paths]
    own = ("/images", "/albums", "/settings", "/admin", "/upload")
    values = {"webhook_id": "", "account_id": "", "version": "", "name": "", **values}
    return [path.replace(":str}", "}").format(**values) for path in paths if not path.startswith(own)]


class Crawl:
    """All that the pages of a site and what they link to refer to, for a visitor without an account."""

    def __init__(self, client: httpx2.Client, settings: ServerSettings, *paths: str) -> None:
        self.client, self.site = client, settings.site_url
        self.seen: dict[str, str] = {}
        self.waiting = [f"{self.site}{path}" for path in paths]
        while self.waiting:
            self.read(self.waiting.pop())

    def read(self, url: str) -> None:
        """Note the URLs in what a URL of the site responds; images and archives have none."""
        path = urlsplit(url).path
        if path.startswith(("/img/", "/assets/")) or path.endswith((".zip", "/v1", "/img")):
            return
        response = self.client.get(url.removeprefix(self.site))
        links = [response.headers["location"]] if response.has_redirect_location else []
        if response.status_code != 200:
            assert response.has_redirect_location or url not in self.seen, f"{self.seen[url]} refers to {url}"
        elif response.headers["content-type"].startswith("text/html"):
            links += References(response).links
        links += URL.findall(unescape(unescape(response.text)))
        for link in links:
            target = urljoin(url, link).partition("#")[0]
            if target.startswith(self.site) and target not in self.seen:
                self.seen[target] = url
                self.waiting.append(target)


@pytest.mark.parametrize(("root", "listed"), [("", True), ("/photos", False)])
def test_crawlers_may_read_all_that_public_pages_feeds_the_site_map_and_link_cards_refer_to(
    root: str, listed: bool
) -> None:
    site = f"http://testserver.local:8000{root}"
    settings = evolve(SETTINGS, base_url=f"{site}/v1", web=WebSettings(listed=listed))
    with open_host(settings=settings) as host, serving(host, settings) as origin:
        values = fill(host)
        with httpx2.Client(base_url=f"{origin}{root}", headers=HTML) as client:
            text = client.get("/robots.txt").text
            crawl = Crawl(client, settings, *page_paths(values))
    rules = Protego.parse(text)
    kinds = ("/img/", "/oembed?url=", "/?cursor=", "/i/", "/a/", "/s/", "/feed.xml", "/assets/", "card=1")
    for kind in kinds:
        assert any(kind in url for url in crawl.seen), kind
    refused = {url: page for url, page in crawl.seen.items() if not rules.can_fetch(url, CRAWLER)}
    assert refused == {}
    assert rules.can_fetch(f"{site}/favicon.ico", CRAWLER)
    assert list(rules.sitemaps) == ([f"{site}/sitemap.xml"] if listed else [])
    for path in ("/images", "/albums/1", "/settings", "/admin", "/upload", "/v1/images"):
        assert not rules.can_fetch(f"{site}{path}", CRAWLER)


def test_a_site_that_is_not_listed_has_noindex_on_each_page_and_image() -> None:
    settings = evolve(SETTINGS, web=WebSettings(listed=False))
    for each, expected in ((SETTINGS, None), (settings, "noindex")):
        with open_host(settings=each) as host, serving(host, each) as origin:
            image = host.upload(make_image(40, 30), owner="admin")
            private = host.upload(make_image(40, 30), owner="admin", is_public=False)
            urls = [host.urls.image(image), f"{host.urls.image(image)}?w=9", host.urls.thumb(image)]
            paths = ["/", f"/i/{image.id}", *(url.removeprefix(each.site_url) for url in urls)]
            with httpx2.Client(base_url=origin, headers=HTML) as client:
                for path in paths * 2:
                    assert client.get(path).headers.get("x-robots-tag") == expected, path
                    part = client.get(path, headers={"Range": "bytes=0-3"})
                    assert part.headers.get("x-robots-tag") == expected, path
                headers = {**SignedIn(host).headers, "Sec-Fetch-Site": "same-origin"}
                own = client.get(urlsplit(host.urls.image(private)).path, headers=headers)
                assert (own.status_code, own.headers.get("x-robots-tag")) == (200, expected)
