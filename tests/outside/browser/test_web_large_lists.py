"""Lists of many pages in Chromium: selecting all images, months, the keyboard, and what is kept in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import httpx2
import pytest
from tests.outside.browser.tabs import OpenTab, Watched, running_for_pages
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, Page, Route, StorageState

pytestmark = pytest.mark.external

COUNT, OLD = 100, 50
"""Images of the album, of which some were uploaded two years before the others."""
TWO_YEARS = 730 * 86_400 * 10**6


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a server with private images in an album, and its token in a file."""
    directory = tmp_path_factory.mktemp("large")
    with running_for_pages(directory) as server, client_of(server.base_url, server.token) as client:
        (directory / "token").write_text(server.token, encoding="utf-8")
        client.post("/albums", json={"name": "Years", "is_public": False}).raise_for_status()
        for first in range(0, COUNT, 20):
            files = [
                ("files[]", (f"{n}.png", make_image(300, 200 + n % 7))) for n in range(first, first + 20)
            ]
            client.post("/upload", files=files, data={"album_id": "1"}).raise_for_status()
    with closing(sqlite3.connect(directory / "data" / "imagehost.sqlite3")) as database, database:
        oldest = f"SELECT id FROM images ORDER BY created_at LIMIT {OLD}"
        database.execute(f"UPDATE images SET created_at = created_at - {TWO_YEARS} WHERE id IN ({oldest})")
    return directory


@pytest.fixture(scope="module")
def server(directory: Path) -> Iterator[RunningServer]:
    with running_for_pages(directory) as server:
        yield server


@pytest.fixture
def client(server: RunningServer, directory: Path) -> Iterator[httpx2.Client]:
    with client_of(server.base_url, (directory / "token").read_text(encoding="utf-8")) as client:
        yield client


def client_of(base_url: str, token: str) -> httpx2.Client:
    return httpx2.Client(base_url=base_url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE)


@pytest.fixture
def tab(open_tab: OpenTab, origin: str, session_cookies: StorageState) -> Watched:
    """The page of the album."""
    tab: Watched = open_tab(storage_state=session_cookies)
    tab.page.goto(f"{origin}/albums/1")
    tab.page.locator("#grid input").nth(30).wait_for()
    return tab


def load_all(page: Page) -> None:
    """Scroll until all images are in the list."""
    page.wait_for_function(
        """(count) => {
          scrollTo(0, document.documentElement.scrollHeight);
          return document.querySelectorAll("#grid [data-id]").length === count;
        }""",
        arg=COUNT,
    )


@pytest.mark.parametrize(("language", "words"), [("en", "100 selected"), ("de", "100 ausgewählt")])
def test_all_images_of_a_list_are_selected_also_those_that_are_not_loaded(
    open_tab: OpenTab, origin: str, session_cookies: StorageState, language: str, words: str
) -> None:
    page = open_tab(storage_state=session_cookies, locale=language).page
    page.goto(f"{origin}/images?album_id=1&is_public=false")
    page.locator("#grid input").first.wait_for()
    page.keyboard.press("Control+a")
    page.locator(".selection strong.count", has_text=words).wait_for()
    assert words in page.locator("#announced").inner_text()
    assert page.locator("#grid .selected").count() < COUNT
    load_all(page)
    page.locator("#grid .selected").nth(COUNT - 1).wait_for()
    page.keyboard.press("Escape")
    assert page.locator("#grid .selected").count() == 0
    assert not page.locator(".selection strong.count").is_visible()


def test_all_images_of_a_list_are_published_downloaded_and_hidden(
    tab: Watched, client: httpx2.Client
) -> None:
    page = tab.page
    page.keyboard.press("Control+a")
    page.locator(".selection strong.count", has_text="100 selected").wait_for()
    with page.expect_download() as download:
        page.click("[data-action=download]")
    with ZipFile(download.value.path()) as archive:
        assert len(archive.namelist()) == COUNT
    for action, public in (("public", COUNT), ("private", 0)):
        page.click(f"[data-action={action}]")
        while client.get("/albums/1").json()["data"]["public_image_count"] != public:
            page.evaluate("0")
        page.locator("#outcome", has_text="Done").wait_for()
    assert tab.errors == []


def hold_ids(page: Page) -> list[Route]:
    """Hold the requests for the ids of a list, in the list that is returned."""
    held: list[Route] = []
    page.route("**/images/ids?*", lambda route: held.append(route))
    return held


def test_no_action_begins_before_select_all_has_read_the_list(tab: Watched) -> None:
    page = tab.page
    held = hold_ids(page)
    loaded = page.locator("#grid [data-id]:visible").count()
    with page.expect_request("**/images/ids?*"):
        page.keyboard.press("Control+a")
    # The list becomes longer meanwhile, and one image is deselected.
    load_all(page)
    page.locator("#grid input").first.uncheck()
    requests = len(tab.requests)
    page.keyboard.press("Delete")
    for button in page.locator(".selection button[data-action]").all():
        if button.get_attribute("data-action") not in ("all", "none"):
            button.evaluate("(button) => button.click()")
    assert not page.locator(".undo").is_visible()
    assert [url for url in tab.requests[requests:] if "/img/" not in url] == []
    held[0].continue_()
    page.locator(".selection strong.count", has_text="99 selected").wait_for()
    assert page.locator("#grid .selected").count() == COUNT - 1 > loaded
    assert page.locator("[data-action=delete]").is_enabled()
    assert tab.errors == []


def test_selecting_none_ends_the_reading_of_the_list(tab: Watched) -> None:
    page = tab.page
    held = hold_ids(page)
    with page.expect_request("**/images/ids?*"):
        page.keyboard.press("Control+a")
    page.locator(".selection strong.count", has_text="Reading the list").wait_for()
    with page.expect_event("requestfailed"):
        page.click("[data-action=none]")
    page.locator(".selection").first.wait_for(state="hidden")
    with page.expect_request("**/images/ids?*"):
        page.keyboard.press("Control+a")
    held[1].continue_()
    page.locator(".selection strong.count", has_text="100 selected").wait_for()
    assert tab.errors == []


def test_a_list_longer_than_its_page_is_deleted_after_a_question_with_the_number(
    open_tab: OpenTab, origin: str, session_cookies: StorageState, client: httpx2.Client
) -> None:
    page = open_tab(storage_state=session_cookies).page
    album = client.post("/albums", json={"name": "Short lived"}).raise_for_status().json()["data"]["id"]
    for _ in range(3):
        files = [("files[]", (f"{n}.png", make_image(30, 20))) for n in range(15)]
        client.post("/upload", files=files, data={"album_id": str(album)}).raise_for_status()
    later: list[Route] = []
    page.route("**cursor=*", lambda route: later.append(route))  # the rest of the list is never loaded
    page.goto(f"{origin}/albums/{album}")
    page.locator("#grid input").first.wait_for()
    questions: list[str] = []
    for is_sure, left in ((False, 45), (True, 0)):

        def answer(dialog: object, is_sure: bool = is_sure) -> None:
            questions.append(dialog.message)  # type: ignore[attr-defined]
            dialog.accept() if is_sure else dialog.dismiss()  # type: ignore[attr-defined]

        page.once("dialog", answer)
        page.keyboard.press("Control+a")
        page.locator(".selection strong.count", has_text="45 selected").wait_for()
        page.click("[data-action=delete]")
        if is_sure:
            page.locator("#outcome", has_text="Done").wait_for()
        assert client.get(f"/albums/{album}").json()["data"]["image_count"] == left
    assert questions == ["Delete 45 images for good? This cannot be undone."] * 2
    assert page.inner_text("#total") == "0 images"


def test_images_that_the_list_loads_during_a_change_are_shown_as_they_are_after_it(tab: Watched) -> None:
    page = tab.page
    held: list[Route] = []
    page.route("**/v1/images", lambda route: held.append(route), times=1)
    page.keyboard.press("Control+a")
    page.locator(".selection strong.count", has_text="100 selected").wait_for()
    with page.expect_request("**/v1/images"):
        page.click("[data-action=public]")
    assert page.locator("#grid [data-private]").count() < COUNT
    load_all(page)
    assert page.locator("#grid [data-private]").count() == COUNT
    held[0].continue_()
    page.locator("#outcome", has_text="Done").wait_for()
    assert page.locator("#grid [data-private]").count() == 0
    page.click("[data-action=private]")
    page.locator("#grid [data-private]").nth(COUNT - 1).wait_for()
    assert tab.errors == []


def test_a_page_of_the_list_that_comes_after_a_deletion_shows_none_of_its_images(
    open_tab: OpenTab, origin: str, session_cookies: StorageState, client: httpx2.Client
) -> None:
    page = open_tab(storage_state=session_cookies).page
    album = client.post("/albums", json={"name": "Late page"}).raise_for_status().json()["data"]["id"]
    for _ in range(3):
        files = [("files[]", (f"{n}.png", make_image(30, 20))) for n in range(15)]
        client.post("/upload", files=files, data={"album_id": str(album)}).raise_for_status()
    late: list[tuple[Route, APIResponse]] = []
    page.route("**cursor=*", lambda route: late.append((route, route.fetch())), times=1)
    page.goto(f"{origin}/albums/{album}")
    page.locator("#grid input").first.wait_for()
    while not late:
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.on("dialog", lambda dialog: dialog.accept())
    page.keyboard.press("Control+a")
    page.locator(".selection strong.count", has_text="45 selected").wait_for()
    page.click("[data-action=delete]")
    page.locator("#outcome", has_text="Done").wait_for()
    route, response = late[0]
    route.fulfill(response=response)
    page.locator("#more").wait_for(state="detached")
    assert page.locator("#grid [data-id]").count() == 0
    assert page.inner_text("#total") == "0 images"


def test_a_list_loads_no_images_while_all_of_it_is_leaving(tab: Watched) -> None:
    page = tab.page
    page.keyboard.press("Control+a")
    page.locator(".selection strong.count", has_text="100 selected").wait_for()
    page.wait_for_load_state("networkidle")
    held: list[Route] = []
    page.route("**/v1/images", lambda route: held.append(route), times=1)
    page.select_option("[data-choice=album]", "")
    with page.expect_request("**/v1/images"):
        page.click("[data-action=album]")
    requests = len(tab.requests)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert [url for url in tab.requests[requests:] if "cursor=" in url] == []
    held[0].abort()
    load_all(page)


def test_images_far_from_the_window_are_not_in_memory_and_come_back(tab: Watched) -> None:
    page = tab.page
    first = page.locator("#grid img").first
    source = first.get_attribute("src")
    load_all(page)
    page.wait_for_function("() => !document.querySelector('#grid img').hasAttribute('src')")
    # The lightbox knows their URLs.
    page.evaluate("document.querySelector('#grid a').click()")
    page.locator(f"dialog .stage img[src='{source}']").wait_for()
    page.keyboard.press("Escape")
    page.evaluate("scrollTo(0, 0)")
    page.locator(f"#grid img[src='{source}']").wait_for()
    page.wait_for_function("() => document.querySelector('#grid img').naturalWidth > 1")
    assert tab.errors == []


def test_a_list_goes_on_where_the_end_was_near_only_for_a_moment_before(tab: Watched) -> None:
    page = tab.page
    # The browser reports several changes at once, the oldest first.
    page.add_init_script("""
      const Native = IntersectionObserver;
      window.IntersectionObserver = class extends Native {
        constructor(report, options) {
          super((entries, self) => report([{ isIntersecting: false }, ...entries], self), options);
        }
      };
    """)
    page.reload()
    page.locator("#grid input").nth(30).wait_for()
    load_all(page)


def test_end_and_home_lead_to_the_last_and_first_month_and_arrow_keys_to_the_others(
    tab: Watched,
) -> None:
    page = tab.page
    page.locator("#grid a").first.focus()
    page.keyboard.press("End")
    page.wait_for_url("**month=*#end")
    page.locator("#grid input").first.wait_for()
    page.wait_for_function("() => document.activeElement.closest('#grid [data-id]:not(:first-child)')")
    assert page.inner_text("#total") == "100 images"
    load_old = "() => document.querySelectorAll('#grid [data-id]').length === 50"
    while not page.evaluate(load_old):
        page.keyboard.press("End")
    page.keyboard.press("Home")
    page.wait_for_url("**/albums/1?#focus")
    page.locator("#grid input").first.wait_for()
    assert page.locator(".months a[tabindex='0']").count() == 1
    page.focus(".months a[tabindex='0']")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.closest('.months') !== null")
    url = page.evaluate("document.activeElement.href")
    page.keyboard.press("Enter")
    page.wait_for_url(url)
    assert tab.errors == []
