"""Back, Forward and reloads in Chromium: a page shows what its URL says, and a list returns to its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.outside.browser.tabs import ACCOUNT_PAGES, PAGES, OpenTab, running_for_pages
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import Page, StorageState

pytestmark = pytest.mark.external

COUNT = 90
"""Images of each list: more than two pages of it have."""
LIGHTBOX = "dialog.lightbox"
FILTERED = ("/?q=boat", "/images?q=boat&sort=filename", "/albums/1?sort=created_at")
"""Lists with a query."""
SHOWN = """() => ({
  url: location.href,
  heading: document.querySelector("h1").textContent,
  image: document.querySelector("dialog.lightbox[open] .title")?.textContent ?? null,
})"""
"""What a page shows: its heading, and the image of an open lightbox."""
AT_TOP = """() => [...document.querySelectorAll("#grid li, #grid tbody tr")]
  .filter((item) => item.querySelector("a"))
  .map((item) => [item.querySelector("a").pathname, Math.round(item.getBoundingClientRect().top)])
  .find(([, top]) => top >= 0)"""
"""The first image that is in the window as a whole, and its distance from the top."""


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_for_pages(tmp_path_factory.mktemp("history")) as server:
        yield server


@pytest.fixture(scope="module")
def image_id(client: httpx2.Client) -> str:
    """The id of the newest of the images, all of which are in an album."""
    client.post("/albums", json={"name": "Boats"}).raise_for_status()
    for first in range(0, COUNT, 15):
        files = [("files[]", (f"boat {n}.png", make_image(120, 80 + n))) for n in range(first, first + 15)]
        stored = client.post("/upload", files=files, data={"album_id": "1"}).raise_for_status()
    return str(stored.json()["data"]["images"][-1]["id"])


@pytest.fixture(scope="module")
def webhook(client: httpx2.Client) -> str:
    body = {"url": "https://example.com/", "events": ["image.uploaded"]}
    return str(client.post("/webhooks", json=body).raise_for_status().json()["data"]["id"])


@pytest.fixture(scope="module")
def lists(client: httpx2.Client, image_id: str) -> tuple[str, ...]:
    """The paths of all pages of the site, where a list may be, and of a share link."""
    share = client.post("/albums/1/shares", json={}).raise_for_status().json()["data"]["url"]
    paths = (*PAGES, *ACCOUNT_PAGES, *FILTERED, share.partition("/s/")[1] + share.partition("/s/")[2])
    return tuple(path.format(id=image_id) for path in paths)


def shown(page: Page) -> dict[str, object]:
    return dict(page.evaluate(SHOWN))


def load_all(page: Page) -> int:
    """Scroll to the end of a list; return the number of its images."""
    page.wait_for_function(
        "() => { scrollTo(0, document.body.scrollHeight); return !document.getElementById('more'); }"
    )
    return page.locator("#grid a img").count()


def test_every_page_shows_what_its_url_says_after_each_step_of_history(
    open_tab: OpenTab, origin: str, lists: tuple[str, ...], session_cookies: StorageState
) -> None:
    """Whatever a page pushes, a reload, Back and a new tab show what was shown under that URL."""
    walked = []
    for path in lists:
        page = open_tab(storage_state=session_cookies, reduced_motion="reduce").page
        page.goto(origin + path)
        before = shown(page)
        # Some pages have no list, and the page for signing in leads to another.
        if before["url"] != origin + path or not page.locator("#grid li a").count():
            continue
        walked.append(re.sub(r"^/s/\w+", "/s/", path))
        page.locator("#grid li a").nth(2).click()
        page.locator(LIGHTBOX).wait_for()
        opened = shown(page)
        assert opened["url"] != before["url"]
        page.reload()
        page.locator(LIGHTBOX).wait_for()
        assert shown(page) == opened, path
        page.keyboard.press("ArrowRight")
        moved = shown(page)
        other = page.context.new_page()
        other.goto(page.url)
        other.locator(LIGHTBOX).wait_for()
        assert shown(other) == moved, path
        other.keyboard.press("Escape")
        other.wait_for_url(str(before["url"]))
        assert shown(other) == before, path
        other.close()
        page.click("[data-tool=open]")
        page.locator(".single").wait_for()
        page_of_image = shown(page)
        page.go_back()
        page.locator(LIGHTBOX).wait_for()
        assert shown(page) == moved, path
        page.go_back()
        page.locator(LIGHTBOX).wait_for(state="hidden")
        assert shown(page) == before, path
        page.go_forward()
        page.locator(LIGHTBOX).wait_for()
        assert shown(page) == moved, path
        page.go_forward()
        page.locator(".single").wait_for()
        assert shown(page) == page_of_image, path
        page.context.close()
    assert walked == ["/", "/a/1", "/images", "/albums/1", *FILTERED, "/s/"]


def test_back_to_a_list_and_a_reload_return_to_its_place(
    open_tab: OpenTab, origin: str, lists: tuple[str, ...], session_cookies: StorageState
) -> None:
    walked = 0
    for path in lists:
        page = open_tab(storage_state=session_cookies, reduced_motion="reduce").page
        page.goto(origin + path)
        if page.url != origin + path or not page.locator("#grid").count():
            continue
        walked += 1
        assert load_all(page) == COUNT, path
        link = page.locator("#grid a:has(img)").nth(60)
        boxes = page.locator("#grid input")
        if boxes.count():
            boxes.nth(58).click()
            boxes.nth(62).click()
        link.scroll_into_view_if_needed()
        place, selected = page.evaluate(AT_TOP), page.locator("#grid .selected").count()
        assert page.evaluate("scrollY") > 0
        for leave in ("page", "reload"):
            if leave == "page":
                page.goto(origin + str(link.get_attribute("href")))
                page.go_back()
            else:
                page.reload()
            page.locator("#grid a img").nth(COUNT - 1).wait_for()
            page.wait_for_function(f"place => String(({AT_TOP})()) === String(place)", arg=place)
            assert page.locator("#grid .selected").count() == selected, path
            assert page.locator("#more").count() == 0, path
        page.context.close()
    assert walked == len(FILTERED) + 6


def test_back_to_a_list_shows_what_was_changed_meanwhile(
    open_tab: OpenTab, origin: str, client: httpx2.Client, image_id: str, session_cookies: StorageState
) -> None:
    """Images that were deleted are not shown, and none is shown twice."""
    page = open_tab(storage_state=session_cookies).page
    page.goto(f"{origin}/images")
    assert load_all(page) == COUNT
    links = page.locator("#grid a:has(img)")
    links.nth(30).scroll_into_view_if_needed()
    links.nth(30).click()
    page.locator(LIGHTBOX).wait_for()
    page.click("[data-tool=open]")
    page.click(".panel summary:has-text('Delete')")
    page.click("text=Delete permanently")
    page.wait_for_url(f"{origin}/images")
    page.go_back()
    assert page.locator(".status-code").inner_text() == "404"
    page.go_back()
    # The image of the lightbox is gone, and with it the fragment of the URL.
    page.wait_for_url(f"{origin}/images")
    assert not page.locator(LIGHTBOX).is_visible()
    page.locator("#status", has_text="No more").wait_for()
    paths = page.eval_on_selector_all("#grid a", "links => links.map((link) => link.pathname)")
    assert len(paths) == len(set(paths)) == COUNT - 1
    assert page.evaluate("scrollY") > 0


def test_the_url_of_an_image_further_on_in_a_list_shows_its_page(
    open_tab: OpenTab, origin: str, client: httpx2.Client, image_id: str
) -> None:
    oldest = client.get("/images", params={"sort": "created_at"}).json()["data"]["images"][0]["id"]
    page = open_tab().page
    page.goto(f"{origin}/#{oldest}")
    page.wait_for_url(f"{origin}/i/{oldest}")
    # It is no fragment of the page for signing in, and none that is not an id is touched.
    page.goto(f"{origin}/#main")
    page.wait_for_load_state("networkidle")
    assert page.url == f"{origin}/#main"


RESULTS: tuple[tuple[str, str, dict[str, str], bool], ...] = (
    ("/settings", "form[action$='/keys']", {"name": "Camera"}, True),
    ("/settings", "form[action$='/password']", {"current_password": "-", "new_password": "-" * 9}, False),
    ("/albums/1", "form[action$='/shares']", {}, True),
    ("/images/{id}", "#sign", {}, True),
    ("/admin", "form[action$='/accounts']", {"name": "dora"}, True),
    ("/admin", "form[action$='/accounts']", {"name": "two words"}, False),
    ("/settings/webhooks/{webhook}", "form[action$='/rotate-secret']", {}, True),
)
"""Forms: the page, the form, what is typed, and whether the result shows something once."""


@pytest.mark.parametrize(("path", "form", "fields", "has_secret"), RESULTS)
def test_the_result_of_a_form_has_the_address_of_its_page_and_a_reload_sends_nothing(
    open_tab: OpenTab,
    origin: str,
    image_id: str,
    webhook: str,
    session_cookies: StorageState,
    path: str,
    form: str,
    fields: dict[str, str],
    has_secret: bool,
) -> None:
    tab = open_tab(storage_state=session_cookies)
    page, url = tab.page, origin + path.format(id=image_id, webhook=webhook)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(url)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for name, text in fields.items():
        page.fill(f"{form} [name={name}]", text)
    with page.expect_navigation():
        page.locator(f"{form} button").first.click()
    result = page.locator(".good input, #signed-url" if has_secret else "main [role=alert]").first
    result.wait_for()
    said = result.input_value() if has_secret else result.inner_text()
    assert page.url == url
    sent = []
    page.on("request", lambda request: sent.append(request.method))
    page.reload()
    assert "POST" not in sent
    assert page.url == url
    assert said not in page.content()
