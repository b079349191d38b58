"""The lightbox in Chromium: its URL, Back, zoom, swipes, details and links, and the neighbours of pages."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest
from PIL import Image, ImageStat
from tests.outside.browser.tabs import OpenTab, running_for_pages
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Page, Route, StorageState

pytestmark = pytest.mark.external

COUNT = 5
OPTIONS: dict[str, object] = {"reduced_motion": "reduce"}
TRANSFORM = "document.querySelector('dialog img').style.transform"
STAGE = "dialog .stage"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_for_pages(tmp_path_factory.mktemp("lightbox")) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:
            for number in range(COUNT):
                files = {"image": (f"{number}.png", make_image(2_400, 1_800 + number))}
                data = {"description": f"Boat {number}"}
                client.post("/upload", files=files, data=data).raise_for_status()
        yield server


@pytest.fixture
def page(open_tab: OpenTab, origin: str) -> Page:
    """The gallery with the lightbox open at the second image."""
    page: Page = open_tab(permissions=["clipboard-read", "clipboard-write"], **OPTIONS).page
    page.goto(origin)
    page.locator("#grid a").nth(1).click()
    page.locator("dialog.lightbox").wait_for()
    return page


def title(page: Page) -> str:
    return page.locator("dialog .title").inner_text()


def swipe(page: Page, x: int, y: int) -> None:
    """Drag on the image by a distance in CSS pixels."""
    box = page.locator(STAGE).bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(middle[0] + x, middle[1] + y, steps=4)
    page.mouse.up()


def test_the_heading_of_a_month_between_two_images_is_passed(page: Page) -> None:
    page.evaluate(
        "() => document.querySelectorAll('#grid li').forEach((item) => "
        "item.before(Object.assign(document.createElement('li'), {className: 'month'})))"
    )
    before = title(page)
    page.keyboard.press("ArrowRight")
    assert title(page) != before
    page.keyboard.press("ArrowLeft")
    assert title(page) == before


def test_the_url_names_the_image_and_back_closes_the_lightbox(page: Page, origin: str) -> None:
    paths = page.eval_on_selector_all("#grid a", "links => links.map((link) => link.href)")
    ids = [path.rpartition("/")[2] for path in paths]
    assert page.url == f"{origin}/#{ids[1]}"
    page.keyboard.press("ArrowRight")
    assert page.url == f"{origin}/#{ids[2]}"
    page.go_back()
    page.locator("dialog.lightbox").wait_for(state="hidden")
    assert page.url == f"{origin}/"
    # The browser first restores the focus from before the dialog.
    page.wait_for_function("path => document.activeElement.href === path", arg=paths[2])
    page.go_forward()
    page.locator("dialog.lightbox").wait_for()
    assert title(page) == "Boat 2"
    page.keyboard.press("Escape")
    page.wait_for_url(f"{origin}/")


def test_an_image_is_zoomed_to_its_file_in_full_size_and_panned(page: Page) -> None:
    image = page.locator("dialog img")
    assert page.evaluate(TRANSFORM) == ""
    image.click()
    assert "scale(" in page.evaluate(TRANSFORM)
    page.wait_for_function("() => document.querySelector('dialog img').naturalWidth === 2400")
    assert page.evaluate(
        "document.querySelector('dialog img').getBoundingClientRect().width"
    ) == pytest.approx(2_400, abs=2)
    before = page.evaluate(TRANSFORM)
    swipe(page, -200, -100)
    dragged = page.evaluate(TRANSFORM)
    assert dragged != before
    page.keyboard.press("ArrowRight")
    assert page.evaluate(TRANSFORM) != dragged
    assert title(page) == "Boat 3"
    # No further than to the edge of the image.
    for _ in range(9):
        swipe(page, 600, 400)
    box = page.locator("dialog img").bounding_box()
    stage = page.locator(STAGE).bounding_box()
    assert box is not None
    assert stage is not None
    assert box["x"] <= stage["x"] + 1
    page.keyboard.press("0")
    assert page.evaluate(TRANSFORM) == ""
    page.get_by_role("button", name="Full size").click()
    assert "scale(" in page.evaluate(TRANSFORM)


def test_a_swipe_leads_to_the_next_image_and_one_down_closes(page: Page) -> None:
    swipe(page, -150, 10)
    assert title(page) == "Boat 2"
    swipe(page, 150, 10)
    assert title(page) == "Boat 3"
    swipe(page, 10, 150)
    page.locator("dialog.lightbox").wait_for(state="hidden")


def test_the_neighbours_are_loaded_before_they_are_shown(open_tab: OpenTab, origin: str) -> None:
    tab = open_tab(**OPTIONS)
    tab.page.goto(origin)
    tab.page.locator("#grid a").nth(1).click()
    # The image and its two neighbours have been received.
    tab.page.wait_for_function(
        "() => performance.getEntriesByType('resource')"
        ".filter(({name}) => /w=(1280|1920)/.test(name)).length > 2"
    )
    tab.requests.clear()
    tab.page.keyboard.press("ArrowRight")
    tab.page.wait_for_function("() => document.querySelector('dialog img').complete")
    shown = tab.page.evaluate("document.querySelector('dialog img').currentSrc")
    assert "w=1280" in shown or "w=1920" in shown
    assert shown not in tab.requests
    assert tab.errors == []


def held(page: Page, pattern: str) -> list[Route]:
    """Hold requests back; return those that are held, to which more are added."""
    routes: list[Route] = []
    page.route(re.compile(pattern), lambda route: routes.append(route))
    return routes


@pytest.mark.parametrize("has_tile", [True, False], ids=["tile", "thumbhash"])
def test_the_tile_or_the_thumbhash_stands_in_for_an_image_that_is_being_loaded(
    open_tab: OpenTab, origin: str, has_tile: bool
) -> None:
    page = open_tab(**OPTIONS).page
    routes = held(page, r"w=(1280|1920)" if has_tile else "/img/")
    page.goto(origin, wait_until="domcontentloaded")
    if has_tile:
        page.wait_for_function("() => document.querySelectorAll('#grid img')[1].complete")
    page.locator("#grid a").nth(1).click()
    page.locator("[data-state=loading]").wait_for()
    assert page.locator("dialog .said").inner_text() == "Loading the image"
    before = brightness(page)
    assert before > 20
    for route in routes:
        route.continue_()
    page.locator("[data-state='']").wait_for()
    assert page.evaluate("document.querySelector('dialog img').style.backgroundImage") == ""
    assert abs(brightness(page) - before) < 40
    assert page.locator("dialog .said").inner_text() == ""


def brightness(page: Page) -> float:
    """Return the mean brightness of what the stage shows, 0 to 255, left of the sign in its middle."""
    box = page.locator(STAGE).bounding_box()
    assert box is not None
    clip: FloatRect = {"x": box["width"] / 3, "y": box["y"] + box["height"] / 2, "width": 40, "height": 40}
    file = io.BytesIO(page.screenshot(clip=clip))
    return float(ImageStat.Stat(Image.open(file).convert("L")).mean[0])


def test_the_lightbox_never_shows_an_image_under_the_name_of_another(page: Page) -> None:
    routes = held(page, r"/img/.*w=(1280|1920)")
    page.keyboard.press("ArrowRight")
    page.locator("dialog .title", has_text="Boat 2").wait_for()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    source = page.evaluate("document.querySelector('dialog img').style.backgroundImage")
    anchor = page.locator("#grid a").nth(4)
    assert str(anchor.get_attribute("href")).rpartition("/")[2] in source
    assert page.locator("dialog .stage img").count() == 1
    assert routes


def test_an_image_that_cannot_be_loaded_says_so_and_is_loaded_when_the_network_is_back(
    open_tab: OpenTab, origin: str
) -> None:
    page = open_tab(**OPTIONS).page
    page.goto(origin, wait_until="networkidle")
    page.context.set_offline(True)
    page.locator("#grid a").nth(1).click()
    page.locator("dialog .said", has_text="could not be loaded").wait_for()
    assert brightness(page) > 20
    page.context.set_offline(False)
    page.locator("[data-state='']").wait_for()
    page.wait_for_function("() => document.querySelector('dialog img').naturalWidth >= 640")


def test_details_download_and_link_are_those_of_the_image(page: Page, origin: str) -> None:
    page.get_by_role("button", name="Details").click()
    page.locator("dialog .info dd").first.wait_for()
    assert "2400 × 1803" in page.locator("dialog .info").inner_text()
    page.keyboard.press("ArrowRight")
    page.locator("dialog .info", has_text="2400 × 1802").wait_for()
    page.get_by_role("button", name="Copy link").click()
    page.locator("dialog .said", has_text="Link copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url.replace("/#", "/i/")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename.endswith(".webp")


def test_the_page_of_an_image_leads_to_the_neighbours_of_its_list(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    for path, state in ("/", None), ("/images?sort=filename&view=list", session_cookies):
        page = open_tab(storage_state=state).page
        page.goto(origin + path)
        links = page.eval_on_selector_all(
            "#grid li a, #grid td:first-child a", "links => links.map((link) => link.href)"
        )
        page.goto(links[1])
        page.get_by_role("link", name="Next image").click()
        page.wait_for_url(links[2])
        page.get_by_role("link", name="Previous image").wait_for()
        page.keyboard.press("ArrowLeft")
        page.wait_for_url(links[1])
