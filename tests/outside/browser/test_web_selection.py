"""Selecting, moving, publishing and deleting many images in Chromium: in the library and in albums."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING

import httpx2
import pytest
from PIL import Image
from tests.outside.browser.tabs import OpenTab, Watched, running_for_pages
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import Page, StorageState

pytestmark = pytest.mark.external

COUNT = 12
SELECTED = "#grid .selected"
UNDO = "[data-action=undo]"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_for_pages(tmp_path_factory.mktemp("selection")) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:
        yield client


@pytest.fixture
def album(client: httpx2.Client) -> int:
    """An album of its own with 12 images."""
    created = client.post("/albums", json={"name": "Boats"}).raise_for_status().json()
    album_id = int(created["data"]["id"])
    files = [("files[]", (f"{n}.png", make_image(300, 200 + n))) for n in range(COUNT)]
    client.post("/upload", files=files, data={"album_id": str(album_id)}).raise_for_status()
    return album_id


@pytest.fixture
def tab(open_tab: OpenTab, origin: str, album: int, session_cookies: StorageState) -> Watched:
    """The page of the album."""
    tab: Watched = open_tab(storage_state=session_cookies)
    tab.page.goto(f"{origin}/albums/{album}")
    tab.page.locator("#grid input").nth(COUNT - 1).wait_for()
    return tab


def test_images_that_leave_a_private_album_become_private_and_the_page_says_so(
    tab: Watched, client: httpx2.Client, origin: str, album: int
) -> None:
    page = tab.page
    client.patch(f"/albums/{album}", json={"is_public": False}).raise_for_status()
    page.reload()
    for number in (0, 1):
        page.locator("#grid input").nth(number).click()
    page.select_option(".selection [data-choice=album]", "")
    page.click(".selection [data-action=album]")
    page.locator("#outcome", has_text="2 images became private, as their album was").wait_for()
    record = client.get(f"/albums/{album}").json()["data"]
    assert (record["image_count"], record["public_image_count"]) == (COUNT - 2, COUNT - 2)
    page.goto(f"{origin}/albums/{album}")
    assert "10 of its images are public" in page.locator("main").inner_text()
    page.get_by_text("Delete this album…").click()
    assert page.get_by_label("Keep them: the 10 public ones become private").is_checked()
    page.click("form[action$='/delete'] button")
    page.get_by_role("status").filter(has_text="Deleted.").wait_for()
    images = client.get("/images?per_page=100&is_public=true").json()["data"]["images"]
    assert images == []


def test_badges_of_a_small_image_leave_its_checkbox_visible(
    open_tab: OpenTab, origin: str, client: httpx2.Client, album: int, session_cookies: StorageState
) -> None:
    file, frames = BytesIO(), [Image.new("L", (64, 64), level) for level in (0, 255)]
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    data = {"album_id": str(album), "is_public": "false"}
    client.post("/upload", files={"image": file.getvalue()}, data=data).raise_for_status()
    page = open_tab(storage_state=session_cookies).page
    page.goto(f"{origin}/albums/{album}")
    page.locator(".small input").wait_for()
    boxes = page.locator(".small input, .small .badge").evaluate_all(
        "(all) => all.map((each) => each.getBoundingClientRect()).map(({top, bottom}) => [top, bottom])"
    )
    assert len(boxes) == 3
    rows = sorted(boxes)
    assert all(above[1] <= below[0] for above, below in pairwise(rows)), rows


def middle(page: Page, index: int) -> tuple[float, float]:
    """Return the middle of an image of the grid."""
    box = page.locator("#grid li").nth(index).bounding_box()
    assert box is not None
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def count_in(client: httpx2.Client, album: int) -> int:
    return int(client.get(f"/albums/{album}").raise_for_status().json()["data"]["image_count"])


def test_images_are_selected_by_shift_and_by_dragging_and_a_click_opens_the_others(tab: Watched) -> None:
    page = tab.page
    page.locator("#grid li a").nth(3).click()
    page.locator("dialog.lightbox").wait_for()
    page.keyboard.press("Escape")
    page.locator("#grid input").nth(0).click()
    page.locator("#grid input").nth(2).click(modifiers=["Shift"])
    assert page.locator(SELECTED).count() == 3
    # While some are selected, a click selects another.
    page.locator("#grid li a").nth(4).click(position={"x": 60, "y": 60})
    assert page.locator(SELECTED).count() == 4
    page.click("text=Select none")
    page.mouse.move(*middle(page, 1))
    page.mouse.down()
    page.mouse.move(*middle(page, 5), steps=8)
    assert page.locator(SELECTED).count() == 5
    page.mouse.move(*middle(page, 3), steps=8)
    page.mouse.up()
    assert page.locator(SELECTED).count() == 3
    assert not page.locator("dialog.lightbox").is_visible()
    assert tab.errors == []


def test_images_of_an_album_are_published_and_moved(tab: Watched, client: httpx2.Client, album: int) -> None:
    page = tab.page
    page.locator("#grid input").nth(0).click()
    page.click("text=Make private")
    page.locator("#outcome", has_text="Done").wait_for()
    assert page.locator("#grid li[data-private] .badge").inner_text() == "private"
    page.locator("#grid input").nth(1).click()
    page.select_option("[data-choice=album]", "")
    page.click("[data-action=album]")
    page.wait_for_function(f"() => document.querySelectorAll('#grid li').length === {COUNT - 2}")
    assert count_in(client, album) == COUNT - 2


@pytest.mark.parametrize(("shown", "left"), [("", COUNT), ("true", COUNT - 1), ("false", 0)])
def test_an_image_that_becomes_private_leaves_a_list_only_if_its_filter_says_so(
    tab: Watched, origin: str, album: int, shown: str, left: int
) -> None:
    page = tab.page
    # The form of the filters sends empty ones too.
    page.goto(f"{origin}/images?q=&is_public={shown}&album_id={album}")
    if left:
        page.locator("#grid input").nth(0).click()
        page.click("text=Make private")
        page.locator("#outcome", has_text="Done").wait_for()
    assert page.locator("#grid li[data-id]").count() == left


def test_a_deletion_is_undone_or_sent_after_some_seconds(
    tab: Watched, client: httpx2.Client, album: int
) -> None:
    page = tab.page
    page.clock.install()
    page.reload()
    for is_undone in (True, False):
        page.locator("#grid input").nth(0).click()
        page.locator("#grid input").nth(1).click()
        page.click("[data-action=delete]")
        page.locator(".undo", has_text="2 images deleted").wait_for()
        assert page.locator("#grid li:visible").count() == COUNT - 2
        page.clock.run_for(5_000)
        assert count_in(client, album) == COUNT
        if is_undone:
            # It has the focus.
            page.keyboard.press("Enter")
            page.clock.run_for(60_000)
            assert page.locator("#grid li:visible").count() == COUNT
            assert count_in(client, album) == COUNT
    page.clock.run_for(5_000)
    page.locator("#outcome", has_text="Done").wait_for()
    assert page.locator("#grid li").count() == count_in(client, album) == COUNT - 2
    assert page.inner_text("#total") == f"{COUNT - 2} images"


def test_a_deletion_is_sent_when_the_page_is_left(
    tab: Watched, client: httpx2.Client, album: int, origin: str
) -> None:
    page = tab.page
    page.locator("#grid input").nth(0).click()
    image_id = page.locator(SELECTED).get_attribute("data-id")
    page.click("[data-action=delete]")
    page.locator(UNDO).wait_for()
    page.goto(f"{origin}/login")
    while count_in(client, album) == COUNT:
        page.evaluate("0")
    assert httpx2.get(f"{origin}/img/{image_id}").status_code == 404


def test_images_that_could_not_be_deleted_are_shown_again(
    tab: Watched, client: httpx2.Client, album: int
) -> None:
    page = tab.page
    page.clock.install()
    page.reload()
    page.locator("#grid input").nth(0).click()
    page.click("[data-action=delete]")
    page.context.set_offline(True)
    page.clock.run_for(9_000)
    page.locator("#outcome", has_text="could not be reached").wait_for()
    assert page.locator("#grid li:visible").count() == COUNT
    page.context.set_offline(False)
    assert count_in(client, album) == COUNT
