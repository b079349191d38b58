"""The pages of a host below a path in Chromium: what their scripts request is below it too."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.outside.browser.tabs import LIMITS, PASSWORD, PATIENT, PUT_FILES, OpenTab, sign_in
from tests.ports import free_port

from imagehost_core.testing import make_image
from imagehost_server.testing import running

pytestmark = pytest.mark.external


def test_scripts_stay_below_the_path(open_tab: OpenTab, tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD, encoding="utf-8")
    port = free_port()
    site = f"http://127.0.0.1:{port}/photos"
    variables = {
        **LIMITS,
        **PATIENT,
        "IMAGEHOST_ADMIN_PASSWORD_FILE": str(tmp_path / "password"),
        "IMAGEHOST_BASE_URL": f"{site}/v1",
    }
    with running(tmp_path / "data", "--port", str(port), variables=variables):
        tab = open_tab()
        page = tab.page
        sign_in(page, site)
        page.goto(f"{site}/albums")
        page.evaluate(PUT_FILES, ["main", "drop", [("a.png", "image/png", list(make_image(60, 40)))]])
        link = page.locator(".uploads .done strong a, .uploads .done a").first
        link.wait_for()
        page.goto(f"http://127.0.0.1:{port}{link.get_attribute('href')}")
        assert page.url.startswith(f"{site}/images/")
        assert page.locator("main img").first.evaluate(
            "image => image.decode().then(() => image.naturalWidth)"
        )
        page.goto(f"{site}/images")
        page.locator("#grid input").first.click()
        page.click(".selection [data-action=private]")
        page.locator("#outcome", has_text="Done").wait_for()
        page.goto(f"{site}/v1/docs")
        page.locator(".opblock").first.wait_for()
        page.goto(f"{site}/")
        page.click("form.account button")
        page.wait_for_url(f"{site}/")
        page.locator("a.button.account").wait_for()
        assert all(url.startswith((f"{site}/", "blob:", "data:")) for url in tab.requests)
        assert tab.errors == []
