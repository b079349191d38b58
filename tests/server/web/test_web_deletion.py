"""URLs that delete an image: given where a form asks for them, for one image, once, and by a form only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from attrs import evolve, frozen
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.server.web.conftest import HTML, SETTINGS, SignedIn

from imagehost_core import ImageHost, NotFoundError
from imagehost_core.testing import FrozenClock, make_image
from imagehost_server.settings import WebSettings

PNG = make_image(30, 20)


@frozen
class Site:
    """A host with a clock that stands, a program that uploads to it, and a browser without a session."""

    host: ImageHost
    clock: FrozenClock
    program: httpx2.Client
    browser: httpx2.Client

    def upload(self, **fields: str) -> dict[str, Any]:
        response = self.program.post("/v1/upload", files={"image": ("a.png", PNG)}, data=fields)
        record: dict[str, Any] = response.raise_for_status().json()["data"]
        return record

    def path(self, **fields: str) -> str:
        """Upload an image, and return the path and query of the URL that deletes it."""
        url = urlsplit(self.upload(delete_url="true", **fields)["delete_url"])
        return f"{url.path}?{url.query}"

    def statuses(self, path: str) -> list[int]:
        return [
            self.browser.get(path).status_code,
            self.browser.post(path, data={"csrf_token": ""}).status_code,
        ]


@pytest.fixture
def site() -> Iterator[Site]:
    clock = FrozenClock()
    host = open_host(settings=SETTINGS, clock=clock)
    key = host.keys.create(owner="admin", scopes=["images:write"]).token
    headers = {"Authorization": f"Bearer {key}"}
    with (
        serving(host, SETTINGS) as origin,
        httpx2.Client(base_url=origin, timeout=60, headers=headers) as program,
        httpx2.Client(base_url=origin, timeout=60, headers=HTML) as browser,
    ):
        yield Site(host, clock, program, browser)


def image_id_in(path: str) -> str:
    return path.split("/")[2]


@pytest.mark.parametrize("value", ["", "false", "0"])
def test_records_have_a_url_that_deletes_only_if_the_form_asks_for_it(site: Site, value: str) -> None:
    assert "delete_url" not in site.upload()
    assert "delete_url" not in site.upload(delete_url=value)
    record = site.upload(delete_url="TRUE")
    assert record["delete_url"].startswith(f"{SETTINGS.site_url}/i/{record['id']}/delete?exp=")
    files = [("files[]", (f"{number}.png", PNG)) for number in range(2)]
    batch = site.program.post("/v1/upload", files=files, data={"delete_url": "1"}).json()["data"]
    assert all(image["id"] in image["delete_url"] for image in batch["images"])


@pytest.mark.parametrize("fields", [{"delete_url": "yes"}, {"Delete_Url": "1"}, {"delete_url": ["1", "0"]}])
def test_a_request_for_such_a_url_that_is_no_boolean_is_422(site: Site, fields: dict[str, Any]) -> None:
    response = site.program.post(
        "/v1/upload", files={"image": ("a.png", PNG)}, data={**fields, "quality": "0"}
    )
    assert response.status_code == 422
    assert {"delete_url", "quality"} <= set(re.findall(r"\w+", response.json()["error"]["details"]))
    assert site.host.accounts.usage("admin").images == 0


@pytest.mark.parametrize("is_public", ["true", "false"])
def test_the_page_asks_and_its_form_deletes_the_image_once(site: Site, is_public: str) -> None:
    path = site.path(is_public=is_public)
    page = site.browser.get(path)
    assert page.status_code == 200
    assert (page.headers["cache-control"], page.headers["x-robots-tag"]) == ("no-store", "noindex")
    assert ("<img src=" in page.text.partition("<main")[2]) is (is_public == "true")
    assert site.browser.head(path).status_code == 200
    assert site.host.images.get(image_id_in(path)).filename in page.text
    action = re.search(r'<form method="post" action="([^"]+delete[^"]*)"', page.text)
    assert action is not None
    assert action[1].replace("&amp;", "&") == path
    deleted = site.browser.post(path, data={"csrf_token": ""})
    assert (deleted.status_code, "Deleted." in deleted.text) == (200, True)
    with pytest.raises(NotFoundError):
        site.host.images.get(image_id_in(path))
    assert site.statuses(path) == [404, 404]


def test_a_browser_with_a_session_uses_it_too(site: Site) -> None:
    path, session = site.path(), SignedIn(site.host, "visitor")
    assert site.browser.post(path, data={"csrf_token": ""}, headers=session.headers).status_code == 403
    form = {"csrf_token": session.csrf}
    assert site.browser.post(path, data=form, headers=session.headers).status_code == 200


def test_another_site_cannot_send_the_form(site: Site) -> None:
    path = site.path()
    for headers in ({"Origin": "https://example.com"}, {"Sec-Fetch-Site": "cross-site"}):
        assert site.browser.post(path, data={"csrf_token": ""}, headers=headers).status_code == 403
    assert site.statuses(path) == [200, 200]


def test_a_url_is_for_one_image_and_unchanged(site: Site) -> None:
    path, other = site.path(), site.upload()["id"]
    query = path.partition("?")[2]
    delivery = urlsplit(site.host.images.signed_url(image_id_in(path)).url).query
    for wrong in (
        f"/i/{other}/delete?{query}",
        f"/i/{image_id_in(path)}/delete",
        f"/i/{image_id_in(path)}/delete?{delivery}",
        path[:-1],
        path.replace("exp=", "exp=9"),
    ):
        assert site.statuses(wrong) == [404, 404], wrong
    private = site.host.images.update(image_id_in(path), is_public=False)
    assert site.browser.get(f"/img/{private.id}?{query}").status_code == 404
    assert site.statuses(path) == [200, 200]


def test_a_url_ends_after_30_days(site: Site) -> None:
    path = site.path()
    site.clock.advance(days=30, seconds=-1)
    assert site.browser.get(path).status_code == 200
    site.clock.advance(seconds=1)
    assert site.statuses(path) == [404, 404]


def test_a_url_ends_at_the_expiry_of_its_key_or_by_the_secret_but_not_by_revocation(
    site: Site,
) -> None:
    expires_at = site.clock.now + timedelta(days=2)
    key = site.host.keys.create(owner="admin", scopes=["images:write"], expires_at=expires_at).token
    paths = [site.path(), site.path()]
    site.program.headers["authorization"] = f"Bearer {key}"
    paths.append(site.path())
    site.clock.advance(days=2)
    assert [site.browser.get(path).status_code for path in paths] == [200, 200, 404]
    user = site.host.accounts.create("user")
    site.program.headers["authorization"] = f"Bearer {site.host.keys.create(owner=user).token}"
    path = site.path()
    (user_key,) = site.host.keys.list(owner=user)
    site.host.keys.delete(user_key.id, owner=user)
    site.host.accounts.update(user, suspended=True)
    assert site.statuses(path) == [404, 404]
    site.host.accounts.update(user, suspended=False)
    assert site.browser.get(path).status_code == 200
    site.host.accounts.renew_signing_secret("admin")
    assert [site.browser.get(path).status_code for path in paths[:2]] == [404, 404]


def test_a_repeated_request_gets_the_url_and_the_stored_response_has_none(site: Site) -> None:
    def upload() -> httpx2.Response:
        return site.program.post(
            "/v1/upload",
            files={"image": ("a.png", PNG)},
            data={"delete_url": "1"},
            headers={"Idempotency-Key": "one"},
        )

    first, second = upload(), upload()
    assert second.headers["idempotent-replayed"] == "true"
    assert first.json() == second.json()
    database = site.host._context.records.database
    (stored,) = database.fetch_all("SELECT response_body FROM idempotency_keys", {})
    assert b"delete_url" not in bytes(stored["response_body"])  # type: ignore[arg-type]
    site.host.images.delete(first.json()["data"]["id"])
    assert upload().json()["data"]["delete_url"] is None


def test_an_upload_whose_key_ends_when_the_image_is_stored_succeeds_without_the_url(site: Site) -> None:
    (key,) = site.host.keys.list(owner="admin")
    site.host.subscribe(lambda _: site.host.keys.delete(key.id, owner="admin"))
    record = site.upload(delete_url="1")
    assert record["delete_url"] is None
    assert site.host.images.get(record["id"]).id == record["id"]


def test_a_host_without_pages_has_no_such_urls() -> None:
    settings = evolve(SETTINGS, web=WebSettings(enabled=False))
    host = open_host(settings=settings)
    headers = {"Authorization": f"Bearer {host.keys.create(owner='admin').token}"}
    with serving(host, settings) as origin, httpx2.Client(base_url=origin, headers=headers) as client:
        response = client.post("/v1/upload", files={"image": ("a.png", PNG)}, data={"delete_url": "1"})
        assert response.json()["data"]["delete_url"] is None
