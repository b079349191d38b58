"""German pages: none of their texts is in English, but what a receiver of webhooks says, names and codes."""

from __future__ import annotations

from html.parser import HTMLParser

import httpx2
import pytest
from tests.core.headers.test_headers_camera import photograph
from tests.server.web.conftest import SignedIn

from imagehost_core import ImageHost
from imagehost_server.web.catalog import texts_of

SHOWN = ("alt", "aria-label", "placeholder", "title")


class ShownTexts(HTMLParser):
    """The texts of a page and of its attributes, without those that are marked as English."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._skipped = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag in ("script", "code") or values.get("lang") == "en":
            self._skipped = self._skipped or tag
        self.texts += [values[name] or "" for name in SHOWN if name in values]

    def handle_endtag(self, tag: str) -> None:
        if tag == self._skipped:
            self._skipped = ""

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.texts.append(" ".join(data.split()))


@pytest.fixture
def english() -> set[str]:
    """The English texts that are others in German."""
    german = texts_of("de").entries
    return {text for key, text in texts_of("en").entries.items() if text != german[key]}


def test_no_text_of_a_german_page_is_english(
    host: ImageHost, owner: httpx2.Client, visitor: httpx2.Client, session: SignedIn, english: set[str]
) -> None:
    image = host.upload(photograph(), owner="admin")
    album = host.albums.create(owner="admin", name="Ferien")
    host.keys.create(owner="admin", name="Schlüssel", scopes=["images:read"])
    german = {"Accept-Language": "de"}
    pages = [visitor.get(path, headers=german) for path in ("/", f"/i/{image.id}", "/login", "/nothing")]
    pages += [
        owner.get(path, headers=german)
        for path in (
            "/upload",
            "/images",
            "/images?view=list",
            f"/images/{image.id}",
            "/albums",
            f"/albums/{album.id}",
            "/settings",
            "/settings/webhooks",
            "/admin",
            "/admin/accounts/1",
        )
    ]
    form = {"csrf_token": session.csrf, "expires_in": "0"}
    pages.append(owner.post(f"/images/{image.id}/sign", data=form, headers=german))
    assert pages[-1].status_code == 422
    for page in pages:
        assert '<html lang="de">' in page.text
        shown = ShownTexts(page.text).texts
        assert len(shown) > 10
        assert sorted(english & set(shown)) == [], page.url
