"""Uploads from pages of another site in Chromium, by the documented examples."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.outside.browser.conftest import UPLOADERS, VERSIONS, Pages
from tests.outside.conftest import PROPERTY
from tests.waiting import PATIENCE

from imagehost_server.testing import RunningServer

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Page, Request

Example = Callable[..., str]
UPPY_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Upload with Uppy</title>
<link rel="stylesheet" href="{name}.css"></head>
<body><div id="uploader"></div><div id="images"></div><script src="{name}.js"></script></body></html>"""

LOADED = """(expected) => {
  const images = [...document.querySelectorAll("#images img")];
  return images.length === expected && images.every((image) => image.complete && image.naturalWidth > 0);
}"""
"""Whether the page shows a number of images, all of them loaded."""


class Row:
    """The row of a client in the table of results.

    Args:
        record: Adds a property to the test's report.
        client: The client's name.
        version: Its version and that of the browser.
    """

    def __init__(self, record: Callable[[str, object], None], client: str, version: str) -> None:
        self._values = {"client": client, "uploads": "NO", "shows URL": "NO", "version": version}
        record(PROPERTY, self._values)

    def require_images(self, page: Page, server: RunningServer, widths: Sequence[int]) -> None:
        """Check that the page shows the uploaded images, of the given widths, by their URLs."""
        page.wait_for_function(LOADED, arg=len(widths))
        urls = page.eval_on_selector_all("#images img", "images => images.map((image) => image.src)")
        shown = page.eval_on_selector_all(
            "#images img", "images => images.map((image) => image.naturalWidth)"
        )
        self._values["uploads"] = "yes"
        assert [url for url in urls if not url.startswith(f"{server.origin}/img/")] == []
        assert sorted(shown) == sorted(widths)
        self._values["shows URL"] = "yes"


def posts(page: Page) -> list[str]:
    """Return a list that gets the URL of each POST request of a page."""
    urls: list[str] = []

    def record(request: Request) -> None:
        if request.method == "POST":
            urls.append(request.url)

    page.on("request", record)
    return urls


@pytest.fixture
def start_row(record_property: Callable[[str, object], None], page: Page) -> Callable[[str, str], Row]:
    def start(client: str, version: str) -> Row:
        assert page.context.browser is not None
        return Row(
            record_property, client, f"{version}, Chromium {page.context.browser.version}".lstrip(", ")
        )

    return start


def open_uppy(page: Page, pages: Pages, npm_packages: Path, name: str, script: str) -> None:
    """Bundle a script that imports Uppy, and open a page with it."""
    bundle(pages, npm_packages, name, script)
    (pages.directory / f"{name}.html").write_text(UPPY_PAGE.format(name=name), encoding="utf-8")
    page.goto(f"{pages.cross_site}/{name}.html")


def bundle(pages: Pages, node_modules: Path, name: str, script: str) -> None:
    """Make one script of a module and of the packages that it imports, beside the pages."""
    source = node_modules.parent / f"{name}.js"
    source.write_text(script, encoding="utf-8")
    esbuild = str(node_modules / ".bin" / "esbuild")
    command = [esbuild, str(source), "--bundle", f"--outfile={pages.directory}/{name}.js"]
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


def open_filepond(page: Page, pages: Pages, npm_packages: Path, name: str, text: str) -> None:
    link = pages.directory / "filepond"
    if not link.exists():
        link.symlink_to(npm_packages / "filepond")
    (pages.directory / f"{name}.html").write_text(text, encoding="utf-8")
    page.goto(f"{pages.cross_site}/{name}.html")


@pytest.mark.parametrize("field", ["image", "file", "files[]", "files"])
def test_fetch_uploads_and_shows_images(
    page: Page,
    pages: Pages,
    server: RunningServer,
    example: Example,
    start_row: Callable[[str, str], Row],
    image_files: list[FilePayload],
    field: str,
) -> None:
    row = start_row(f"fetch, {field}", "")
    replace = {'form.append("image"': f'form.append("{field}"'}
    if field.startswith("files"):
        replace["return data;"] = "return data.images[0];"
    text = example("browser_fetch.html", replace)
    (pages.directory / "fetch.html").write_text(text, encoding="utf-8")
    page.goto(f"{pages.cross_site}/fetch.html")
    page.set_input_files("#files", image_files)
    row.require_images(page, server, [80, 90])


@pytest.mark.parametrize("field", ["image", "file"])
def test_uppy_uploads_a_request_for_each_file(
    page: Page,
    pages: Pages,
    server: RunningServer,
    npm_packages: Path,
    example: Example,
    start_row: Callable[[str, str], Row],
    image_files: list[FilePayload],
    field: str,
) -> None:
    row = start_row(f"Uppy, {field}", VERSIONS["@uppy/core"])
    script = example("browser_uppy.js", {'fieldName: "image"': f'fieldName: "{field}"'})
    open_uppy(page, pages, npm_packages, f"uppy-{field}", script)
    page.set_input_files("input.uppy-Dashboard-input >> nth=0", image_files)
    page.click(".uppy-StatusBar-actionBtn--upload")
    row.require_images(page, server, [80, 90])


def test_uppy_uploads_all_files_in_one_request(
    page: Page,
    pages: Pages,
    server: RunningServer,
    npm_packages: Path,
    example: Example,
    start_row: Callable[[str, str], Row],
    image_files: list[FilePayload],
) -> None:
    row = start_row("Uppy, bundle, files[]", VERSIONS["@uppy/core"])
    open_uppy(page, pages, npm_packages, "uppy-bundle", example("browser_uppy_bundle.js"))
    uploads = posts(page)
    page.set_input_files("input.uppy-Dashboard-input >> nth=0", image_files)
    page.click(".uppy-StatusBar-actionBtn--upload")
    row.require_images(page, server, [80, 90])
    assert uploads == [f"{server.base_url}/upload"]


@pytest.mark.parametrize("field", ["image", "file", "files[]"])
def test_filepond_uploads_and_shows_images(
    page: Page,
    pages: Pages,
    server: RunningServer,
    npm_packages: Path,
    example: Example,
    start_row: Callable[[str, str], Row],
    image_files: list[FilePayload],
    field: str,
) -> None:
    """FilePond sends each file's metadata as a text part with the name of the file's part."""
    row = start_row(f"FilePond, {field}", VERSIONS["filepond"])
    replace = {'name="image"': f'name="{field}"'}
    if field == "files[]":
        replace["data.url"] = "data.images[0].url"
    open_filepond(page, pages, npm_packages, "filepond", example("browser_filepond.html", replace))
    page.set_input_files("input.filepond--browser", image_files)
    row.require_images(page, server, [80, 90])


UPLOADER_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Upload</title></head>
<body><form id="uploader">Upload</form><div id="images"></div><script src="{name}.js"></script>
</body></html>"""
SECTION = re.compile(r"// --8<-- \[start:([\w-]+)\]\n(.*?)// --8<-- \[end:", re.DOTALL)


@pytest.mark.parametrize("package", UPLOADERS)
def test_an_uploader_of_another_origin_uploads_and_shows_images(
    page: Page,
    pages: Pages,
    server: RunningServer,
    uploader_packages: Path,
    example: Example,
    start_row: Callable[[str, str], Row],
    image_files: list[FilePayload],
    package: str,
) -> None:
    """What an uploader adds to its requests by default is allowed by the preflight response."""
    row = start_row(package, UPLOADERS[package])
    sections = dict(SECTION.findall(example("browser_uploaders.js")))
    assert sections.keys() == {"common", *UPLOADERS}
    bundle(pages, uploader_packages, package, sections["common"] + sections[package])
    (pages.directory / f"{package}.html").write_text(UPLOADER_PAGE.format(name=package), encoding="utf-8")
    page.goto(f"{pages.cross_site}/{package}.html")
    page.set_input_files("input[type=file]", image_files)
    row.require_images(page, server, [80, 90])
