"""Private images in Chromium: the session cookie, on pages of the same and of other origins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from attrs import frozen
from tests.outside.browser.conftest import Pages
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

SIGN_IN = """async (body) => (await fetch("/v1/session", {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
})).status"""

SHOW = """(url) => new Promise((resolve) => {
  const image = new Image();
  image.onload = () => resolve(image.naturalWidth);
  image.onerror = () => resolve(0);
  image.src = url;
})"""
"""Shows an image; returns its width, or 0 if the browser does not show it."""

READ = """async ([url, options]) => {
  try {
    const response = await fetch(url, options);
    return response.ok ? (await response.arrayBuffer()).byteLength : response.status;
  } catch (error) {
    return String(error);
  }
}"""
"""Reads a URL; returns the length of a success, the status of an error, or what the browser reports."""


@frozen
class PrivateImage:
    """A private image of 70 × 60 pixels.

    Attributes:
        url: Its URL.
        signed_url: A signed URL.
        size: Its size in bytes.
    """

    url: str
    signed_url: str
    size: int


@pytest.fixture(scope="module")
def private_image(server: RunningServer) -> Iterator[PrivateImage]:
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:
        form = {"files": {"image": make_image(70, 60)}, "data": {"is_public": "false"}}
        record = client.post("/upload", **form).raise_for_status().json()["data"]  # type: ignore[arg-type]
        signed = client.post(f"/images/{record['id']}/signed-url", json={}).json()["data"]["url"]
        yield PrivateImage(record["url"], signed, record["size"])


@pytest.fixture
def signed_in(context: BrowserContext, server: RunningServer) -> Page:
    """A page of the server's origin, signed in as `admin`; all pages of the context have the cookies."""
    match = re.search(r"^ +password +(\S+)$", server.output, re.MULTILINE)
    assert match is not None
    page = context.new_page()
    page.goto(f"{server.origin}/healthz")
    assert page.evaluate(SIGN_IN, {"username": "admin", "password": match[1]}) == 201
    cookies = {cookie["name"]: cookie for cookie in context.cookies()}
    assert cookies["__Host-imagehost-session"]["httpOnly"]
    return page


def values(page: Page, image: PrivateImage) -> tuple[Any, Any]:
    """Return what a page can show and read of an image."""
    return page.evaluate(SHOW, image.url), page.evaluate(READ, [image.url, {"credentials": "include"}])


def test_a_page_of_the_same_origin_shows_and_reads_a_private_image_by_the_cookie(
    signed_in: Page, private_image: PrivateImage
) -> None:
    assert values(signed_in, private_image) == (70, private_image.size)
    ended = """async (name) => (await fetch("/v1/session", { method: "DELETE", headers: {
      "X-CSRF-Token": document.cookie.split("; ").find((cookie) => cookie.startsWith(name)).slice(name.length)
    } })).status"""
    assert signed_in.evaluate(ended, "__Host-imagehost-csrf=") == 200
    assert values(signed_in, private_image) == (0, 404)


@pytest.mark.parametrize("site", ["same_site", "cross_site"])
def test_a_page_of_another_origin_does_not(
    context: BrowserContext, signed_in: Page, pages: Pages, private_image: PrivateImage, site: str
) -> None:
    """To another port of the same site, the browser sends the cookie too."""
    other = context.new_page()
    other.goto(getattr(pages, site))
    width, read = values(other, private_image)
    assert width == 0
    assert "Failed to fetch" in str(read)
    assert other.evaluate(READ, [private_image.url, {}]) == 404
    assert values(signed_in, private_image) == (70, private_image.size)


@pytest.mark.parametrize("site", ["same_site", "cross_site"])
def test_a_page_of_another_origin_shows_and_reads_an_image_by_its_signed_url(
    page: Page, pages: Pages, private_image: PrivateImage, site: str
) -> None:
    page.goto(getattr(pages, site))
    assert page.evaluate(SHOW, private_image.signed_url) == 70
    assert page.evaluate(READ, [private_image.signed_url, {}]) == private_image.size


def test_a_token_does_not_make_private_bytes_readable_for_another_origin(
    page: Page, server: RunningServer, private_image: PrivateImage
) -> None:
    headers = {"headers": {"Authorization": f"Bearer {server.token}"}}
    assert "Failed to fetch" in page.evaluate(READ, [private_image.url, headers])


@pytest.mark.parametrize("site", ["same_site", "cross_site"])
def test_the_cookie_gives_pages_of_other_origins_no_access_to_the_api(
    context: BrowserContext, signed_in: Page, server: RunningServer, pages: Pages, site: str
) -> None:
    url = f"{server.base_url}/images"
    assert isinstance(signed_in.evaluate(READ, [url, {}]), int)
    assert signed_in.evaluate(READ, [url, {}]) != 401
    other = context.new_page()
    other.goto(getattr(pages, site))
    assert "Failed to fetch" in other.evaluate(READ, [url, {"credentials": "include"}])
    assert other.evaluate(READ, [url, {}]) == 401
