"""The pixels that Chromium loads for the boxes of images, and how it shows tall and wide ones."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypedDict

import httpx2
import pytest
from PIL import Image
from tests.outside.browser.tabs import OpenTab, running_for_pages
from tests.waiting import PATIENCE

from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import Page, StorageState, ViewportSize

pytestmark = pytest.mark.external

SHAPES = {
    "portrait": (1_512, 2_016),
    "landscape": (2_016, 1_512),
    "tall": (1_080, 9_000),
    "wide": (5_000, 700),
}
WINDOWS: list[ViewportSize] = [
    {"width": 390, "height": 844},
    {"width": 1_300, "height": 900},
    {"width": 1_920, "height": 1_080},
]
LISTS = ("/", "/images", "/albums", "/albums/1", "/a/1")
TOLERANCE = 1.03
"""How much wider a box may be than the image that is loaded: `sizes` may not know of scroll bars."""
LOADED = "() => [...document.images].every((image) => image.complete)"
MEASURE = """(selector) => [...document.querySelectorAll(`${selector} img[srcset]`)].map((image) => {
  const url = (text) => new URL(text, location).href;
  const candidates = image.srcset.split(", ").map((candidate) => candidate.split(" "));
  const widths = candidates.map(([, width]) => parseInt(width));
  const chosen = candidates.findIndex(([candidate]) => url(candidate) === image.currentSrc);
  return { name: image.alt, shown: image.getBoundingClientRect().width, widths, chosen: widths[chosen] };
})"""
"""The width of each box in CSS pixels, the widths of its image's candidates, and that of the loaded one."""


class Box(TypedDict):
    """What `MEASURE` returns of an image."""

    name: str
    shown: float
    widths: list[int]
    chosen: int


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_for_pages(tmp_path_factory.mktemp("sizes")) as server:
        yield server


@pytest.fixture(scope="module")
def ids(server: RunningServer) -> dict[str, str]:
    """The ids of an image of each shape, in an album; the wide one is its cover."""
    headers, ids = {"Authorization": f"Bearer {server.token}"}, {}
    with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:
        client.post("/albums", json={"name": "Shapes"}).raise_for_status()
        for name, size in SHAPES.items():
            file = io.BytesIO()
            Image.linear_gradient("L").resize(size).save(file, "JPEG")
            data = {"album_id": "1", "description": name}
            stored = client.post("/upload", files={"image": (f"{name}.jpg", file.getvalue())}, data=data)
            ids[name] = str(stored.raise_for_status().json()["data"]["id"])
    return ids


def find_wrong(page: Page, place: str, selector: str = "main") -> list[str]:
    """Return the images whose loaded variant is not the smallest one that is as wide as its box."""
    page.wait_for_function(LOADED)
    boxes: list[Box] = page.evaluate(MEASURE, selector)
    assert boxes, place
    wrong = []
    for box in boxes:
        wide = [width for width in box["widths"] if width * TOLERANCE >= box["shown"]]
        if box["chosen"] != min(wide, default=max(box["widths"])):
            wrong.append(f"{place}: {box}")
    return wrong


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: str(window["width"]))
def test_every_box_loads_about_the_pixels_that_it_shows(
    open_tab: OpenTab,
    origin: str,
    ids: dict[str, str],
    session_cookies: StorageState,
    window: ViewportSize,
) -> None:
    page = open_tab(storage_state=session_cookies, viewport=window, reduced_motion="reduce").page
    wrong = []
    for path in (*LISTS, *(f"/{kind}/{image_id}" for kind in ("i", "images") for image_id in ids.values())):
        page.goto(origin + path)
        wrong += find_wrong(page, path)
    # Chromium prefers a larger variant that it has loaded before.
    page = open_tab(viewport=window, reduced_motion="reduce").page
    for name, image_id in ids.items():
        page.goto(f"{origin}/#{image_id}")
        page.locator("dialog [data-state='']").wait_for()
        page.wait_for_function("() => document.querySelector('dialog img').complete")
        # The file itself, where no variant is as wide.
        if page.locator("dialog img").get_attribute("srcset"):
            wrong += find_wrong(page, f"lightbox of {name}", "dialog")
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: str(window["width"]))
def test_rows_are_as_high_as_their_images_and_no_image_is_cut_but_a_tall_or_wide_one(
    open_tab: OpenTab, origin: str, ids: dict[str, str], window: ViewportSize
) -> None:
    page = open_tab(viewport=window).page
    page.goto(origin)
    boxes = page.eval_on_selector_all(
        "#grid li",
        """items => items.map((item) =>
          [item.querySelector("img").alt, item.offsetTop, item.offsetWidth, item.offsetHeight])""",
    )
    heights: dict[int, set[int]] = {}
    for name, top, width, height in boxes:
        heights.setdefault(top, set()).add(height)
        if name in ("portrait", "landscape"):
            ratio = SHAPES[name][0] / SHAPES[name][1]
            assert width / height == pytest.approx(ratio, rel=0.03), name
    assert all(max(row) - min(row) <= 1 for row in heights.values()), heights


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: str(window["width"]))
@pytest.mark.parametrize(("name", "axis"), [("tall", "Y"), ("wide", "X")])
def test_a_tall_or_wide_image_is_shown_at_a_readable_size_and_scrolls(
    open_tab: OpenTab, origin: str, ids: dict[str, str], window: ViewportSize, name: str, axis: str
) -> None:
    tab = open_tab(viewport=window, reduced_motion="reduce")
    page, side = tab.page, "width" if axis == "Y" else "height"
    page.goto(f"{origin}/i/{ids[name]}")
    box = page.locator(".picture")
    readable = 0.6 * min(SHAPES[name]["XY".index("X" if axis == "Y" else "Y")], window[side] - 160)  # type: ignore[literal-required]
    shown = page.locator(".large").bounding_box()
    assert shown is not None
    assert shown[side] >= readable  # type: ignore[literal-required]
    box.focus()
    page.keyboard.press("ArrowDown" if axis == "Y" else "ArrowRight")
    page.wait_for_function(
        f"() => document.querySelector('.picture').scroll{'Top' if axis == 'Y' else 'Left'} > 0"
    )
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(f"{origin}/#{ids[name]}")
    image = page.locator("dialog img")
    image.wait_for()
    start, stage = image.bounding_box(), page.locator("dialog .stage").bounding_box()
    assert start is not None
    assert stage is not None
    assert start[side] >= readable  # type: ignore[literal-required]
    at = "y" if axis == "Y" else "x"
    # It begins at the beginning, and the wheel and a key move it.
    assert start[at] == pytest.approx(stage[at], abs=1)  # type: ignore[literal-required]
    page.mouse.move(window["width"] / 2, window["height"] / 2)
    page.mouse.wheel(0, 200)
    wheeled = image.bounding_box()
    assert wheeled is not None
    assert wheeled[at] == pytest.approx(start[at] - 200, abs=1)  # type: ignore[literal-required]
    assert wheeled["width"] == start["width"]
    page.keyboard.press("PageDown" if axis == "Y" else "ArrowRight")
    moved = image.bounding_box()
    assert moved is not None
    assert moved[at] < wheeled[at]  # type: ignore[literal-required]
    # The other arrow keys still lead to the neighbours.
    before = page.locator("dialog .title").inner_text()
    page.keyboard.press("0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.locator("dialog .title").inner_text() != before or name == "wide"
    assert tab.errors == []
