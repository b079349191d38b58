"""Uploads by the web pages in Chromium: TLS, folders, cancelling, retrying, limits and signing in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.certificates import create_certificate
from tests.core.headers.test_headers_camera import photograph
from tests.outside.browser.tabs import (
    LIMITS,
    NARROW,
    PASSWORD,
    PATIENT,
    PUT_FILES,
    OpenTab,
    Watched,
    sign_in,
)
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import running

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Page, Route, StorageState

pytestmark = pytest.mark.external


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The origin of a server with TLS."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "password").write_text(PASSWORD, encoding="utf-8")
    variables = {**LIMITS, **PATIENT, "IMAGEHOST_ADMIN_PASSWORD_FILE": str(folder / "password")}
    with running(folder / "data", *create_certificate(folder).flags, variables=variables) as server:
        yield server.origin


@pytest.fixture
def tab(open_tab: OpenTab, origin: str, session_cookies: StorageState) -> Watched:
    """A tab that is signed in, on the page for uploading."""
    tab: Watched = open_tab(ignore_https_errors=True, storage_state=session_cookies)
    tab.page.goto(f"{origin}/upload")
    return tab


@pytest.fixture
def limited(open_tab: OpenTab, origin: str) -> Callable[[int], Page]:
    """Opens the page for uploading as an account of its own, with a limit of upload requests per minute."""

    def open_(limit: int) -> Page:
        name = f"limit-{limit}"
        with httpx2.Client(base_url=f"{origin}/v1", verify=False, timeout=PATIENCE) as client:
            session = client.post("/session", json={"username": "admin", "password": PASSWORD})
            body = {"username": name, "password": PASSWORD, "limits": {"uploads_per_minute": limit}}
            token = session.raise_for_status().json()["data"]["token"]
            created = client.post("/accounts", json=body, headers={"Authorization": f"Bearer {token}"})
            created.raise_for_status()
        page = open_tab(ignore_https_errors=True).page
        sign_in(page, origin, name=name)
        return page

    return open_


def put(page: Page, *names: str, kind: str = "drop", size: int = 60) -> None:
    files = [(name, "image/png", list(make_image(size + number, 40))) for number, name in enumerate(names)]
    page.evaluate(PUT_FILES, ["#uploader", kind, files])


def test_files_are_uploaded_over_tls(tab: Watched, origin: str) -> None:
    assert origin.startswith("https://")
    put(tab.page, "one.png", "two.png")
    tab.page.locator(".uploads .done").nth(1).wait_for()
    (session,) = [cookie for cookie in tab.page.context.cookies() if cookie["name"].endswith("-session")]
    assert (session["secure"], session["httpOnly"], session["sameSite"]) == (True, True, "Strict")
    assert all(url.startswith((origin, "blob:")) for url in tab.requests)
    assert tab.errors == []


def test_the_files_of_folders_are_uploaded(tab: Watched, tmp_path: Path) -> None:
    folder = tmp_path / "holidays" / "beach"
    folder.mkdir(parents=True)
    (tmp_path / "holidays" / "a.png").write_bytes(make_image(51, 40))
    for name in ("b.png", "c.png"):
        (folder / name).write_bytes(make_image(52, 40))
    box = tab.page.locator(".drop").bounding_box()
    assert box is not None
    session = tab.page.context.new_cdp_session(tab.page)
    data = {"items": [], "files": [str(tmp_path / "holidays")], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send(
            "Input.dispatchDragEvent", {"type": kind, "x": box["x"] + 20, "y": box["y"] + 20, "data": data}
        )
    tab.page.locator(".uploads .done").nth(2).wait_for()
    names = tab.page.locator(".uploads strong").all_inner_texts()
    assert sorted(names) == ["a.png", "b.png", "c.png"]


def test_a_folder_is_chosen_by_a_button(tab: Watched, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    for name in ("a.png", "inner/b.png"):
        (tmp_path / name).write_bytes(make_image(51, 40))
    with tab.page.expect_file_chooser() as chooser:
        tab.page.get_by_role("button", name="Choose a folder").click()
    chooser.value.set_files(tmp_path)
    tab.page.locator(".uploads .done").nth(1).wait_for()
    assert sorted(tab.page.locator(".uploads strong").all_inner_texts()) == ["a.png", "b.png"]


def test_the_page_says_whether_places_stay_in_photos(tab: Watched) -> None:
    page, line = tab.page, tab.page.locator(".places span")
    assert "are removed" in line.inner_text()
    page.get_by_role("button", name="Change").click()
    assert page.evaluate("document.activeElement.id") == "remove_exif"
    page.select_option("#remove_exif", "false")
    assert "stay in photos" in line.inner_text()
    page.reload()
    assert "stay in photos" in line.inner_text()


def share(page: Page, origin: str, name: str, content: bytes) -> None:
    """Open the page as the share sheet of a phone does: by a navigation of the browser with a body.

    No command of the browser makes one, so that of the address bar gets the method, the body and `Origin`.
    """
    body = httpx2.Request("POST", f"{origin}/upload", files={"files[]": (name, content, "image/jpeg")})
    headers = {"content-type": body.headers["content-type"], "origin": "null"}

    def replace(route: Route) -> None:
        route.continue_(method="POST", headers={**route.request.headers, **headers}, post_data=body.read())

    page.route(f"{origin}/upload", replace, times=1)
    page.goto(f"{origin}/upload")


def test_no_way_into_the_page_stores_camera_data(tab: Watched, origin: str) -> None:
    page = tab.page
    for kind in ("drop", "paste"):
        page.evaluate(PUT_FILES, ["#uploader", kind, [(f"{kind}.jpg", "image/jpeg", list(photograph()))]])
    page.locator(".uploads .done").nth(1).wait_for()
    share(page, origin, "shared.jpg", photograph())
    assert page.locator(".stored strong").inner_text().startswith("shared.")
    page.goto(f"{origin}/images")
    links = [page.locator("#grid a").nth(index).get_attribute("href") for index in range(3)]
    for link in links:
        page.goto(f"{origin}{link}")
        assert "The file contains none." in page.locator("main").inner_text(), link


def test_the_page_presets_only_you_for_a_private_album_whatever_was_chosen_before(
    tab: Watched, origin: str
) -> None:
    page = tab.page
    audience = page.locator(".audience span")
    assert audience.inner_text() == "Everyone can see these images, also in the gallery."
    page.locator("details.options summary").click()
    page.select_option("#is_public", "true")
    page.goto(f"{origin}/albums")
    page.fill("main input[name=name]", "Hidden")
    page.select_option("main select[name=is_public]", "false")
    page.click("main form button")
    page.get_by_role("link", name="Upload", exact=True).last.click()
    page.wait_for_url(f"{origin}/upload?album_id=*")
    assert (page.input_value("#is_public"), audience.inner_text()) == (
        "false",
        "Only you can see these images.",
    )
    put(page, "hidden.png")
    page.locator(".uploads .done a").click()
    page.wait_for_url(f"{origin}/images/*")
    assert page.input_value("#is_public") == "false"
    page.goto(f"{origin}/upload")
    assert page.input_value("#is_public") == ""
    page.locator("details.options summary").click()
    page.select_option("#album_id", label="Hidden")
    assert audience.inner_text() == "Only you can see these images."
    page.select_option("#is_public", "true")
    assert "Everyone who has their links" in audience.inner_text()


@pytest.mark.parametrize("count", [5, 20])
def test_files_that_are_uploaded_together_keep_their_order(tab: Watched, origin: str, count: int) -> None:
    page = tab.page
    # The first ones take the longest.
    files = [(f"{n:02}.png", "image/png", list(make_image(400 - 15 * n, 60))) for n in range(count)]
    page.evaluate(PUT_FILES, ["#uploader", "drop", files])
    page.locator(".uploads .done").nth(count - 1).wait_for()
    page.goto(f"{origin}/images?view=list")
    names = page.locator("tbody tr td:nth-child(2)").all_inner_texts()[:count]
    assert [name.partition(".")[0] for name in names] == [f"{n:02}" for n in reversed(range(count))]


def test_an_upload_is_cancelled_and_sent_again(tab: Watched) -> None:
    network = tab.page.context.new_cdp_session(tab.page)
    network.send("Network.enable")
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 2_000}
    network.send("Network.emulateNetworkConditions", slow)
    put(tab.page, "slow.png", size=2_000)
    tab.page.get_by_role("button", name="Cancel: slow.png").click()
    item = tab.page.locator(".uploads li")
    assert item.get_attribute("class") == "cancelled"
    assert "Cancelled" in item.inner_text()
    network.send("Network.emulateNetworkConditions", {**slow, "uploadThroughput": -1})
    tab.page.get_by_role("button", name="Retry: slow.png").click()
    tab.page.locator(".uploads .done").wait_for()


def test_a_server_that_is_not_reached_is_tried_again_and_a_cancelled_file_is_not(tab: Watched) -> None:
    page = tab.page
    page.clock.install()
    page.context.set_offline(True)
    put(page, "kept.png", "dropped.png")
    failures: list[str] = []
    page.on("requestfailed", lambda request: failures.append(request.url))
    while not failures:  # files are sent one after the other
        page.evaluate("0")
    page.get_by_role("button", name="Cancel: dropped.png").click()
    page.context.set_offline(False)
    page.clock.run_for(10_000)
    page.locator(".uploads .done").wait_for()
    assert page.locator(".uploads .done strong").inner_text() == "kept.png"
    assert page.locator(".uploads .cancelled strong").inner_text() == "dropped.png"


def test_a_file_fails_after_three_attempts_and_can_be_sent_again(tab: Watched) -> None:
    """The server is reached, but each request with the file is cut off."""
    page = tab.page
    page.clock.install()
    page.route("**/v1/upload", lambda route: route.abort("connectionreset"))
    put(page, "late.png")
    failed = page.locator(".uploads .failed")
    for _ in range(100):
        page.clock.run_for(1_000)
        if failed.count():
            break
    assert "The server could not be reached" in failed.inner_text()
    page.unroute("**/v1/upload")
    page.get_by_role("button", name="Retry: late.png").click()
    page.locator(".uploads .done").wait_for()


def test_a_file_of_another_format_says_what_to_do_and_is_not_offered_again(
    tab: Watched,
) -> None:
    files: dict[str, tuple[bytes, str]] = {
        "empty.png": (b"", "The file is empty"),
        "document.pdf": (b"%PDF-1.7", "PDF document. Export its pages"),
        "image.svg": (b"<svg/>", "SVG drawing. Export it"),
        "photo.heic": (b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC photo. On an iPhone"),
        "clip.mp4": (b"\0\0\0\x18ftypisom\0\0\0\0", "This is a video"),
        "photos.zip": (b"PK\x03\x04", "Unpack it"),
        "scan.tif": (b"II*\0", "The content is TIFF. Export it"),
        "cut.png": (make_image()[:-99], "The image is damaged"),
    }
    put_files = [(name, "image/png", list(content)) for name, (content, _) in files.items()]
    tab.page.evaluate(PUT_FILES, ["#uploader", "drop", put_files])
    tab.page.locator(".uploads .failed").nth(len(files) - 1).wait_for()
    rows = {name: tab.page.locator(".uploads li", has_text=name) for name in files}
    for name, (_, expected) in files.items():
        assert expected in rows[name].inner_text()
    # A preview that browsers cannot show has the colour of one that is loading.
    grey = tab.page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--surface')")
    rgb = f"rgb({', '.join(str(each) for each in bytes.fromhex(grey.strip().lstrip('#')))})"
    shown_card = "(row) => getComputedStyle(row).backgroundImage"
    assert all(rgb in row.evaluate(shown_card) for row in rows.values())
    assert not tab.page.locator(".results").is_visible()
    shown = {name for name, row in rows.items() if row.get_by_role("button", name="Retry").is_visible()}
    assert shown == set()


def test_at_a_limit_the_page_waits_visibly_and_goes_on(limited: Callable[[int], Page]) -> None:
    page = limited(1)
    page.clock.install()
    # The window may end between two uploads, but not twice.
    put(page, "one.png", "two.png", "three.png")
    status = page.locator("#uploader [role=status]")
    # Ten seconds or more: the window does not end during the six seconds below.
    status.filter(has_text=re.compile(r"Upload limit reached\. Continuing in \d\d")).wait_for()
    assert page.locator(".uploads .failed").count() == 0
    shown = {status.inner_text()}
    # The response to another request may set the rest to what was shown before.
    for _ in range(3):
        page.clock.run_for(2_000)
        shown.add(status.inner_text())
    assert len(shown) > 1
    assert status.get_attribute("aria-live") == "off"
    with page.expect_request("**/v1/upload"):
        page.clock.fast_forward(61_000)


def test_without_a_request_left_in_the_window_the_page_waits_before_one_is_refused(
    limited: Callable[[int], Page],
) -> None:
    page = limited(3)
    statuses: list[int] = []
    page.on(
        "response",
        lambda received: statuses.append(received.status) if "/v1/upload" in received.url else None,
    )
    # The window may end once meanwhile, so that up to five requests are admitted.
    put(page, *(f"{number}.png" for number in range(6)))
    status = page.locator("#uploader [role=status]")
    status.filter(has_text="Upload limit reached. Continuing in").wait_for()
    page.locator(".uploads .done").nth(2).wait_for()
    assert 3 <= len(statuses) <= 5
    assert set(statuses) == {200}


def test_options_of_uploads_stay_chosen_and_are_shown(tab: Watched, origin: str) -> None:
    page, options = tab.page, tab.page.locator("details.options")
    assert options.get_attribute("open") is None
    options.locator("summary").click()
    chosen = {"is_public": "false", "remove_exif": "false", "format": "original", "auto_rename": "true"}
    for name, value in chosen.items():
        page.select_option(f"#{name}", value)
    page.fill("#quality", "71")
    page.keyboard.press("Tab")
    page.reload()
    assert options.get_attribute("open") is not None
    assert {name: page.input_value(f"#{name}") for name in chosen} == chosen
    assert page.input_value("#quality") == "71"
    put(page, "named.png")
    page.locator(".uploads .done a").click()
    page.wait_for_url(f"{origin}/images/*")
    assert page.input_value("#is_public") == "false"
    assert "named" not in page.input_value("#filename")


def test_a_page_that_needs_a_session_is_shown_after_signing_in(open_tab: OpenTab, origin: str) -> None:
    page = open_tab(ignore_https_errors=True).page
    page.goto(f"{origin}/images?q=a%26b&view=list")
    assert page.url.startswith(f"{origin}/login")
    page.fill("#name", "admin")
    page.fill("#password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{origin}/images?q=a%26b&view=list")
    assert page.input_value("input[name=q]") == "a&b"


def test_choosing_an_album_by_the_keyboard_changes_nothing_until_its_button_is_used(
    tab: Watched, origin: str
) -> None:
    page = tab.page
    put(page, "moved.png")
    page.locator(".uploads .done").wait_for()
    page.goto(f"{origin}/images")
    page.locator("#grid input").first.click()
    tab.requests.clear()
    page.select_option(".selection [data-choice=album]", "")
    assert not [url for url in tab.requests if "/v1/" in url]
    page.click(".selection [data-action=album]")
    page.locator("#outcome", has_text="Done").wait_for()
    assert page.evaluate("document.activeElement.dataset.action") == "album"
    assert [url for url in tab.requests if "/v1/images" in url]


def test_a_phone_uploads_a_photo_of_its_camera(
    open_tab: OpenTab, origin: str, session_cookies: StorageState
) -> None:
    phone = {"viewport": NARROW, "is_mobile": True, "has_touch": True}
    for options, count in (phone, 1), ({}, 0):
        page = open_tab(ignore_https_errors=True, storage_state=session_cookies, **options).page
        page.goto(f"{origin}/upload")
        page.locator("#uploader input[type=file]").first.wait_for()
        button = page.get_by_role("button", name="Take a photo")
        assert button.count() == count
        if count:
            with page.expect_file_chooser() as chooser:
                button.tap()
            camera = chooser.value.element
            assert (camera.get_attribute("capture"), camera.get_attribute("accept")) == (
                "environment",
                "image/*",
            )
            photo: FilePayload = {"name": "photo.png", "mimeType": "image/png", "buffer": make_image(70, 40)}
            chooser.value.set_files(photo)
            page.locator(".uploads .done").wait_for()
