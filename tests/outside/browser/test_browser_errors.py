"""Errors in Chromium: pages of another site can read them, and what such pages cannot do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.outside.browser.conftest import Pages
from tests.outside.browser.test_browser_uploads import Example, open_filepond, open_uppy, posts

from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_server.testing import RunningServer, running

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Page

FETCH = """async ([url, method, headers, size]) => {
  const options = { method, headers };
  if (size !== null) {
    options.body = new FormData();
    options.body.append("image", new File([new Uint8Array(size)], "cat.png", { type: "image/png" }));
  }
  try {
    const response = await fetch(url, options);
    const text = await response.text();
    return { status: response.status, headers: Object.fromEntries(response.headers), text };
  } catch (error) {
    return { error: String(error) };
  }
}"""
"""Sends a request, with a file of a size; returns what the page can read of the response."""

Fetch = Callable[..., dict[str, Any]]


@pytest.fixture
def fetch(page: Page) -> Fetch:
    """Sends a request from a page of another site; returns status, headers and text, or the error."""

    def send(url: str, *, method: str = "GET", token: str = "", size: int | None = None) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        result: dict[str, Any] = page.evaluate(FETCH, [url, method, headers, size])
        return result

    return send


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that accepts one upload a minute, and lists another origin than those of the pages."""
    variables = {"IMAGEHOST_LIMITS_UPLOADS_PER_MINUTE": "1"}
    with running(tmp_path_factory.mktemp("limited") / "data", variables=variables) as server:
        yield server


@pytest.mark.parametrize("size", [100, 20_000_000], ids=["small", "large"])
@pytest.mark.parametrize("token", ["", f"ihk_{'0' * 36}"], ids=["missing", "unknown"])
def test_401_is_readable(fetch: Fetch, server: RunningServer, token: str, size: int) -> None:
    response = fetch(f"{server.base_url}/upload", method="POST", token=token, size=size)
    assert response.get("status") == 401, response
    assert "UNAUTHORIZED" in response["text"]
    assert len(response["headers"]["x-request-id"]) == 24


def test_413_is_readable(fetch: Fetch, server: RunningServer) -> None:
    size = MAX_FILE_BYTES + 1
    response = fetch(f"{server.base_url}/upload", method="POST", token=server.token, size=size)
    assert response.get("status") == 413, response
    assert str(size) in response["text"]


def test_429_is_readable_with_its_headers(fetch: Fetch, limited: RunningServer) -> None:
    # The window may end once meanwhile.
    responses = [
        fetch(f"{limited.base_url}/upload", method="POST", token=limited.token, size=100) for _ in range(3)
    ]
    refused = [response for response in responses if response.get("status") == 429]
    assert refused, responses
    headers = refused[0]["headers"]
    assert int(headers["retry-after"]) >= 1
    assert (headers["x-ratelimit-limit"], headers["x-ratelimit-remaining"]) == ("1", "0")
    assert int(headers["x-ratelimit-reset"]) > 0


@pytest.mark.parametrize(
    ("method", "path", "size", "status"),
    [
        ("GET", "/images?page=0", None, 400),
        ("GET", "/nothing", None, 404),
        ("PATCH", "/upload", None, 405),
        ("POST", "/upload", 100, 415),
    ],
)
def test_other_errors_are_readable(
    fetch: Fetch, server: RunningServer, method: str, path: str, size: int | None, status: int
) -> None:
    response = fetch(f"{server.base_url}{path}", method=method, token=server.token, size=size)
    assert response.get("status") == status, response
    assert '"success":false' in response["text"]


def test_errors_of_image_urls_are_readable(fetch: Fetch, server: RunningServer) -> None:
    assert fetch(f"{server.origin}/img/{'0' * 16}")["status"] == 404


@pytest.mark.parametrize("path", ["/keys", "/session", "/sessions", "/accounts", "/account/password"])
def test_other_origins_cannot_use_the_routes_of_sessions_and_keys(
    fetch: Fetch, server: RunningServer, path: str
) -> None:
    assert fetch(f"{server.base_url}/account", token=server.token)["status"] == 200
    for token in ("", server.token):
        assert "Failed to fetch" in fetch(f"{server.base_url}{path}", token=token)["error"]


def test_only_listed_origins_can_use_the_api(page: Page, pages: Pages, fetch: Fetch, tmp_path: Path) -> None:
    variables = {"IMAGEHOST_CORS_ORIGINS": pages.same_site}
    with running(tmp_path / "data", variables=variables) as server:
        assert "Failed to fetch" in fetch(f"{server.base_url}/gallery")["error"]
        assert "Failed to fetch" in fetch(f"{server.base_url}/account", token=server.token)["error"]
        page.goto(pages.same_site)
        assert fetch(f"{server.base_url}/gallery")["status"] == 200
        assert fetch(f"{server.base_url}/account", token=server.token)["status"] == 200


# What the user of a page reads.


@pytest.fixture
def text_file() -> list[FilePayload]:
    return [{"name": "cat.png", "mimeType": "image/png", "buffer": b"no image"}]


def test_the_fetch_example_shows_the_details_of_an_error(
    page: Page, pages: Pages, example: Example, text_file: list[FilePayload]
) -> None:
    (pages.directory / "fetch.html").write_text(example("browser_fetch.html"), encoding="utf-8")
    page.goto(f"{pages.cross_site}/fetch.html")
    page.set_input_files("#files", text_file)
    page.wait_for_selector("text=cat.png: expected content of JPEG")


@pytest.mark.parametrize("name", ["browser_uppy.js", "browser_uppy_bundle.js"])
def test_uppy_shows_the_details_of_an_error_and_does_not_repeat_the_request(
    page: Page,
    pages: Pages,
    npm_packages: Path,
    example: Example,
    text_file: list[FilePayload],
    name: str,
) -> None:
    uploads = posts(page)
    open_uppy(page, pages, npm_packages, name.removesuffix(".js"), example(name))
    page.set_input_files("input.uppy-Dashboard-input >> nth=0", text_file)
    page.click(".uppy-StatusBar-actionBtn--upload")
    page.wait_for_selector("text=cat.png: expected content of JPEG")
    page.wait_for_selector("text=Upload failed")
    assert len(uploads) == 1


def test_filepond_shows_the_details_of_an_error(
    page: Page, pages: Pages, npm_packages: Path, example: Example, text_file: list[FilePayload]
) -> None:
    open_filepond(page, pages, npm_packages, "filepond", example("browser_filepond.html"))
    page.set_input_files("input.filepond--browser", text_file)
    page.wait_for_selector("text=expected content of JPEG")
