"""Web pages and their dialogs in Chromium without a mouse: elements are reached in order and visibly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.outside.browser.tabs import (
    ACCOUNT_PAGES,
    NARROW,
    PAGES,
    PUT_FILES,
    WIDE,
    OpenTab,
    running_for_pages,
    sign_in,
)
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import Page, StorageState

pytestmark = pytest.mark.external

LIGHT: dict[str, object] = {"viewport": WIDE, "color_scheme": "light", "locale": "en"}
DARK: dict[str, object] = {"viewport": NARROW, "color_scheme": "dark", "locale": "de"}

NUMBER_STOPS = """() => {
  const selector = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const groups = new Set();
  document.querySelectorAll("[data-stop]").forEach((stop) => delete stop.dataset.stop);
  const root = document.querySelector(":modal") ?? document;
  const stops = [...root.querySelectorAll(selector)].filter((stop) => {
    const isShown = stop.checkVisibility({ visibilityProperty: true });
    if (stop.disabled || stop.tabIndex < 0 || stop.closest("[inert]") || !isShown) return false;
    if (stop.type !== "radio") return true;
    // The keyboard reaches one of a group, and the arrow keys the others.
    const isFirst = !groups.has(stop.name);
    groups.add(stop.name);
    return isFirst;
  });
  stops.forEach((stop, index) => { stop.dataset.stop = index; });
  return stops.map((stop) => stop.outerHTML.slice(0, 120));
}"""
"""Numbers the elements that the keyboard should reach, in the order of the document, and describes them.

Those outside a modal dialog are not among them: the dialog makes them inert.
"""
READ_FOCUS = """() => {
  const focused = document.activeElement;
  if (focused === document.body) return null;
  const style = getComputedStyle(focused);
  const { top, bottom, left, right } = focused.getBoundingClientRect();
  const middle = (low, high, size) => (Math.max(low, 0) + Math.min(high, size)) / 2;
  const [x, y] = [middle(left, right, innerWidth), middle(top, bottom, innerHeight)];
  const topmost = document.elementFromPoint(x, y);
  const group = focused.type === "radio" && document.querySelector(`[name="${focused.name}"][data-stop]`);
  return {
    stop: Number((group || focused).dataset.stop ?? -1),
    html: focused.outerHTML.slice(0, 120),
    isMarked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
    isInView: focused.contains(topmost) || topmost?.contains(focused),
  };
}"""
"""Describes the focused element; null for none. It is not in view if another element covers its middle."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with an album of images that fill more than a screen, and a webhook."""
    with running_for_pages(tmp_path_factory.mktemp("keyboard")) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:
            album = client.post("/albums", json={"name": "Holidays"}).raise_for_status().json()["data"]["id"]
            assert album == 1
            files = [("files[]", (f"{n}.png", make_image(300 + n, 200))) for n in range(16)]
            client.post("/upload", files=files, data={"album_id": str(album)}).raise_for_status()
            client.post("/webhooks", json={"url": "https://example.com/", "events": ["image.uploaded"]})
        yield server


@pytest.fixture(scope="module")
def image_id(server: RunningServer) -> str:
    response = httpx2.get(f"{server.base_url}/gallery").raise_for_status()
    return str(response.json()["data"]["images"][0]["id"])


@pytest.mark.parametrize("options", [LIGHT, DARK], ids=["wide-light", "narrow-dark-de"])
def test_every_element_of_every_page_is_reached_by_the_keyboard_in_order_and_visibly(
    open_tab: OpenTab, origin: str, image_id: str, options: dict[str, object]
) -> None:
    page = open_tab(**options).page
    wrong: list[str] = []
    for index, path in enumerate((*PAGES, *ACCOUNT_PAGES)):
        if index == len(PAGES):
            sign_in(page, origin)
        page.goto(origin + path.format(id=image_id))
        page.wait_for_load_state("networkidle")
        wrong += [f"{path}: {text}" for text in walk(page)]
        if path.startswith("/images") and page.locator("#grid [data-id] input").count():
            page.locator("#grid [data-id] input").first.check()
            wrong += [f"selection on {path}: {text}" for text in walk(page)]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("options", [LIGHT, DARK], ids=["wide-light", "narrow-dark-de"])
def test_every_element_of_open_dialogs_is_reached_and_escape_returns_to_the_page(
    open_tab: OpenTab, origin: str, options: dict[str, object]
) -> None:
    page, wrong = open_tab(**options).page, []
    page.goto(origin)
    page.focus("#grid li:nth-child(2) a")
    page.keyboard.press("Enter")
    wrong += [f"lightbox: {text}" for text in walk_dialog(page)]
    assert page.evaluate("document.activeElement === document.querySelector('#grid li:nth-child(2) a')")
    # Closing the lightbox goes back in the history, which would abort a navigation that begins meanwhile.
    page.wait_for_url(f"{origin}/")
    sign_in(page, origin, "/albums/1")
    page.evaluate(PUT_FILES, ["main", "drop", [["a.png", "image/png", list(make_image(31, 20))]]])
    page.locator("dialog .uploads .done").wait_for()
    wrong += [f"uploads: {text}" for text in walk_dialog(page)]
    assert wrong == [], "\n".join(wrong)


def walk_dialog(page: Page) -> list[str]:
    """Walk through the open modal dialog, and close it by Escape; return what is wrong."""
    wrong = walk(page)
    page.keyboard.press("Escape")
    if page.evaluate("document.querySelector(':modal') !== null"):
        wrong.append("expected Escape to close the dialog but it is open")
    return wrong


def walk(page: Page) -> list[str]:
    """Press Tab once for each element of a page or its dialog, and then Shift+Tab; return what is wrong."""
    # A page for signing in begins with the focus in its form, and a dialog with it on an element.
    page.evaluate("""() => {
      const root = document.querySelector(":modal") ?? document.body;
      root.tabIndex = -1;
      root.focus();
    }""")
    expected, reached, wrong = page.evaluate(NUMBER_STOPS), [], []
    assert len(expected) > 1
    for key in [*["Tab"] * len(expected), "Shift+Tab"]:
        page.keyboard.press(key)
        focus = page.evaluate(READ_FOCUS)
        reached.append(focus and focus["stop"])
        if focus and not (focus["isMarked"] and focus["isInView"]):
            wrong.append(f"expected a visible focus but received {focus}")
    order = [*range(len(expected)), len(expected) - 2]
    if reached != order:
        missing = [expected[stop] for stop in order if stop not in reached]
        wrong.append(f"expected all elements in order but received {reached}; missing: {missing}")
    return wrong


def shown_by(page: Page) -> str:
    """Return the path of the image that has the focus."""
    return str(page.evaluate("document.activeElement.pathname"))


def below_the_first(page: Page) -> float:
    """Return how far the focus is below the first image, in CSS pixels."""
    top = "getBoundingClientRect().top"
    return float(page.evaluate(f"document.activeElement.{top} - document.querySelector('#grid a').{top}"))


@pytest.mark.parametrize(
    ("path", "item"), [("/albums/1", "li"), ("/images?view=list", "tbody tr"), ("/", "li")]
)
def test_a_list_is_one_tab_stop_in_which_the_arrow_keys_move(
    open_tab: OpenTab, origin: str, session_cookies: StorageState, path: str, item: str
) -> None:
    page = open_tab(storage_state=session_cookies, **LIGHT).page
    page.goto(origin + path)
    links = page.locator(f"#grid {item} a:first-of-type")
    page.wait_for_function("() => document.querySelector('#grid a[tabindex]')")
    paths = links.evaluate_all("(all) => [...new Set(all.map((each) => each.pathname))]")
    assert page.locator("#grid [tabindex='0'], #grid :not([tabindex]):is(a, input)").count() == 1
    links.first.focus()
    for key, index in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", -1), ("Home", 0)):
        page.keyboard.press(key)
        assert shown_by(page) == paths[index], key
    page.keyboard.press("ArrowDown")
    assert below_the_first(page) > 0
    # Rows have images of other widths, so the nearest one above need not be the first.
    page.keyboard.press("ArrowUp")
    assert below_the_first(page) == 0
    page.keyboard.press("Home")
    assert shown_by(page) == paths[0]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#grid')") is None
    page.keyboard.press("Shift+Tab")
    assert shown_by(page) == paths[0]


@pytest.mark.parametrize("language", ["en", "de"])
def test_images_are_selected_opened_and_deleted_by_the_keyboard_which_is_announced(
    open_tab: OpenTab, origin: str, session_cookies: StorageState, language: str
) -> None:
    page = open_tab(storage_state=session_cookies, viewport=WIDE, locale=language).page
    page.goto(f"{origin}/albums/1")
    page.locator("#grid input").first.wait_for()
    selected, announced = page.locator("#grid .selected"), page.locator("#announced")
    count = page.locator("#grid li").count()
    page.locator("#grid a").first.focus()
    page.keyboard.press(" ")
    assert selected.count() == 1
    name = page.locator("#grid img").first.get_attribute("alt")
    word = "ausgewählt" if language == "de" else "selected"
    assert announced.inner_text() == f"{name}: {word}. 1 {word}"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ ")
    assert selected.count() == 3
    page.keyboard.press("Escape")
    assert selected.count() == 0
    page.keyboard.press("Control+a")
    assert selected.count() == count
    assert str(count) in announced.inner_text()
    # The bar of actions comes before the list.
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.dataset.action") == "delete"
    page.keyboard.press("Tab")
    page.keyboard.press("Delete")
    page.locator("#grid li:visible").first.wait_for(state="hidden")
    page.keyboard.press("Enter")
    assert page.locator("#grid li:visible").count() == count
    # The first of the images that are back has the focus.
    assert shown_by(page) == page.evaluate("document.querySelector('#grid a').pathname")
    page.keyboard.press("i")
    page.locator("dialog.lightbox .info dl").first.wait_for()
    page.keyboard.press("i")
    assert not page.locator("dialog.lightbox .info").is_visible()
    page.keyboard.press("Escape")
    assert shown_by(page) == page.evaluate("document.querySelector('#grid a').pathname")
