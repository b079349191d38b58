"""A site below the path `/photos` of another one: what its users do, and all that it refers to."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx2

from imagehost_core.testing import make_image
from imagehost_server.auth.cookies import csrf_token

ROOT = "/photos"
HTML = {"Accept": "text/html"}
URL = re.compile(r"https?://[^\s\"<>()\[\]\\]+")
MODULE = re.compile(r"(?:from |import |import\()\"(\./[a-z]+\.js)\"")


class References(HTMLParser):
    """The references of a page: URLs of GET requests, and the targets of forms that are sent."""

    def __init__(self, page: httpx2.Response) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: list[str] = []
        self.values: dict[str, str] = {}
        self.feed(page.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "form" and values.get("method") == "post":
            self.forms.append(values.pop("action"))
        names = ("action", "href", "src", "data-animation", "data-url")
        self.links += [values[name] for name in names if values.get(name)]
        self.links += [part.split()[0] for part in values.get("srcset", "").split(", ") if part]
        self.links += [values["content"]] if values.get("content", "").startswith("http") else []
        self.links += [f"{values['data-api']}/account"] if "data-api" in values else []
        if tag == "input":
            self.values[values.get("name", "")] = values.get("value", "")


class Walk:
    """Requests all that a site refers to, and requires that the site has it."""

    def __init__(self, client: httpx2.Client, *starts: str) -> None:
        self.client, self.origin = client, str(client.base_url).rstrip("/")
        self.seen: set[str] = set()
        self.forms: set[str] = set()
        self.waiting = [f"{self.origin}{start}" for start in starts]
        while self.waiting:
            self.visit(self.waiting.pop())

    def visit(self, url: str) -> None:
        response = self.client.get(url, headers=HTML)
        where = f"{url}: {response.status_code} {response.text[:200]}"
        assert response.status_code in (200, 303), where
        if "location" in response.headers:
            self.add(url, response.headers["location"])
        kind = response.headers.get("content-type", "")
        if not kind.startswith(("image/", "text/css", "text/plain")):
            texts = URL.findall(unescape(unescape(response.text)))
            for link in (text for text in texts if text.startswith(self.origin)):
                self.add(url, link)
        if kind.startswith("text/html"):
            page = References(response)
            for link in page.links:
                self.add(url, link)
            for form in {urljoin(url, form) for form in page.forms} - self.forms:
                self.forms.add(form)
                # Without the token of the session, or another content type, no form has an effect.
                assert self.client.post(form, headers=HTML).status_code in (403, 415), form
        if "/assets/" in url and "/docs/" not in url:
            for link in MODULE.findall(response.text):
                self.add(url, link)

    def add(self, page: str, link: str) -> None:
        url = urljoin(page, link).partition("#")[0]
        if url not in self.seen and not url.startswith(("data:", "blob:")):
            self.seen.add(url)
            # Base URLs are no resources, and uploads are sent with POST.
            if urlsplit(url).path not in (f"{ROOT}/v1", f"{ROOT}/img", f"{ROOT}/v1/upload") and (
                url != f"{self.origin}{ROOT}" or "openapi.json" not in page
            ):
                assert url.startswith(f"{self.origin}{ROOT}/"), f"{page} refers to {url}"
                self.waiting.append(url)


def use(client: httpx2.Client, password: str) -> Walk:
    """Sign in, upload, and walk through the site, as a browser does; then sign out."""
    origin = str(client.base_url).rstrip("/")
    own = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
    asked = client.get(f"{ROOT}/images?view=list", headers=HTML)
    assert (asked.status_code, asked.headers["location"]) == (303, f"{ROOT}/login?next=/images%3Fview%3Dlist")
    form = {**References(client.get(asked.headers["location"])).values, "name": "admin", "password": password}
    signed_in = client.post(f"{ROOT}/login", data=form, headers=own)
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, f"{ROOT}/images?view=list")
    cookies = {cookie.name: cookie for cookie in client.cookies.jar}
    assert cookies.keys() == {"__Secure-imagehost-session", "__Secure-imagehost-csrf"}
    assert {(cookie.path, cookie.secure) for cookie in cookies.values()} == {(ROOT, True)}
    token = str(cookies["__Secure-imagehost-session"].value)
    api = {**own, "X-CSRF-Token": csrf_token(token)}
    album = client.post(f"{ROOT}/v1/albums", json={"name": "Trip"}, headers=api)
    assert album.headers["location"] == f"{origin}{ROOT}/v1/albums/{album.json()['data']['id']}"
    records = [album.json()]
    for is_public in ("true", "false"):
        fields = {"album_id": str(album.json()["data"]["id"]), "is_public": is_public}
        uploaded = client.post(f"{ROOT}/v1/upload", files={"image": make_image()}, data=fields, headers=api)
        record = uploaded.raise_for_status().json()["data"]
        records.append(record)
        assert record["url"].startswith(f"{origin}{ROOT}/img/{record['id']}.")
        for url in (record["url"], f"{record['url']}?w=5", record["thumb_url"]):
            for _ in range(2):
                assert client.get(url, headers=own).headers["content-type"].startswith("image/"), url
    page = client.post(
        f"{ROOT}/upload",
        files={"files[]": make_image(9, 9)},
        data={"csrf_token": csrf_token(token)},
        headers={**HTML, **own},
    )
    assert page.status_code == 200, page.text
    described = client.get(f"{ROOT}/v1/openapi.json").json()
    assert described["servers"] == [{"url": f"{origin}{ROOT}/v1"}]
    assert described["components"]["securitySchemes"]["cookie"]["name"] in cookies
    *rules, sitemap = client.get(f"{ROOT}/robots.txt").text.splitlines()[1:]
    assert sitemap == f"Sitemap: {origin}{ROOT}/sitemap.xml"
    for rule in rules:
        assert rule.split()[1].startswith(f"{ROOT}/")
    client.headers.update(own)
    starts = (
        "/",
        "/v1/docs",
        "/v1/openapi.json",
        "/v1/images",
        "/v1/albums",
        "/settings",
        "/settings/webhooks",
    )
    walk = Walk(client, *(f"{ROOT}{path}" for path in starts))
    for record in records:
        for url in URL.findall(json.dumps(record)):
            assert client.get(url).status_code == 200, url
    signed_out = client.post(f"{ROOT}/logout", data={"csrf_token": csrf_token(token)}, headers=HTML)
    assert (signed_out.status_code, signed_out.headers["location"]) == (303, f"{ROOT}/")
    assert not list(client.cookies.jar)
    assert client.get(f"{ROOT}/v1/account", headers={"Authorization": f"Bearer {token}"}).status_code == 401
    return walk
