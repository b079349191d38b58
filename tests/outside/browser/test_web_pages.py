"""The web pages in Chromium: accessible, without errors or foreign requests, and their whole story."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.animations import make_animation
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
from tests.outside.packages import install_npm
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import Page, Response, StorageState, ViewportSize

pytestmark = pytest.mark.external

AXE = {"axe-core": "4.14.1"}
FIND_VIOLATIONS = """async () => {
  const rules = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"];
  const { violations } = await axe.run(document, { runOnly: rules, resultTypes: ["violations"] });
  return violations.map(({ id, nodes }) => [id, nodes.slice(0, 3).map(({ html }) => html.slice(0, 200))]);
}"""
"""Runs axe-core, whose whole result would take seconds to transfer."""
SHOWS_STILL = """([selector, isStill]) => {
  const { complete, currentSrc } = document.querySelector(selector);
  return complete && currentSrc !== "" && currentSrc.includes(".jpg") === isStill;
}"""
"""Whether an image shows the first frame of an animation, a JPEG; `currentSrc` changes when it is loaded."""
REFLOWED: ViewportSize = {"width": 320, "height": 640}
"""The least width at which a page must not scroll in two directions (WCAG 2.2, 1.4.10)."""
MAX_HTML, MAX_SCRIPTS = 30_000, 40_000
"""Bytes of a page's HTML, and of its scripts as they are sent (compressed)."""
OBSERVE_SHIFTS = (
    "window.shift = 0; new PerformanceObserver((list) => { for (const e of list.getEntries())"
    " window.shift += e.value; }).observe({type: 'layout-shift', buffered: true});"
)
MAX_LAYOUT_SHIFT = 0.02


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_for_pages(tmp_path_factory.mktemp("pages")) as server:
        yield server


@pytest.fixture(scope="module")
def gallery(server: RunningServer) -> list[str]:
    """The ids of 60 public images, the newest first, and two albums."""
    with httpx2.Client(
        base_url=server.base_url, headers={"Authorization": f"Bearer {server.token}"}, timeout=PATIENCE
    ) as client:
        ids: list[str] = []
        for first in range(0, 60, 20):
            files = [
                ("files[]", (f"{n}.png", make_image(300 + 40 * (n % 7), 200 + 30 * (n % 5))))
                for n in range(first, first + 20)
            ]
            stored = client.post("/upload", files=files).raise_for_status().json()["data"]["images"]
            ids.extend(image["id"] for image in stored)
        album = client.post("/albums", json={"name": "Holidays"}).json()["data"]["id"]
        client.put(f"/albums/{album}/images", json={"image_ids": ids[:10]})
        assert album == 1
        # Long names must not widen a page.
        client.post("/albums", json={"name": "W" * 100})
        client.patch(f"/images/{ids[-1]}", json={"filename": "W" * 200, "description": "W" * 300})
    return ids[::-1]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    return (install_npm(tmp_path_factory.mktemp("axe"), AXE) / "axe-core" / "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def screenshots(workspace: Path) -> Path:
    """The directory of the screenshots, which git ignores."""
    directory = workspace / "build" / "screenshots"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


@pytest.mark.parametrize(
    ("viewport", "scheme"), [(WIDE, "light"), (NARROW, "dark")], ids=["wide-light", "narrow-dark"]
)
def test_every_page_is_accessible_and_loads_nothing_foreign(
    open_tab: OpenTab,
    origin: str,
    gallery: list[str],
    axe: str,
    screenshots: Path,
    viewport: ViewportSize,
    scheme: str,
) -> None:
    language = "de" if scheme == "dark" else "en"
    # Without motion, so that axe finds no colour between two others.
    tab = open_tab(viewport=viewport, color_scheme=scheme, locale=language, reduced_motion="reduce")
    page, violations = tab.page, []
    sign_in_at = len(PAGES)
    for index, path in enumerate((*PAGES, *ACCOUNT_PAGES)):
        if index == sign_in_at:
            sign_in(page, origin)
        page.goto(origin + path.format(id=gallery[0]))
        page.wait_for_load_state("networkidle")
        name = re.sub(r"\W+", "-", path.replace("{id}", "id")).strip("-") or "gallery"
        page.screenshot(path=screenshots / f"{name}-{viewport['width']}-{scheme}.png")
        assert page.evaluate("document.documentElement.lang") == language
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        violations += find_violations(page, axe, path)
        page.set_viewport_size(REFLOWED)
        assert page.evaluate("document.documentElement.scrollWidth") <= REFLOWED["width"], path
        page.set_viewport_size(viewport)
    assert violations == []
    assert [url for url in tab.requests if not url.startswith((origin, "data:", "blob:"))] == []
    assert [error for error in tab.errors if not error.endswith(f"({origin}/nothing)")] == []


def find_violations(page: Page, axe: str, name: str) -> list[list[object]]:
    """Return what axe-core finds against WCAG 2.2 AA: the name, the rule, and up to three elements."""
    page.evaluate(axe)
    return [[name, *violation] for violation in page.evaluate(FIND_VIOLATIONS)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dialogs_messages_and_results_are_accessible(
    open_tab: OpenTab, origin: str, gallery: list[str], axe: str, scheme: str, session_cookies: StorageState
) -> None:
    options = {"viewport": NARROW, "color_scheme": scheme, "reduced_motion": "reduce"}
    visitor, page = open_tab(**options).page, open_tab(**options, storage_state=session_cookies).page
    visitor.goto(origin)
    visitor.locator("#grid a").first.click()
    found = find_violations(visitor, axe, "lightbox")
    visitor.goto(f"{origin}/login")
    visitor.fill("#name", "admin")
    visitor.fill("#password", "wrong")
    visitor.click("main button")
    found += find_violations(visitor, axe, "failed sign-in")
    page.goto(f"{origin}/albums/1")
    page.locator("summary").first.click()
    page.fill("[name=password]", "harbour bridge")
    page.click("form[action$='/shares'] button")
    found += find_violations(page, axe, "share link")
    visitor.goto(page.locator("label.copy input[value*='/s/']").input_value())
    visitor.fill("#password", "wrong password")
    visitor.click("main button")
    found += find_violations(visitor, axe, "password of a share")
    visitor.fill("#password", "harbour bridge")
    visitor.click("main button")
    visitor.wait_for_selector("#grid")
    found += find_violations(visitor, axe, "shared album")
    page.goto(f"{origin}/images")
    page.locator("#grid input").first.click()
    # There the bar of actions covers no image.
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    found += find_violations(page, axe, "selection")
    files = [("a.png", "image/png", list(make_image(31, 20))), ("b.pdf", "application/pdf", [37])]
    page.evaluate(PUT_FILES, ["main", "drop", files])
    page.locator("dialog .uploads .done").wait_for()
    page.locator("dialog .uploads .failed").wait_for()
    found += find_violations(page, axe, "results of uploads")
    page.goto(f"{origin}/settings")
    page.fill("form[action='/settings/keys'] [name=name]", "Key")
    page.click("text=Create key")
    found += find_violations(page, axe, "new key")
    page.goto(f"{origin}/images/{gallery[0]}?done=saved")
    found += find_violations(page, axe, "outcome")
    assert found == []


def test_pages_are_small_and_images_do_not_move(
    open_tab: OpenTab, origin: str, gallery: list[str], session_cookies: StorageState
) -> None:
    for path in ("/", "/images", "/i/{id}", "/upload"):
        tab = open_tab(storage_state=session_cookies)
        page = tab.page
        scripts: list[int] = []

        def record_script(response: Response, scripts: list[int] = scripts) -> None:
            if response.url.endswith(".js"):
                scripts.append(response.request.sizes()["responseBodySize"])

        page.on("response", record_script)
        page.add_init_script(OBSERVE_SHIFTS)
        response = page.goto(origin + path.format(id=gallery[0]))
        assert response is not None
        assert len(response.body()) <= MAX_HTML, path
        page.wait_for_load_state("networkidle")
        assert sum(scripts) <= MAX_SCRIPTS, path
        assert page.evaluate("window.shift") <= MAX_LAYOUT_SHIFT, path


def test_the_gallery_is_read_to_its_end_by_scrolling_and_by_keyboard(
    open_tab: OpenTab, origin: str, gallery: list[str]
) -> None:
    page = open_tab().page
    page.add_init_script(OBSERVE_SHIFTS)
    page.goto(origin)
    # Further than images are loaded ahead, so that the link to more of them is on the screen.
    while page.locator("#more").count():
        page.mouse.wheel(0, 4_000)
        page.wait_for_timeout(50)
    assert page.evaluate("window.shift") <= MAX_LAYOUT_SHIFT
    shown = [
        link.rpartition("/")[2] for link in page.eval_on_selector_all("#grid a", "a => a.map(x => x.href)")
    ]
    assert [image_id for image_id in shown if image_id in set(gallery)] == gallery
    page.focus("#grid li:nth-child(2) a")
    page.keyboard.press("Enter")
    lightbox = page.locator("dialog.lightbox")
    source = lightbox.locator("img").get_attribute("src")
    page.keyboard.press("ArrowRight")
    assert lightbox.locator("img").get_attribute("src") != source
    page.keyboard.press("ArrowLeft")
    assert lightbox.locator("img").get_attribute("src") == source
    page.keyboard.press("Escape")
    assert not lightbox.is_visible()
    assert page.evaluate(
        "document.activeElement.closest('li') === document.querySelector('#grid li:nth-child(2)')"
    )
    page.focus("#grid li:nth-child(2) a")
    page.keyboard.press("Enter")
    page.focus("dialog [data-step='-1']")
    # The button that is used becomes disabled at the first image, and the keys still work.
    page.keyboard.press("Enter")
    page.locator("dialog [data-step='-1']:disabled").wait_for()
    page.keyboard.press("ArrowRight")
    assert lightbox.locator("img").get_attribute("src") == source
    page.keyboard.press("Escape")


@pytest.mark.parametrize("is_reduced", [False, True], ids=["motion", "reduced-motion"])
def test_animations_play_where_they_can_be_paused(
    open_tab: OpenTab, origin: str, server: RunningServer, axe: str, is_reduced: bool
) -> None:
    """In the lightbox and on the page of an image, unless motion is to be reduced: then after a click."""
    headers = {"Authorization": f"Bearer {server.token}"}
    files = {"image": ("a.gif", make_animation(700, 500))}
    upload = httpx2.post(f"{server.base_url}/upload", headers=headers, files=files, timeout=PATIENCE)
    image_id = upload.raise_for_status().json()["data"]["id"]
    page = open_tab(reduced_motion="reduce" if is_reduced else "no-preference").page
    page.goto(origin)
    tile = f"#grid a[href='/i/{image_id}'] img"
    page.wait_for_function(SHOWS_STILL, arg=[tile, True])
    page.click(tile)
    page.wait_for_function(SHOWS_STILL, arg=["dialog.lightbox img", is_reduced])
    page.goto(f"{origin}/i/{image_id}")
    page.wait_for_load_state("networkidle")
    for is_paused in (is_reduced, not is_reduced, is_reduced):
        button = page.get_by_role("button", name="Play" if is_paused else "Pause")
        button.wait_for()
        page.wait_for_function(SHOWS_STILL, arg=["#animation img", is_paused])
        assert find_violations(page, axe, "animation") == []
        button.click()
    httpx2.delete(f"{server.base_url}/images/{image_id}", headers=headers).raise_for_status()


def test_reading_and_uploading_work_without_scripts(
    open_tab: OpenTab, origin: str, gallery: list[str], tmp_path: Path
) -> None:
    page = open_tab(java_script_enabled=False, viewport=NARROW).page
    page.goto(origin)
    page.click("#more")
    page.click("#grid li:first-child a")
    assert page.locator("table a").count() > 3
    sign_in(page, origin)
    (tmp_path / "plain.png").write_bytes(make_image(77, 55))
    page.set_input_files("#files", tmp_path / "plain.png")
    page.click("#send")
    assert page.locator(".stored").count() == 1
    page.goto(f"{origin}/images")
    page.click("#grid [data-id] a")
    page.fill("#description", "without a script")
    page.click("text=Save")
    assert page.input_value("#description") == "without a script"
    page.click(".panel summary:has-text('Delete')")
    page.click("text=Delete permanently")
    assert page.url == f"{origin}/images?done=deleted"
    assert page.locator(".message.good").inner_text() == "Deleted."


def test_the_whole_story(
    open_tab: OpenTab, origin: str, gallery: list[str], server: RunningServer, tmp_path: Path
) -> None:
    tab = open_tab(permissions=["clipboard-read", "clipboard-write"], accept_downloads=True)
    page = tab.page
    sign_in(page, origin)
    files = [(f"{n}.png", "image/png", list(make_image(90 + n, 60))) for n in range(11)]
    page.evaluate(
        PUT_FILES, ["#uploader", "drop", [*files, ("paper.pdf", "application/pdf", [37, 80, 68, 70])]]
    )
    page.evaluate(PUT_FILES, ["body", "paste", [("pasted.png", "image/png", list(make_image(120, 60)))]])
    page.locator(".uploads .done").nth(11).wait_for()
    failed = page.locator(".uploads .failed")
    failed.wait_for()
    assert "paper.pdf" in failed.inner_text()
    assert "Not an image" in failed.inner_text()
    page.select_option("#links-format", "markdown")
    page.click("text=Copy all")
    copied = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert len(copied) == 12
    assert all(line.startswith("![") for line in copied)

    page.goto(f"{origin}/albums")
    page.fill("main input[name=name]", "Story")
    page.click("main form button")
    page.wait_for_selector(".share")
    share = page.input_value(".share input")
    page.goto(f"{origin}/images")
    boxes = page.locator("#grid input[type=checkbox]")
    boxes.nth(0).click()
    boxes.nth(3).click(modifiers=["Shift"])
    assert page.inner_text(".selection .count") == "4 selected"
    page.select_option(".selection select[data-choice=album]", label="Story")
    page.click(".selection button[data-action=album]")
    page.locator("#outcome", has_text="Done").wait_for()
    visitor = open_tab().page
    visitor.goto(share)
    assert visitor.locator("#grid li").count() == 4

    page.click("text=Select none")
    page.click("#grid [data-id] a")
    page.get_by_role("link", name="Open page").click()
    page.fill("#builder input[name=w]", "40")
    page.locator("#builder-facts", has_text="40 ×").wait_for()
    assert page.inner_text("#builder-facts").endswith(("image/avif", "image/webp"))
    page.fill("#builder input[name=w]", "50")
    page.select_option("#builder select[name=fm]", "webp")
    page.locator("#builder-facts", has_text="50 ×").wait_for()
    built = httpx2.get(page.input_value("#builder-url"))
    assert (built.status_code, built.headers["content-type"]) == (200, "image/webp")
    page.select_option("#is_public", "false")
    page.click("text=Save")
    page.fill("#builder input[name=w]", "60")
    page.check("#sign-size")
    page.click("text=Create signed URL")
    signed = page.locator("label", has_text="Anyone with this URL").locator("input").input_value()
    assert "w=60" in signed
    assert httpx2.get(signed).status_code == 200
    assert httpx2.get(signed.partition("?")[0]).status_code == 404

    page.goto(f"{origin}/settings")
    page.fill("input[name=name]", "uploader")
    page.select_option("select[name=preset]", "upload")
    page.click("text=Create key")
    token = page.input_value(".message input")
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx2.get(f"{server.base_url}/images", headers=headers).status_code == 403
    with page.expect_download() as download:
        page.click("text=sharex.sxcu")
    config = json.loads(Path(download.value.path()).read_text(encoding="utf-8"))
    uploaded = httpx2.post(
        config["RequestURL"],
        headers=config["Headers"],
        files={config["FileFormName"]: ("shared.png", make_image(64, 48))},
    )
    assert uploaded.status_code == 200

    page.goto(f"{origin}/images?sort=-created_at")
    ids = page.eval_on_selector_all(
        "#grid [data-id]", "items => items.slice(0, 2).map((item) => item.dataset.id)"
    )
    page.locator("#grid input[type=checkbox]").nth(0).click()
    page.locator("#grid input[type=checkbox]").nth(1).click()
    page.click(".selection button.danger")
    page.locator("#outcome", has_text="Done").wait_for()
    for image_id in ids:
        assert page.locator(f"[data-id='{image_id}']").count() == 0
        assert httpx2.get(f"{origin}/img/{image_id}").status_code == 404
    # The console has a line for the file that is refused.
    assert [error for error in tab.errors if "415" not in error] == []


def test_a_key_is_revoked_only_after_a_confirmation(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    page = open_tab(storage_state=session_cookies).page
    page.goto(f"{origin}/settings")
    page.fill("form[action='/settings/keys'] [name=name]", "Revoked")
    page.click("text=Create key")
    revoke = page.get_by_role("button", name="Revoke: Revoked")
    page.once("dialog", lambda dialog: dialog.dismiss())
    revoke.click()
    page.goto(f"{origin}/settings")
    page.once("dialog", lambda dialog: dialog.accept())
    revoke.click()
    revoke.wait_for(state="detached")


def test_files_that_are_dropped_on_the_page_of_an_album_are_uploaded_into_it(
    open_tab: OpenTab, origin: str, gallery: list[str], session_cookies: StorageState
) -> None:
    tab = open_tab(storage_state=session_cookies)
    tab.page.goto(f"{origin}/albums/2")
    tab.page.evaluate(PUT_FILES, ["main", "drop", [("dropped.png", "image/png", list(make_image(66, 44)))]])
    tab.page.locator("dialog .uploads .done").wait_for()
    tab.page.reload()
    assert tab.page.locator("#grid li").count() == 1
    assert tab.errors == []


def test_links_of_many_images_are_copied_with_few_requests(
    open_tab: OpenTab, origin: str, gallery: list[str], session_cookies: StorageState
) -> None:
    tab = open_tab(storage_state=session_cookies, permissions=["clipboard-read", "clipboard-write"])
    page = tab.page
    page.goto(f"{origin}/images?sort=filename")
    page.locator("#grid input").first.click()
    page.click("text=Select all")
    shown = page.locator("#grid .selected").count()
    page.wait_for_function(
        "shown => parseInt(document.querySelector('.selection .count').textContent) > shown", arg=shown
    )
    count = int(page.inner_text(".selection .count").split()[0])
    page.select_option("[data-choice=copy]", "markdown")
    page.click("[data-action=copy]")
    page.locator("#outcome", has_text="links copied").wait_for()
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    assert len(lines) == count >= len(gallery) > shown >= 40
    ids = page.eval_on_selector_all("#grid li.selected", "items => items.map((item) => item.dataset.id)")
    assert all(image_id in line for image_id, line in zip(ids, lines, strict=False))
    assert len([url for url in tab.requests if "/v1/images" in url]) <= 2


def test_a_thousand_selected_images_stay_responsive(
    open_tab: OpenTab, origin: str, gallery: list[str], session_cookies: StorageState
) -> None:
    page = open_tab(storage_state=session_cookies).page
    page.goto(f"{origin}/images")
    page.wait_for_selector("#grid input")
    page.evaluate("""() => {
      const grid = document.querySelector("#grid");
      const items = grid.querySelectorAll("[data-id]");
      const item = items[0];
      for (let index = items.length; index < 1000; index++) {
        const copy = item.cloneNode(true);
        copy.querySelector("input").remove();
        copy.dataset.id = String(index).padStart(16, "0");
        grid.append(copy);
      }
    }""")
    ids = " ".join(
        page.locator("#grid [data-id]").evaluate_all("items => items.map(item => item.dataset.id)")
    )
    page.route("**/images/ids*", lambda route: route.fulfill(body=ids, content_type="text/plain"))
    page.locator("#grid input").nth(0).click()
    started = page.evaluate("performance.now()")
    page.click("text=Select all")
    page.locator(".selection .count", has_text="1000 selected").wait_for()
    # A bound far above what it takes, so that only work that grows with the square of the number fails.
    assert page.evaluate("performance.now()") - started < 5_000
