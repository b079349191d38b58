"""Share links in Chromium: created by the owner, opened by a visitor, and revoked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.outside.browser.tabs import NARROW, OpenTab, running_for_pages
from tests.ports import free_port
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import Page, StorageState

pytestmark = pytest.mark.external

SECRET = "harbour bridge"
LOADED = "() => [...document.images].every((image) => image.complete && image.naturalWidth > 0)"
SHOWN = "() => document.querySelector('dialog img').naturalWidth === 2400"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose images have another origin than its pages, with an album of three private images."""
    port = str(free_port())
    variables = {"IMAGEHOST_CDN_URL": f"http://localhost:{port}/img"}
    with running_for_pages(tmp_path_factory.mktemp("shares"), "--port", port, **variables) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:
            client.post("/albums", json={"name": "Harbour", "is_public": False}).raise_for_status()
            for number in range(3):
                files = {"image": (f"{number}.png", make_image(2_400, 1_800 + number))}
                data = {"description": f"Boat {number}", "album_id": "1", "is_public": "0"}
                client.post("/upload", files=files, data=data).raise_for_status()
        yield server


def create_share(page: Page, origin: str, password: str = "") -> str:
    """Create a share on the page of the album, and return its link."""
    page.goto(f"{origin}/albums/1")
    share = page.locator("details", has=page.locator("form[action$='/shares']"))
    if share.get_attribute("open") is None:
        share.locator("summary").click()
    share.locator("[name=password]").fill(password)
    share.locator("form[action$='/shares'] button").click()
    share.locator("label.copy button").click()
    copied = str(page.evaluate("navigator.clipboard.readText()"))
    assert copied == share.locator("label.copy input").input_value()
    return copied


def test_a_visitor_sees_a_share_with_a_password_until_it_is_revoked(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    owner = open_tab(storage_state=session_cookies, permissions=permissions)
    link = create_share(owner.page, origin, SECRET)
    visitor = open_tab(reduced_motion="reduce")
    page = visitor.page
    page.goto(link)
    page.fill("#password", "wrong password")
    page.click("main button")
    assert page.locator("[role=alert]").is_visible()
    visitor.errors.clear()  # the console has the status of both pages
    page.fill("#password", SECRET)
    page.click("main button")
    page.wait_for_url(link)
    page.wait_for_function(LOADED)
    paths = page.eval_on_selector_all("#grid a", "links => links.map((link) => link.href)")
    assert [path.rpartition("/")[0] for path in paths] == [link] * 3
    page.locator("#grid a").first.click()
    page.locator("dialog.lightbox").wait_for()
    page.keyboard.press("ArrowRight")
    assert page.url == paths[1].replace(f"{link}/", f"{link}#")
    page.keyboard.press("+")
    page.wait_for_function(SHOWN)
    page.click("[data-tool=info]")
    page.locator("dialog .info dl").wait_for()
    full = page.locator("[data-tool=download]").get_attribute("href") or ""
    assert httpx2.get(full).status_code == 200
    page.click("[data-tool=open]")
    assert page.locator("h1").inner_text() == "Boat 1"
    page.wait_for_function(LOADED)
    page.click(".steps [rel=next]")
    page.wait_for_url(paths[2])
    page.click(".crumbs a")
    page.wait_for_url(link)
    assert visitor.errors == []
    assert not [url for url in visitor.requests if "/images/" in url or "/v1/" in url]
    owner.page.on("dialog", lambda dialog: dialog.accept())
    owner.page.click("form[action*='/shares/'] button")
    owner.page.wait_for_url("**/albums/1**")
    assert page.goto(link).status == 404  # type: ignore[union-attr]
    assert httpx2.get(full).status_code == 404
    assert owner.errors == []


def test_a_share_is_shown_on_a_phone_without_scripts(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    link = create_share(open_tab(storage_state=session_cookies, permissions=permissions).page, origin)
    visitor = open_tab(viewport=NARROW, java_script_enabled=False)
    visitor.page.goto(link)
    visitor.page.locator("#grid a").nth(2).click()
    assert visitor.page.locator("h1").inner_text() == "Boat 0"
    anchor = visitor.page.locator("figure a")
    with visitor.page.expect_response(anchor.get_attribute("href") or "") as image:
        anchor.click()
    assert (image.value.status, image.value.headers["content-type"]) == (200, "image/webp")


def test_the_lightbox_shows_private_images_of_another_origin_in_full_size(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    """The URL of a private image is signed for one size, so that is the one that a zoom shows."""
    tab = open_tab(storage_state=session_cookies, reduced_motion="reduce")
    tab.page.goto(f"{origin}/images")
    tab.page.locator("#grid a").first.click()
    tab.page.keyboard.press("+")
    full = tab.page.locator("[data-tool=download]").get_attribute("href") or ""
    assert httpx2.get(full).status_code == 200
    tab.page.wait_for_function(LOADED)
    assert tab.errors == []
