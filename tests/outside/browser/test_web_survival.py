"""Pages in Chromium that outlive the network, the session and answers of others: uploads, lists and forms."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from tests.outside.browser.tabs import PASSWORD, PUT_FILES, OpenTab, Watched, running_for_pages, sign_in
from tests.waiting import PATIENCE

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

pytestmark = pytest.mark.external

DONE = ".uploads .done"
COUNT = 60


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_for_pages(tmp_path_factory.mktemp("survival")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx2.Client(base_url=server.base_url, headers=headers, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="module")
def image_ids(client: httpx2.Client) -> list[str]:
    """The ids of images that fill more than a page of a list, in an album."""
    client.post("/albums", json={"name": "Boats"}).raise_for_status()
    ids: list[str] = []
    for first in range(0, COUNT, 20):
        files = [("files[]", (f"{n}.png", make_image(120, 80 + n))) for n in range(first, first + 20)]
        stored = client.post("/upload", files=files, data={"album_id": "1"}).raise_for_status()
        ids += [image["id"] for image in stored.json()["data"]["images"]]
    return ids


@pytest.fixture
def tab(open_tab: OpenTab, origin: str) -> Watched:
    """A tab with a session of its own, which a test may end, on the page for uploading."""
    tab: Watched = open_tab(reduced_motion="reduce")
    sign_in(tab.page, origin)
    return tab


def drop(page: Page, *names: str) -> None:
    files = [(name, "image/png", list(make_image(60 + number, 40))) for number, name in enumerate(names)]
    page.evaluate(PUT_FILES, ["main", "drop", files])


def end_session(page: Page, server: RunningServer) -> None:
    """End the session of a tab on the server: the browser still has its cookies."""
    with httpx2.Client(base_url=server.base_url, timeout=PATIENCE) as client:
        (cookie,) = [each for each in page.context.cookies() if each["name"].endswith("-session")]
        headers = {"Authorization": f"Bearer {cookie['value']}"}
        client.delete("/session", headers=headers).raise_for_status()


def sign_in_by_link(page: Page) -> None:
    """Follow the link of a message to the page for signing in, in a second tab, and sign in there."""
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Sign in in a new tab").click()
    other = opened.value
    other.fill("#name", "admin")
    other.fill("#password", PASSWORD)
    other.click("main button")
    other.locator(".bar .account .name").wait_for()


def answer(page: Page, pattern: str, times: int = 9, **response: object) -> None:
    """Answer requests instead of the server."""
    page.route(pattern, lambda route: route.fulfill(**response), times=times)


def test_uploads_wait_for_the_network_and_go_on_by_themselves(tab: Watched) -> None:
    page = tab.page
    page.context.set_offline(True)
    drop(page, *(f"{n}.png" for n in range(30)))
    page.locator("#uploader [role=status]", has_text="The server is not reached").wait_for()
    page.wait_for_timeout(100)
    assert page.locator(".uploads .failed").count() == 0
    page.context.set_offline(False)
    page.locator(DONE).nth(29).wait_for()


def test_files_that_failed_are_sent_again_together(tab: Watched) -> None:
    page = tab.page
    page.clock.install()
    page.route("**/v1/upload", lambda route: route.abort("connectionreset"))
    drop(page, "a.png", "b.png", "c.png")
    for _ in range(100):
        page.clock.run_for(1_000)
        if page.locator(".uploads .failed").count() == 3:
            break
    assert "could not be reached" in page.locator(".uploads .failed").first.inner_text()
    page.unroute("**/v1/upload")
    page.get_by_role("button", name="Retry all").click()
    page.locator(DONE).nth(2).wait_for()
    assert not page.get_by_role("button", name="Retry all").is_visible()


@pytest.mark.parametrize("language", ["en", "de"])
def test_uploads_go_on_in_a_new_session_of_a_second_tab(
    open_tab: OpenTab, origin: str, server: RunningServer, language: str
) -> None:
    page = open_tab(locale=language).page
    sign_in(page, origin)
    end_session(page, server)
    drop(page, "a.png", "b.png")
    status = page.locator("#uploader [role=status]")
    link = status.get_by_role("link")
    link.wait_for()
    assert ("Sitzung" if language == "de" else "session") in status.inner_text()
    with page.expect_popup() as opened:
        link.click()
    other = opened.value
    other.fill("#name", "admin")
    other.fill("#password", PASSWORD)
    other.click("main button")
    page.locator(DONE).nth(1).wait_for()
    assert page.locator(".uploads li").count() == 2


def test_uploads_do_not_go_on_in_the_session_of_another_account(
    tab: Watched, origin: str, server: RunningServer, client: httpx2.Client
) -> None:
    page = tab.page
    with httpx2.Client(base_url=server.base_url, timeout=PATIENCE) as operator:
        session = operator.post("/session", json={"username": "admin", "password": PASSWORD}).json()
        headers = {"Authorization": f"Bearer {session['data']['token']}"}
        body = {"username": "other", "password": PASSWORD}
        operator.post("/accounts", json=body, headers=headers).raise_for_status()
    end_session(page, server)
    drop(page, "mine.png")
    page.get_by_role("link", name="Sign in in a new tab").wait_for()
    sign_in(page.context.new_page(), origin, name="other")
    page.locator("#uploader [role=status]", has_text="Another account").wait_for()
    assert page.locator(DONE).count() == 0


def test_files_that_are_dropped_after_the_end_of_the_session_are_uploaded_in_the_next(
    tab: Watched, origin: str, server: RunningServer
) -> None:
    page = tab.page
    page.goto(f"{origin}/albums")
    end_session(page, server)
    drop(page, "kept.png")
    sign_in_by_link(page)
    page.locator(f"dialog {DONE}").wait_for()


def test_a_selection_is_changed_in_the_session_of_a_second_tab(
    tab: Watched, origin: str, server: RunningServer, image_ids: list[str]
) -> None:
    page = tab.page
    page.goto(f"{origin}/images")
    page.locator("#grid input").nth(0).click()
    page.locator("#grid input").nth(1).click()
    end_session(page, server)
    page.click("text=Make private")
    page.locator("#outcome", has_text="Your session has ended").wait_for()
    assert page.locator("#grid .selected").count() == 2
    sign_in_by_link(page)
    page.click("text=Make private")
    page.locator("#outcome", has_text="Done").wait_for()


def test_a_download_of_selected_images_does_not_lose_the_selection(
    tab: Watched, origin: str, server: RunningServer, image_ids: list[str]
) -> None:
    page = tab.page
    page.goto(f"{origin}/images")
    page.locator("#grid input").nth(0).click()
    page.context.set_offline(True)
    page.click("[data-action=download]")
    page.locator("#outcome", has_text="could not be reached").wait_for()
    page.context.set_offline(False)
    end_session(page, server)
    page.click("[data-action=download]")
    page.locator("#outcome", has_text="Your session has ended").wait_for()
    assert page.locator("#grid .selected").count() == 1
    sign_in_by_link(page)
    with page.expect_download():
        page.click("[data-action=download]")


FORMS = (
    ("/images/{id}", "#description", ".panel form button", "Boats at noon"),
    ("/albums/1", "#description", "details:has(#description) button", "All of them"),
    ("/settings", "form[action$='/keys'] [name=name]", "form[action$='/keys'] button", "Camera"),
    ("/settings/webhooks", "#description", "form:has(#description) button", "A hook"),
    ("/admin", "form[action$='/accounts'] [name=name]", "form[action$='/accounts'] button", "carol"),
    ("/albums", "main [name=name]", "main form button", "Rivers"),
)
"""Pages with forms: a field for text, the button, and a text."""


@pytest.mark.parametrize(("path", "field", "button", "text"), FORMS, ids=[form[0] for form in FORMS])
def test_the_text_of_a_form_survives_the_end_of_the_session_and_the_network(
    tab: Watched,
    origin: str,
    server: RunningServer,
    image_ids: list[str],
    path: str,
    field: str,
    button: str,
    text: str,
) -> None:
    page = tab.page
    url = origin + path.format(id=image_ids[0])
    page.goto(url)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    if page.locator("#url").count():
        page.fill("#url", "https://127.0.0.1/refused")
    page.fill(field, text)
    page.context.set_offline(True)
    page.locator(button).first.click()
    page.get_by_role("alert").filter(has_text="There is no network").wait_for()
    assert page.input_value(field) == text
    page.context.set_offline(False)
    end_session(page, server)
    page.locator(button).first.click()
    page.locator("#password").wait_for()
    page.fill("#name", "admin")
    page.fill("#password", PASSWORD)
    page.click("main button")
    page.wait_for_url(url)
    page.get_by_role("alert").filter(has_text="Your session had ended").first.wait_for()
    assert page.input_value(field) == text
    assert page.locator(field).is_visible()


def test_a_form_is_sent_in_the_session_of_a_second_tab(
    tab: Watched, origin: str, server: RunningServer, image_ids: list[str]
) -> None:
    page = tab.page
    page.goto(f"{origin}/images/{image_ids[1]}")
    page.fill("#description", "written for a long time")
    end_session(page, server)
    other = page.context.new_page()
    sign_in(other, origin)
    page.click("text=Save")
    page.get_by_role("status").filter(has_text="Saved").wait_for()
    assert page.input_value("#description") == "written for a long time"


@pytest.mark.parametrize(
    ("status", "expected", "has_retry"),
    [
        (413, "refuses files of this size (status 413)", False),
        (403, "not from this site (status 403)", True),
        (200, "not from this site (status 200)", True),
    ],
)
def test_an_answer_of_others_to_an_upload_is_described(
    tab: Watched, status: int, expected: str, has_retry: bool
) -> None:
    page = tab.page
    answer(page, "**/v1/upload", status=status, body="<html>nginx</html>", content_type="text/html")
    drop(page, "a.png")
    failed = page.locator(".uploads .failed")
    failed.wait_for()
    assert expected in failed.inner_text()
    assert failed.get_by_role("button", name="Retry").is_visible() is has_retry


@pytest.mark.parametrize(
    ("option", "expected", "has_retry"),
    [
        ("", "Das Bild ist beschädigt", False),
        ("200", "Die Qualität ist eine ganze Zahl", True),
    ],
)
def test_what_is_wrong_with_a_file_or_an_option_is_said_in_german_and_retried_only_if_that_can_help(
    open_tab: OpenTab, origin: str, option: str, expected: str, has_retry: bool
) -> None:
    page = open_tab(locale="de").page
    sign_in(page, origin)
    page.evaluate("document.querySelector('details.options').open = true")
    page.fill("[name=quality]", option)
    data = list(make_image(60, 40))
    page.evaluate(PUT_FILES, ["main", "drop", [("a.png", "image/png", data if option else data[:-40])]])
    failed = page.locator(".uploads .failed")
    failed.wait_for()
    assert expected in failed.inner_text()
    assert "expected" not in failed.inner_text()
    assert failed.get_by_role("button", name="Wiederholen").is_visible() is has_retry


def test_an_answer_of_others_to_a_change_of_images_is_described(
    tab: Watched, origin: str, image_ids: list[str]
) -> None:
    page = tab.page
    held: list[Route] = []
    # The next page of the list comes after the answer.
    page.route("**/images?cursor=*", lambda route: held.append(route))
    page.goto(f"{origin}/images")
    page.locator("#grid input").first.click()
    answer(page, "**/v1/images", status=403, body="<html>blocked</html>", content_type="text/html")
    page.click("text=Make private")
    message = page.locator("#outcome", has_text="not from this site (status 403)")
    message.wait_for()
    while not held:
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
    held[0].continue_()
    page.locator("#grid li[data-id]").nth(COUNT - 1).wait_for()
    assert message.is_visible()


def test_endless_scrolling_waits_at_a_limit_and_for_the_network(
    tab: Watched, origin: str, image_ids: list[str]
) -> None:
    page = tab.page
    page.clock.install()
    answer(page, "**/images?cursor=*", times=1, status=429, headers={"Retry-After": "31"})
    page.goto(f"{origin}/images")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.locator("#status", has_text="Continuing in 31 s").wait_for()
    page.context.set_offline(True)
    page.clock.run_for(32_000)
    page.locator("#status", has_text="The server is not reached").wait_for()
    page.context.set_offline(False)
    page.locator("#grid li[data-id]").nth(COUNT - 1).wait_for()


def test_a_list_goes_on_in_the_session_of_a_second_tab(
    tab: Watched, origin: str, server: RunningServer, image_ids: list[str]
) -> None:
    page = tab.page
    page.set_viewport_size({"width": 390, "height": 500})
    page.goto(f"{origin}/images")
    page.locator("#more").wait_for()
    end_session(page, server)
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.locator("#status", has_text="Your session has ended").wait_for()
    sign_in_by_link(page)
    page.locator("#grid li[data-id]").nth(COUNT - 1).wait_for()


def test_hidden_and_system_files_of_a_folder_are_left_out(tab: Watched, tmp_path: Path) -> None:
    folder = tmp_path / "card"
    (folder / ".trash").mkdir(parents=True)
    (folder / "@eaDir").mkdir()
    for name in ("a.png", ".DS_Store", "._a.png", "Thumbs.db", "desktop.ini", ".trash/b.png", "@eaDir/c.png"):
        (folder / name).write_bytes(make_image(51, 40))
    with tab.page.expect_file_chooser() as chooser:
        tab.page.get_by_role("button", name="Choose a folder").click()
    chooser.value.set_files(folder)
    tab.page.locator(DONE).wait_for()
    assert tab.page.locator(".uploads li").count() == 1
    # Chromium itself leaves out the files of hidden folders.
    assert tab.page.get_by_text("hidden or system files of the folder were left out").is_visible()


def test_a_card_asks_for_its_thumbnail_until_it_is_rendered(tab: Watched) -> None:
    page, statuses = tab.page, iter((503, 503))

    def respond(route: Route) -> None:
        status = next(statuses, None)
        if status is None:
            route.continue_()
        else:
            route.fulfill(status=status, headers={"Retry-After": "1"})

    page.clock.install()
    page.route("**/img/**", respond)
    drop(page, "slow.png")
    page.locator(DONE).wait_for()
    preview = page.locator(f"{DONE} img")
    assert "blob:" in (preview.get_attribute("src") or "")
    for _ in range(100):
        page.clock.run_for(1_000)
        if "/img/" in (preview.get_attribute("src") or ""):
            break
    page.wait_for_function("() => document.querySelector('.uploads .done img').naturalWidth > 0")
    assert "/img/" in (preview.get_attribute("src") or "")
