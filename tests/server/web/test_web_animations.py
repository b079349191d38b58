"""Animations on web pages: grids show the first frame, and the page of an image offers both."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import quote

import httpx2
import pytest
from attrs import evolve
from tests.animations import count_frames, make_animation
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, SETTINGS, SignedIn

from imagehost_core import ImageHost
from imagehost_core.ids import ImageId
from imagehost_core.settings import DeliverySettings

WIDTH, HEIGHT = 700, 500


@pytest.fixture
def animation(host: ImageHost) -> ImageId:
    """A public animation of an account."""
    return host.upload(make_animation(WIDTH, HEIGHT), owner="admin", filename="moving.gif").id


def read_images(page: str, image_id: ImageId) -> Iterator[dict[str, str]]:
    """Yield the attributes of the elements that show an image."""
    for tag in re.findall(r"<(?:img|source) [^>]+>", page):
        attributes = {name: unescape(value) for name, value in re.findall(r'([\w-]+)="([^"]*)"', tag)}
        if image_id in attributes.get("src", "") + attributes.get("srcset", ""):
            yield attributes


def read_urls(attributes: dict[str, str]) -> set[str]:
    """Return the paths of the URLs that a browser can choose from."""
    srcset = [candidate.split()[0] for candidate in attributes.get("srcset", "").split(", ") if candidate]
    return {re.sub(r"^https?://[^/]+", "", url) for url in (*srcset, attributes.get("src", "")) if url}


def frames(client: httpx2.Client, urls: set[str]) -> set[int]:
    """Return the numbers of frames of what is served at some URLs."""
    assert urls
    return {count_frames(client.get(url).raise_for_status().content) for url in urls}


@pytest.mark.parametrize("path", ["/", "/images", "/images?view=list"])
def test_a_grid_shows_the_first_frame_of_an_animation(
    origin: str, owner: httpx2.Client, animation: ImageId, path: str
) -> None:
    (shown,) = read_images(owner.get(path).text, animation)
    with httpx2.Client(base_url=origin) as visitor:
        assert frames(visitor, read_urls(shown)) == {1}
        if path == "/":
            assert frames(visitor, read_urls({"src": shown["data-animation"]})) == {2}


@pytest.mark.parametrize("page", ["/i/{}", "/images/{}"])
def test_the_page_of_an_animation_shows_the_first_frame_if_motion_is_to_be_reduced(
    origin: str, owner: httpx2.Client, animation: ImageId, page: str
) -> None:
    still, moving = read_images(owner.get(page.format(animation)).text, animation)
    assert still["media"] == "(prefers-reduced-motion: reduce)"
    with httpx2.Client(base_url=origin) as visitor:
        assert frames(visitor, read_urls(still)) == {1}
        assert frames(visitor, read_urls(moving)) == {2}


def test_a_private_animation_of_another_origin_has_signed_urls_of_both() -> None:
    settings = evolve(SETTINGS, cdn_url="https://cdn.example.com/img")
    host = open_host(settings=settings)
    image = host.upload(make_animation(WIDTH, HEIGHT), owner="admin", is_public=False)
    with (
        serving(host, settings) as origin,
        httpx2.Client(base_url=origin, headers=SignedIn(host).headers) as client,
        httpx2.Client(base_url=origin, headers=HTML) as visitor,
    ):
        (tile,) = read_images(client.get("/images").text, image.id)
        assert frames(visitor, read_urls(tile)) == {1}
        still, moving = read_images(client.get(f"/images/{image.id}").text, image.id)
        assert (frames(visitor, read_urls(still)), frames(visitor, read_urls(moving))) == ({1}, {2})


def test_a_host_without_public_variants_shows_the_thumbnail_of_an_animation() -> None:
    settings = evolve(SETTINGS, delivery=DeliverySettings(require_signed=True))
    host = open_host(settings=settings)
    image = host.upload(make_animation(WIDTH, HEIGHT), owner="admin")
    with serving(host, settings) as origin, httpx2.Client(base_url=origin, headers=HTML) as visitor:
        (tile,) = read_images(visitor.get("/").text, image.id)
        assert frames(visitor, read_urls(tile)) == {2}


def test_a_link_to_an_animation_is_shown_as_a_gif_with_a_still(
    host: ImageHost, visitor: httpx2.Client
) -> None:
    image = host.upload(make_animation(800, 400), owner="admin")
    page = visitor.get(f"/i/{image.id}").text
    shown = re.findall(r'property="og:image" content="([^"]+)"', page)
    widths = re.findall(r'property="og:image:width" content="([^"]+)"', page)
    assert widths == ["400", "800"]
    gif, still = (visitor.get(httpx2.URL(unescape(url)).raw_path.decode()) for url in shown)
    assert (gif.headers["content-type"], still.headers["content-type"]) == ("image/gif", "image/jpeg")
    assert count_frames(gif.content) == image.frames
    url = quote(f"{SETTINGS.base_url.removesuffix('/v1')}/i/{image.id}", safe="")
    types = re.findall(r'property="og:image:type" content="([^"]+)"', page)
    assert types == ["image/gif", "image/jpeg"]
    described = visitor.get(f"/oembed?url={url}&maxheight=100").json()
    assert (described["width"], described["height"]) == (200, 100)
    assert (described["thumbnail_width"], described["thumbnail_height"]) == (200, 100)
    assert ".gif?" in described["url"]
    assert ".jpg?" in described["thumbnail_url"]
