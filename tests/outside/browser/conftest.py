"""Chromium, web pages of another origin, and the server that they use."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from attrs import frozen
from tests.outside.browser.tabs import TIMEOUT_MILLISECONDS, WIDE, OpenTab, Watched, sign_in
from tests.outside.packages import install_npm
from tests.shipped_files import shipped

from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page, StorageState

VERSIONS = {
    "@uppy/core": "6.3.1",
    "@uppy/dashboard": "6.0.3",
    "@uppy/xhr-upload": "6.0.0",
    "esbuild": "0.28.2",
    "filepond": "4.32.12",
}
"""The npm packages that the pages load; `esbuild` makes one script of those that consist of modules."""

UPLOADERS = {
    "antd": "5.29.3",
    "blueimp-file-upload": "10.32.0",
    "dropzone": "6.3.5",
    "element-plus": "2.14.8",
    "fine-uploader": "5.16.2",
    "plupload": "2.3.9",
}
"""The npm packages of uploaders that the page on browser uploads has a section for."""

FRAMEWORKS = {"jquery": "3.7.1", "react": "18.3.1", "react-dom": "18.3.1", "vue": "3.5.45"}
"""The npm packages that some of them need."""

PLACEHOLDERS = ("https://images.example.com/v1", "ihk_TOKEN")
"""Base URL and token in the documented examples."""

NO_LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in ("API_PER_MINUTE", "UPLOADS_PER_MINUTE", "UNAUTHENTICATED_PER_MINUTE", "SIGN_INS_PER_MINUTE")
}


@pytest.fixture(scope="session")
def npm_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory `node_modules` with the packages of `VERSIONS`."""
    return install_npm(tmp_path_factory.mktemp("pages"), VERSIONS)


@pytest.fixture(scope="session")
def uploader_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory `node_modules` with the packages of `UPLOADERS`."""
    versions = {**UPLOADERS, **FRAMEWORKS, "esbuild": VERSIONS["esbuild"]}
    return install_npm(tmp_path_factory.mktemp("uploaders"), versions)


@frozen
class Pages:
    """Files that are served on origins other than that of the image host.

    Attributes:
        directory: The directory that is served.
        same_site: An origin of the image host's site: another port.
        cross_site: An origin of another site.
    """

    directory: Path
    same_site: str
    cross_site: str


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Do not write to the standard error."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    directory = tmp_path_factory.mktemp("site")
    (directory / "index.html").write_text("<!doctype html><title>page</title>", encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=directory)) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        port = http.server_address[1]
        try:
            yield Pages(directory, f"http://127.0.0.1:{port}", f"http://localhost:{port}")
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server without rate limits that allows every origin."""
    with running(tmp_path_factory.mktemp("server") / "data", variables=NO_LIMITS) as server:
        yield server


# The scope is not the session: while Playwright runs, no test can use asyncio.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium without a window."""
    executable = shutil.which("chromium")
    if executable is None:
        pytest.skip("NOT TESTED in a browser: chromium is not installed")
    playwright = pytest.importorskip("playwright.sync_api", reason="NOT TESTED in a browser: no playwright")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=executable, headless=True)
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser context without cookies."""
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT_MILLISECONDS)
    yield context
    context.close()


@pytest.fixture
def open_tab(browser: Browser) -> Iterator[OpenTab]:
    """Opens a tab in a context of its own."""
    contexts = []

    def open_(**options: object) -> Watched:
        context = browser.new_context(**{"viewport": WIDE, **options})  # type: ignore[arg-type]
        context.set_default_timeout(TIMEOUT_MILLISECONDS)
        contexts.append(context)
        return Watched(context)

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def origin(server: RunningServer) -> str:
    """The origin of the server of the module."""
    return server.base_url.removesuffix("/v1")


@pytest.fixture(scope="module")
def session_cookies(browser: Browser, origin: str) -> StorageState:
    """The cookies of a session of `admin` on the server of the module, for the tabs of several tests."""
    context = browser.new_context(ignore_https_errors=True)
    context.set_default_timeout(TIMEOUT_MILLISECONDS)
    sign_in(context.new_page(), origin)
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def page(context: BrowserContext, pages: Pages) -> Page:
    """A tab with an empty page of another site."""
    page = context.new_page()
    page.goto(pages.cross_site)
    return page


@pytest.fixture
def example(server: RunningServer) -> Callable[..., str]:
    """Returns a documented example with the server's base URL and token, or with another token."""

    def read(name: str, replace: Mapping[str, str] | None = None, token: str | None = None) -> str:
        values = dict(zip(PLACEHOLDERS, (server.base_url, token or server.token), strict=True))
        return shipped(f"docs/examples/{name}", {**values, **(replace or {})})

    return read


@pytest.fixture
def image_files() -> list[dict[str, object]]:
    """Two PNGs of different widths, as Playwright takes them for a file input."""
    return [
        {"name": f"cat {width}.png", "mimeType": "image/png", "buffer": make_image(width, 60)}
        for width in (80, 90)
    ]
