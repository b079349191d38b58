"""Tabs of Chromium with the web pages: what they log and request, signing in, and dropping files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from imagehost_server.testing import RunningServer, running

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, ConsoleMessage, Page

TIMEOUT_MILLISECONDS = 180_000
"""How long a test waits for a page, also on a busy machine."""
WIDE, NARROW = {"width": 1300, "height": 900}, {"width": 390, "height": 844}
LIMITS = {
    f"IMAGEHOST_LIMITS_{name}": "0"
    for name in (
        "API_PER_MINUTE",
        "API_PER_HOUR",
        "UPLOADS_PER_MINUTE",
        "PAGES_PER_MINUTE",
        "UNAUTHENTICATED_PER_MINUTE",
        "SIGN_INS_PER_MINUTE",
    )
}
PATIENT = {
    f"IMAGEHOST_{name}_TIMEOUT_SECONDS": "120" for name in ("RENDERING_RENDER", "RENDERING_INGEST", "LISTS")
}
"""Settings of a server that a busy machine slows down.

The page that shows an image first has it rendered, with dozens of others. A render that would take longer
than its limit is refused (503), which Chromium reports as an error in the console.
"""
PAGES = ("/", "/a/1", "/i/{id}", "/nothing", "/login")
"""The pages without a session, where `{id}` is an image; `/a/1` is an album."""
ACCOUNT_PAGES = (
    "/upload",
    "/images",
    "/images?view=list",
    "/images/{id}",
    "/albums",
    "/albums/1",
    "/settings",
    "/settings/webhooks",
    "/admin",
    "/admin/accounts/1",
)
"""The pages of an operator."""
PASSWORD = "correct horse battery staple"
PUT_FILES = """([selector, kind, files]) => {
  const transfer = new DataTransfer();
  for (const [name, type, bytes] of files) {
    transfer.items.add(new File([new Uint8Array(bytes)], name, {type}));
  }
  const target = document.querySelector(selector);
  const init = {bubbles: true, cancelable: true};
  const event = kind === "paste"
    ? new ClipboardEvent("paste", {...init, clipboardData: transfer})
    : new DragEvent(kind, {...init, dataTransfer: transfer});
  target.dispatchEvent(event);
}"""
"""Drops or pastes files on an element."""


class Watched:
    """A tab, the errors in its console, and the URLs that it requested."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._record_message)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _record_message(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(f"{message.text} ({message.location['url']})")


OpenTab = Callable[..., Watched]


def sign_in(page: Page, origin: str, path: str = "/upload", name: str = "admin") -> None:
    page.goto(f"{origin}{path}")
    page.fill("#name", name)
    page.fill("#password", PASSWORD)
    page.click("main button")
    page.wait_for_url(f"**{path}")


@contextmanager
def running_for_pages(directory: Path, *flags: str, **variables: str) -> Iterator[RunningServer]:
    """Run a server without rate limits in an empty directory, whose `admin` has the password `PASSWORD`."""
    (directory / "password").write_text(PASSWORD, encoding="utf-8")
    password = {"IMAGEHOST_ADMIN_PASSWORD_FILE": str(directory / "password")}
    with running(
        directory / "data", *flags, variables={**LIMITS, **PATIENT, **password, **variables}
    ) as server:
        yield server
