"""The look of the web pages in Chromium: captions, header, drop zone, image page, logo and colour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.outside.browser.tabs import NARROW, WIDE, OpenTab, running_for_pages
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import StorageState

pytestmark = pytest.mark.external

PHONE: dict[str, object] = {"viewport": NARROW, "has_touch": True, "is_mobile": True}
ACCENT = "#ffd400"
"""A yellow that has too little contrast on white unless it is darkened."""
ROW_ENDS = """() => {
  const { right } = document.querySelector("#grid").getBoundingClientRect();
  const boxes = [...document.querySelectorAll("#grid li")].map((item) => item.getBoundingClientRect());
  return boxes.filter((box, index) => boxes[index + 1]?.top > box.top + 1).map((box) => right - box.right);
}"""
"""How far each row but the last ends before the edge of the grid, in CSS pixels."""
CONTRAST = """(selector) => {
  const pixels = document.createElement("canvas").getContext("2d");
  const luminance = (color) => {
    pixels.fillStyle = color;
    pixels.fillRect(0, 0, 1, 1);
    const channels = [...pixels.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => value / 255);
    const [r, g, b] = channels.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const { color, backgroundColor } = getComputedStyle(document.querySelector(selector));
  const [low, high] = [luminance(color), luminance(backgroundColor)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a name, a logo and a colour, and an album of half of its images."""
    directory = tmp_path_factory.mktemp("look")
    (directory / "logo.png").write_bytes(make_image(56, 28))
    variables = {
        "IMAGEHOST_WEB_SITE_NAME": "Harbour " * 7,
        "IMAGEHOST_WEB_LOGO_FILE": str(directory / "logo.png"),
        "IMAGEHOST_WEB_ACCENT": ACCENT,
    }
    with running_for_pages(directory, **variables) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:
            client.post("/albums", json={"name": "Harbour"}).raise_for_status()
            for number in range(24):
                size = make_image(400 + 60 * (number % 5), 300 + 90 * (number % 3))
                data = {"description": f"Boat {number}", **({"album_id": "1"} if number % 2 else {})}
                files = {"image": (f"{number}.png", size)}
                client.post("/upload", files=files, data=data).raise_for_status()
        yield server


def test_an_image_has_a_caption_while_it_is_hovered_or_focused(open_tab: OpenTab, origin: str) -> None:
    page = open_tab(reduced_motion="reduce").page
    page.goto(origin)
    opacity = "caption => getComputedStyle(caption).opacity"
    first, second = (page.locator("#grid .caption").nth(index) for index in (0, 1))
    assert (first.inner_text(), first.evaluate(opacity)) == ("Boat 23", "0")
    page.locator("#grid a").first.hover()
    assert first.evaluate(opacity) == "1"
    page.locator("#grid a").nth(1).focus()
    assert second.evaluate(opacity) == "1"


def test_on_a_phone_the_header_is_one_row_and_rows_of_images_end_at_the_edge(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    for state in (None, session_cookies):
        page = open_tab(storage_state=state, java_script_enabled=state is None, **PHONE).page
        page.goto(origin)
        box = page.locator("header").bounding_box()
        assert box is not None
        assert box["height"] < 70
        assert all(abs(gap) <= 1 for gap in page.evaluate(ROW_ENDS))
    page.goto(f"{origin}/images")
    button, field = (page.locator(f".search {name}").bounding_box() for name in ("button", "input"))
    assert button is not None
    assert field is not None
    assert button["y"] == field["y"]


def test_the_menu_of_a_phone_opens_without_a_script(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    page = open_tab(storage_state=session_cookies, java_script_enabled=False, **PHONE).page
    page.goto(origin)
    link = page.get_by_role("link", name="Albums")
    assert not link.is_visible()
    page.get_by_role("button", name="Menu").tap()
    link.tap()
    page.wait_for_url(f"{origin}/albums")
    cover = page.locator(".cards a", has_text="Harbour")
    assert "12 images" in cover.inner_text()


def test_the_drop_zone_fills_the_page_until_there_are_files(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    page = open_tab(storage_state=session_cookies).page
    page.goto(f"{origin}/upload")
    page.wait_for_load_state("networkidle")
    zone = page.locator(".drop")
    box = zone.bounding_box()
    assert box is not None
    assert box["height"] > WIDE["height"] / 2
    with page.expect_file_chooser() as chooser:
        zone.click(position={"x": 9, "y": 9})
    chooser.value.set_files({"name": "a.png", "mimeType": "image/png", "buffer": make_image(90, 60)})
    page.locator(".uploads .done").wait_for()
    page.wait_for_function("() => document.querySelector('.uploads img').naturalWidth > 0")
    smaller = zone.bounding_box()
    assert smaller is not None
    assert smaller["height"] < box["height"] / 2


def test_files_that_are_dragged_over_any_page_are_announced(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    page = open_tab(storage_state=session_cookies).page
    page.goto(f"{origin}/albums")
    page.wait_for_load_state("networkidle")
    drag = """(kind) => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(["a"], "a.png", { type: "image/png" }));
      document.querySelector("main").dispatchEvent(new DragEvent(kind, { bubbles: true, dataTransfer }));
    }"""
    shown = "getComputedStyle(document.body, '::after').content"
    page.evaluate(drag, "dragenter")
    assert "Drop images" in page.evaluate(shown)
    page.evaluate(drag, "dragleave")
    assert page.evaluate(shown) == "none"


def test_the_image_uses_the_width_of_its_page_while_its_details_are_folded(
    open_tab: OpenTab, origin: str
) -> None:
    page = open_tab().page
    page.goto(origin)
    path = page.locator("#grid a").first.get_attribute("href")
    page.goto(f"{origin}{path}")
    width = "document.querySelector('.single figure').offsetWidth"
    unfolded = page.evaluate(width)
    page.locator(".panel summary").click()
    assert page.evaluate(width) > unfolded + 200
    assert page.locator(".crumbs a").get_attribute("href") == "/"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_logo_and_colour_are_those_of_the_operator_and_have_contrast(
    open_tab: OpenTab, origin: str, scheme: str
) -> None:
    tab = open_tab(color_scheme=scheme)
    tab.page.goto(origin)
    assert tab.page.evaluate("document.querySelector('.brand img').naturalWidth") == 56
    assert tab.page.evaluate(CONTRAST, ".button.account") >= 4.5
    default = {"light": "rgb(31, 95, 214)", "dark": "rgb(138, 180, 255)"}[scheme]
    color = "getComputedStyle(document.querySelector('.button.account')).backgroundColor"
    assert tab.page.evaluate(color) != default
    assert tab.errors == []
