"""Measure the page of a large library in Chromium: memory of the tab, and the time to its end.

    python -m bench.library [--images 50000] [--album] [--scroll 4000] [--seconds 60] [--keep]

Records of photographs of five years are written, all with one small file; requests for thumbnails are
answered by Playwright. The list is that of the account, or with `--album` that of an album with all images.
It is scrolled to its end until it has as many images as wanted; then it is opened again, the key End is
pressed until the oldest image has the focus, its oldest month is opened, and all images are selected and
made private, moved, downloaded and deleted. Memory is the PSS of the renderer's process after a garbage
collection. With `--keep`, images that are far from the window stay in memory, as without `unload.js`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import evolve
from bench.catalog import URLS, Catalog, batches, make_images
from PIL import Image as PillowImage
from tests.outside.browser.tabs import running_for_pages, sign_in

from imagehost_core import ImageHost
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page, Route

NO_BULK_LIMIT = {"IMAGEHOST_LIMITS_BULK_IDS_PER_MINUTE": "0"}
SPAN = timedelta(days=5 * 365)
END = "() => document.querySelectorAll('#grid [data-id]').length"

LAST_FOCUSED = "(id) => document.activeElement.closest('[data-id]')?.dataset.id === id"
ALL_SELECTED = """(count) =>
  Number(document.querySelector(".selection strong").textContent.replace(/\\D/g, "")) === count"""
KEEP = "addEventListener('contentvisibilityautostatechange', (e) => e.stopImmediatePropagation(), true)"
SCROLL = """async ([count, seconds]) => {
  const deadline = performance.now() + 1000 * seconds;
  const items = () => document.querySelectorAll("#grid [data-id]");
  while (items().length < count && performance.now() < deadline) {
    scrollTo(0, document.documentElement.scrollHeight);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}"""
"""Scrolls to the end of what is loaded until the list has a number of images, or some seconds have passed."""


def pss_mib(process: int) -> float:
    """Return the proportional set size of a process."""
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise LookupError(process)


def memory(page: Page, session: CDPSession) -> dict[str, float]:
    """Return the memory of the tab, and the number of its nodes and of images that are loaded."""
    session.send("HeapProfiler.collectGarbage")
    page.wait_for_timeout(2_000)
    browser = page.context.browser
    assert browser is not None
    processes: list[dict[str, Any]] = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")[
        "processInfo"
    ]
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    return {
        "MiB": max(pss_mib(each["id"]) for each in processes if each["type"] == "renderer"),
        "nodes": metrics["Nodes"],
        "loaded": page.evaluate(
            "() => [...document.images].filter((i) => i.complete && i.naturalWidth).length"
        ),
    }


def thumbnail() -> bytes:
    """Return a JPEG of few bytes, as Playwright keeps the bodies of responses in the tab."""
    file = BytesIO()
    PillowImage.linear_gradient("L").resize((320, 240)).convert("RGB").save(file, "JPEG", quality=55)
    return file.getvalue()


def fill(data: Path, count: int) -> str:
    """Write images from now to five years ago; return the id of the oldest."""
    with ImageHost.open(data, settings=Settings(base_url="http://127.0.0.1:1/v1")) as host:
        album = host.albums.create("Holidays", owner="admin").id
        host.accounts.update("admin", quota_bytes=10**15)
        now = host.now()
    images = [
        evolve(image, album_id=album, created_at=(at := now - SPAN * (count - n) / count), updated_at=at)
        for n, image in enumerate(make_images(count))
    ]
    original = data / "original"
    original.write_bytes(thumbnail())
    for image in images:
        master = data / "images" / image.id[:2] / image.id / "master"
        master.parent.mkdir(parents=True)
        master.hardlink_to(original)
    original.unlink()
    with closing(SqliteDatabase(data / "imagehost.sqlite3", LockManager(data / "locks"))) as database:
        records = Repositories.of(database, os.urandom, URLS, list_timeout_seconds=10, with_purges=False)
        catalog = Catalog(database, UnitOfWorkFactory(records, Environment()))
        for batch in batches(images, 1_000):
            catalog.upload(batch)
    return images[0].id


def report(name: str, start: float, page: Page, session: CDPSession) -> None:
    """Print a row."""
    seconds = time.monotonic() - start
    print(f"{name}: {seconds:.1f} s, {page.evaluate(END)} images, ", memory(page, session), flush=True)


def press_end(page: Page, oldest: str) -> int:
    """Press the key End until the oldest image has the focus; return how often that was."""
    from playwright.sync_api import TimeoutError as PlaywrightTimeout

    page.locator("#grid a").first.focus()
    for count in range(1, 100):
        page.keyboard.press("End")
        with suppress(PlaywrightTimeout):  # the key may lead to another address
            page.wait_for_function(LAST_FOCUSED, arg=oldest, timeout=500)
            return count
    raise LookupError(oldest)


def open_list(page: Page, url: str) -> None:
    """Open a list at its beginning, where the navigation to the address of the page would be a reload."""
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_selector("#grid input")


def change_all(page: Page, count: int) -> None:
    """Select all images; make them private, move, download and delete them, and print the times."""

    def done() -> None:
        page.wait_for_function("() => !document.querySelector('.selection').inert", timeout=3_600_000)

    def select() -> None:
        page.keyboard.press("Control+a")
        page.wait_for_function(ALL_SELECTED, arg=count)

    timed("select all", select)
    with page.expect_download(timeout=3_600_000) as download:
        page.click("[data-action=download]")
    timed("download", lambda: download.value.path())
    page.click("[data-action=private]")
    timed("make private", done)
    page.select_option("[data-choice=album]", "")
    page.click("[data-action=album]")
    timed("move", done)
    page.on("dialog", lambda dialog: dialog.accept())
    if not page.is_visible("[data-action=delete]"):  # an album is empty now
        page.goto(page.url.split("/albums/")[0] + "/images")
        page.locator("#grid input").first.wait_for()
        timed("select all", select)
    page.click("[data-action=delete]")
    timed("delete", done)


def timed(name: str, wait: Callable[[], object]) -> None:
    """Print how long something takes."""
    start = time.monotonic()
    wait()
    print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)


def main() -> None:
    """Build, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--scroll", type=int, default=4_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--album", action="store_true")
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    jpeg = thumbnail()

    def answer(route: Route) -> None:
        route.fulfill(body=jpeg, content_type="image/jpeg", headers={"cache-control": "max-age=86400"})

    with tempfile.TemporaryDirectory() as directory, sync_playwright() as driver:
        path = Path(directory)
        with running_for_pages(path, **NO_BULK_LIMIT) as server:
            origin = server.base_url.removesuffix("/v1")
        oldest = fill(path / "data", arguments.images)
        with running_for_pages(path, **NO_BULK_LIMIT) as server:
            origin = server.base_url.removesuffix("/v1")
            browser = driver.chromium.launch(executable_path="/usr/bin/chromium", headless=True)
            page = browser.new_page(viewport={"width": 1300, "height": 900})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable")
            sign_in(page, origin)
            page.route("**/img/**", answer)
            if arguments.keep:
                page.add_init_script(KEEP)
            start = time.monotonic()
            url = f"{origin}/albums/1" if arguments.album else f"{origin}/images"
            open_list(page, url)
            report("opened", start, page, session)
            start = time.monotonic()
            page.evaluate(SCROLL, [arguments.scroll, arguments.seconds])
            report("scrolled", start, page, session)
            open_list(page, url)
            start = time.monotonic()
            print(f"End pressed {press_end(page, oldest)} times", flush=True)
            report("oldest image", start, page, session)
            open_list(page, url)
            start = time.monotonic()
            last = page.get_attribute("#months", "data-last")
            page.goto(f"{origin}{last}")
            page.wait_for_selector("#grid input")
            report("oldest month", start, page, session)
            open_list(page, url)
            change_all(page, arguments.images)
            report("deleted", time.monotonic(), page, session)
            browser.close()


if __name__ == "__main__":
    main()
