"""The web pages in Chromium without a mouse: every element is reached in order, visibly, and left again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.outside.browser.tabs import (
    ACCOUNT_PAGES,
    LIMITS,
    NARROW,
    PAGES,
    PASSWORD,
    PATIENT,
    WIDE,
    OpenTab,
    sign_in,
)

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.external

NUMBER_STOPS = """() => {
  const selector = "a[href], button, input, select, textarea, summary, [tabindex='0']";
  const groups = new Set();
  const stops = [...document.querySelectorAll(selector)].filter((stop) => {
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
"""Numbers the elements that the keyboard should reach, in the order of the document, and describes them."""
READ_FOCUS = """() => {
  const focused = document.activeElement;
  if (focused === document.body) return null;
  const style = getComputedStyle(focused);
  const { top, bottom, left, right } = focused.getBoundingClientRect();
  const group = focused.type === "radio" && document.querySelector(`[name="${focused.name}"][data-stop]`);
  return {
    stop: Number((group || focused).dataset.stop ?? -1),
    html: focused.outerHTML.slice(0, 120),
    isMarked: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
    isInView: bottom > 0 && top < innerHeight && right > 0 && left < innerWidth,
  };
}"""
"""Describes the focused element; null for none."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with three images, an album, a key and a webhook."""
    directory = tmp_path_factory.mktemp("keyboard")
    (directory / "password").write_text(PASSWORD, encoding="utf-8")
    variables = {**LIMITS, **PATIENT, "IMAGEHOST_ADMIN_PASSWORD_FILE": str(directory / "password")}
    with running(directory / "data", variables=variables) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.base_url, headers=headers, timeout=180) as client:
            album = client.post("/albums", json={"name": "Holidays"}).raise_for_status().json()["data"]["id"]
            assert album == 1
            files = [("files[]", (f"{n}.png", make_image(300 + n, 200))) for n in range(3)]
            client.post("/upload", files=files, data={"album_id": str(album)}).raise_for_status()
            client.post("/webhooks", json={"url": "https://example.com/", "events": ["image.uploaded"]})
        yield server


@pytest.fixture(scope="module")
def origin(server: RunningServer) -> str:
    return server.base_url.removesuffix("/v1")


@pytest.fixture(scope="module")
def image_id(server: RunningServer) -> str:
    response = httpx2.get(f"{server.base_url}/gallery").raise_for_status()
    return str(response.json()["data"]["images"][0]["id"])


@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_every_element_of_every_page_is_reached_by_the_keyboard_in_order_and_visibly(
    open_tab: OpenTab, origin: str, image_id: str, viewport: dict[str, int]
) -> None:
    page = open_tab(viewport=viewport).page
    wrong: list[str] = []
    for index, path in enumerate((*PAGES, *ACCOUNT_PAGES)):
        if index == len(PAGES):
            sign_in(page, origin)
        page.goto(origin + path.format(id=image_id))
        page.wait_for_load_state("networkidle")
        wrong += [f"{path}: {text}" for text in walk(page)]
    assert wrong == [], "\n".join(wrong)


def walk(page: Page) -> list[str]:
    """Press Tab once for each element of a page, and then Shift+Tab; return what is wrong."""
    # A page for signing in begins with the focus in its form.
    page.evaluate("document.body.tabIndex = -1; document.body.focus()")
    expected, reached, wrong = page.evaluate(NUMBER_STOPS), [], []
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
