"""Attacks on the pages: hostile texts, forms of other sites, fixed sessions, and requests out of bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import httpx2
import pytest
from attrs import evolve
from tests.open_host import open_host
from tests.server.conftest import hash_quickly
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, PASSWORD, SETTINGS, SignedIn
from tests.server.web.test_web_gallery import HOSTILE, Tags
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.errors import UnauthorizedError
from imagehost_core.testing import make_image
from imagehost_server.auth.cookies import SESSION_COOKIE
from imagehost_server.settings import GallerySettings
from imagehost_server.web.router import HANDLERS

ORIGIN = SETTINGS.base_url.removesuffix("/v1")
FORMS = sorted(
    path
    for handler in HANDLERS
    if "POST" in handler.http_methods
    for path in handler.paths
    if path not in ("/login", "/s/{token:str}", "/i/{image_id:str}/delete")
)
"""The paths of all forms that require a session."""


@pytest.fixture
def mallory(host: ImageHost) -> SignedIn:
    return SignedIn(host, "mallory")


@pytest.fixture
def browser(origin: str, mallory: SignedIn) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=origin, timeout=PATIENCE, headers=mallory.headers) as client:
        yield client


def concrete(path: str) -> str:
    """Return a path with a value for each parameter."""
    return re.sub(r"\{\w+:?\w*\}", "1", path)


def require_text_only(page: str) -> None:
    """Assert that a page has no script, handler or URL of its values."""
    tags = Tags(page)
    types = {tag.get("type") for tag in tags.all("script")}
    assert types <= {"module", "application/json", "application/ld+json"}
    assert not [tag for tag in tags.all("img") if tag.get("src") == "x"]
    for _, attributes in tags.tags:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action"):
            assert not (attributes.get(name) or "").strip().lower().startswith(("javascript:", "data:"))
    for kind in ("application/json", "application/ld+json"):
        for block in re.findall(rf'<script type="{re.escape(kind)}"[^>]*>(.*?)</script>', page, re.DOTALL):
            json.loads(block)


def test_hostile_texts_are_text_on_every_page_of_their_account(
    host: ImageHost, browser: httpx2.Client, mallory: SignedIn
) -> None:
    album = host.albums.create(owner="mallory", name=HOSTILE[:90], description=HOSTILE)
    image = host.upload(
        make_image(40, 30),
        owner="mallory",
        filename=f"{HOSTILE}.png",
        description=HOSTILE,
        album_id=album.id,
        is_public=False,
    )
    host.keys.create(owner="mallory", name=HOSTILE[:90], scopes=["images:read"])
    host.sessions.create(host.accounts.get("mallory"), user_agent=HOSTILE)
    pages = [
        browser.get(path).text
        for path in (
            "/images",
            "/images?view=list",
            f"/images/{image.id}",
            "/albums",
            f"/albums/{album.id}",
            "/upload",
            "/settings",
        )
    ]
    pages.append(browser.get("/images", params={"q": HOSTILE, "view": HOSTILE}).text)
    pages.append(browser.get(f"/albums/{album.id}", params={"sort": HOSTILE}).text)
    pages.append(browser.get("/images", params={"cursor": HOSTILE}).text)
    form = {"csrf_token": mallory.csrf}
    pages.append(browser.post("/settings/webhooks", data={**form, "url": HOSTILE, "events": HOSTILE}).text)
    pages.append(browser.post("/albums", data={**form, "name": HOSTILE * 5}).text)
    pages.append(browser.post(f"/images/{image.id}", data={**form, "album_id": HOSTILE}).text)
    pages.append(browser.post(f"/images/{image.id}/sign", data={**form, "expires_in": HOSTILE}).text)
    for page in pages:
        assert "<h1" in page
        require_text_only(page)
    assert sum("&lt;script&gt;" in page for page in pages) > 7


def test_hostile_texts_are_text_on_the_pages_of_webhooks_and_operators() -> None:
    host = open_host(settings=evolve(SETTINGS, webhooks=evolve(SETTINGS.webhooks, allow_loopback=True)))
    session = SignedIn(host)
    webhook = host.webhooks.create(
        owner="admin", url="http://127.0.0.1:9/?\"'><script>", events=[], description=HOSTILE
    )
    with (
        serving(host, SETTINGS) as origin,
        httpx2.Client(base_url=origin, headers=session.headers) as client,
    ):
        form = {"csrf_token": session.csrf}
        for page in (
            client.get("/settings/webhooks"),
            client.get(f"/settings/webhooks/{webhook.id}"),
            client.post("/admin/accounts", data={**form, "name": HOSTILE}),
            client.post("/admin/accounts/1", data={**form, "api_per_day": HOSTILE, "role": HOSTILE}),
            client.get("/admin"),
        ):
            assert "<h1" in page.text
            require_text_only(page.text)


def test_a_hostile_name_is_text_on_the_page_for_signing_in(visitor: httpx2.Client) -> None:
    response = visitor.post("/login", data={"name": HOSTILE, "password": "x", "next": f"/{HOSTILE}"})
    assert response.status_code == 401
    require_text_only(response.text)


@pytest.mark.parametrize("path", FORMS)
def test_every_form_needs_the_token_of_the_session_and_the_origin_of_the_pages(
    browser: httpx2.Client, mallory: SignedIn, path: str
) -> None:
    url = concrete(path)
    for form in ({"name": "x"}, {"csrf_token": ""}, {"csrf_token": mallory.csrf[::-1]}):
        files = {"files[]": ("a.png", make_image(8, 8))} if path == "/upload" else None
        assert browser.post(url, data=form, files=files).status_code == 403, form
    form = {"csrf_token": mallory.csrf}
    for headers in (
        {"Origin": "null"},
        {"Origin": "https://example.com"},
        {"Origin": ORIGIN.replace("http://", "https://")},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "null"},
    ):
        assert browser.post(url, data=form, headers=headers).status_code == 403, headers
    assert browser.get("/settings").status_code == 200


@pytest.mark.parametrize("path", FORMS)
def test_no_link_can_do_what_a_form_does(browser: httpx2.Client, mallory: SignedIn, path: str) -> None:
    response = browser.get(concrete(path), params={"csrf_token": mallory.csrf, "name": "by a link"})
    assert response.status_code in (200, 303, 403, 404)
    assert browser.get("/settings").status_code == 200
    assert "by a link" not in browser.get("/albums").text


@pytest.mark.parametrize("path", FORMS)
def test_every_form_without_a_session_leads_to_the_page_for_signing_in(
    visitor: httpx2.Client, path: str
) -> None:
    response = visitor.post(concrete(path), data={"name": "x"})
    if path != "/logout":
        assert response.headers["location"].startswith("/login")
    assert response.status_code == 303


def test_signing_in_ends_the_session_that_the_browser_had(host: ImageHost, visitor: httpx2.Client) -> None:
    planted = SignedIn(host, "mallory")
    response = visitor.post(
        "/login",
        data={"name": "admin", "password": PASSWORD, "csrf_token": planted.csrf},
        headers=planted.headers,
    )
    (cookie,) = [c for c in response.headers.get_list("set-cookie") if c.startswith(SESSION_COOKIE)]
    assert planted.token not in cookie
    with pytest.raises(UnauthorizedError):
        host.authenticate(planted.token)


def test_the_session_of_a_suspended_account_is_refused_at_once(host: ImageHost, origin: str) -> None:
    session = SignedIn(host, "trudy")
    with httpx2.Client(base_url=origin, headers=session.headers) as client:
        assert client.get("/settings").status_code == 200
        host.accounts.update("trudy", suspended=True)
        assert client.get("/settings").headers["location"] == "/login?next=/settings"
        host.accounts.set_password_hash("trudy", hash_quickly(PASSWORD))
        form = {"name": "trudy", "password": PASSWORD}
        with httpx2.Client(base_url=origin, headers=HTML) as visitor:
            assert visitor.post("/login", data=form).status_code == 401
    host.accounts.update("trudy", suspended=False)


def test_sign_in_attempts_of_the_page_and_of_the_api_have_one_limit() -> None:
    settings = evolve(SETTINGS, limits=evolve(SETTINGS.limits, sign_ins_per_minute=3))
    with (
        serving(open_host(settings=settings), settings) as origin,
        httpx2.Client(base_url=origin, headers=HTML) as client,
    ):
        form = {"name": "admin", "password": "wrong"}
        # The window may end once between the requests.
        pages = [client.post("/login", data=form) for _ in range(7)]
        refused = [page for page in pages if page.status_code == 429]
        assert len(refused) >= 1
        assert all(int(page.headers["retry-after"]) in range(1, 61) for page in refused)
        assert "Too many attempts" in refused[0].text
        body = {"username": "admin", "password": "wrong"}
        statuses = {client.post("/v1/session", json=body).status_code for _ in range(7)}
        assert 429 in statuses


def test_a_refused_page_costs_no_look_at_the_session() -> None:
    settings = evolve(SETTINGS, limits=evolve(SETTINGS.limits, pages_per_minute=1))
    host = open_host(settings=settings)
    session = SignedIn(host)
    with (
        serving(host, settings) as origin,
        httpx2.Client(base_url=origin, headers=session.headers) as client,
    ):
        refused = [page for page in (client.get("/settings") for _ in range(4)) if page.status_code == 429]
        assert refused
        assert "Sign in" in refused[0].text
        assert refused[0].headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "url", ["http://[", "http://[::1/i/1", "", "i/1", f"{ORIGIN}/i/../admin", f"{ORIGIN}/i/" + "1" * 4000]
)
def test_the_description_of_a_malformed_url_is_a_404(visitor: httpx2.Client, url: str) -> None:
    assert visitor.get("/oembed", params={"url": url}).status_code == 404


def test_a_closed_gallery_describes_no_image_to_visitors() -> None:
    settings = evolve(SETTINGS, gallery=GallerySettings(require_sign_in=True))
    host = open_host(settings=settings)
    image = host.upload(make_image(30, 20), owner="admin", description="closed")
    session = SignedIn(host)
    with serving(host, settings) as origin, httpx2.Client(base_url=origin) as client:
        params = {"url": f"{ORIGIN}/i/{image.id}"}
        refused = client.get("/oembed", params=params, headers=HTML)
        assert refused.status_code == 401
        assert "closed" not in refused.text
        shown = client.get("/oembed", params=params, headers=session.headers)
        assert shown.json()["title"] == "closed"
        assert shown.headers["cache-control"] == "no-store"


def test_pages_of_a_session_and_their_errors_are_stored_by_no_cache(browser: httpx2.Client) -> None:
    for path in ("/", "/settings", "/images", "/albums", "/nothing", "/images/0000000000000000", "/admin"):
        response = browser.get(path)
        assert response.headers["cache-control"] == "no-store", path
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"], path


def test_the_query_of_a_page_survives_signing_in(visitor: httpx2.Client) -> None:
    location = visitor.get("/images?q=a%26b&view=list").headers["location"]
    page = visitor.get(location).text
    assert 'name="next" value="/images?q=a%26b&amp;view=list"' in page
