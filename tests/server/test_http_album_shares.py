"""Share links of albums over HTTP: their routes, and the image URLs that they open."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from imagehost_core import to_rfc3339, utc_now
from imagehost_server.testing import RunningServer


@pytest.fixture(scope="module")
def album(api: httpx2.Client) -> str:
    created = api.post("/v1/albums", json={"name": "Secret", "is_public": False})
    return f"/v1/albums/{created.json()['data']['id']}"


@pytest.fixture(scope="module")
def image(api: httpx2.Client, album: str, png: bytes) -> dict[str, Any]:
    form = {"album_id": album.rpartition("/")[2], "is_public": "0"}
    uploaded = api.post("/v1/upload", files={"image": png}, data=form)
    return dict(uploaded.json()["data"])


def share(api: httpx2.Client, album: str, **members: object) -> dict[str, Any]:
    response = api.post(f"{album}/shares", json=members)
    assert response.status_code == 201, response.text
    return dict(response.json()["data"])


def test_a_share_is_created_listed_and_revoked(api: httpx2.Client, album: str, server: RunningServer) -> None:
    expires_at = to_rfc3339(utc_now() + timedelta(hours=1))
    created = share(api, album, expires_at=expires_at, password="correct horse")
    assert created.keys() == {"id", "url", "has_password", "created_at", "expires_at"}
    assert created["url"].startswith(f"{server.origin}/s/iha_")
    assert (created["has_password"], created["expires_at"]) == (True, expires_at)
    plain = share(api, album)
    assert (plain["has_password"], plain["expires_at"]) == (False, None)
    listed = api.get(f"{album}/shares?per_page=1").json()["data"]
    assert listed["shares"] == [{**plain, "url": None}]
    cursor = listed["pagination"]["next_cursor"]
    assert api.get(f"{album}/shares?cursor={cursor}").json()["data"]["shares"] == [{**created, "url": None}]
    for each in (created, plain):
        deleted = api.delete(f"{album}/shares/{each['id']}")
        assert deleted.json()["data"] == {"id": each["id"], "deleted": True}
        assert api.delete(f"{album}/shares/{each['id']}").status_code == 404
    assert api.get(f"{album}/shares").json()["data"]["shares"] == []


@pytest.mark.parametrize(
    ("members", "names", "status_of_unknown"),
    [
        ({"expires_at": "2020-01-01T00:00:00Z", "password": "short"}, ("expires_at", "password"), 404),
        ({"expires_at": "soon"}, ("expires_at",), 404),
        ({"password": "secret" * 400}, ("password",), 404),
        ({"expires_at": 7, "password": 7}, ("expires_at", "password"), 422),
        ({"Password": "correct horse"}, ("Password",), 422),
    ],
)
def test_all_errors_of_a_share_are_reported_without_the_password(
    api: httpx2.Client,
    album: str,
    members: dict[str, object],
    names: tuple[str, ...],
    status_of_unknown: int,
) -> None:
    response = api.post(f"{album}/shares", json=members)
    assert response.status_code == 422
    details = response.json()["error"]["details"]
    assert all(name in details for name in names)
    assert not {str(value) for name, value in members.items() if name.lower() == "password"} & {
        *details.split()
    }
    missing = api.post("/v1/albums/999999999/shares", json=members)
    assert missing.status_code == status_of_unknown
    assert details in missing.json()["error"]["details"]


def test_image_urls_of_a_share_are_private_and_obey_conditions_and_ranges(
    api: httpx2.Client, anonymous: httpx2.Client, album: str, image: dict[str, Any]
) -> None:
    url, other = f"{image['url']}?share={share(api, album)['id']}", share(api, album)
    assert anonymous.get(image["url"]).status_code == 404
    full = anonymous.get(url)
    assert full.status_code == 200
    assert full.headers["cache-control"] == "private, no-store"
    assert full.headers["cross-origin-resource-policy"] == "cross-origin"
    requests: dict[int, tuple[str, dict[str, str]]] = {
        200: ("HEAD", {}),
        206: ("GET", {"Range": "bytes=1-9"}),
        304: ("GET", {"If-None-Match": full.headers["etag"]}),
        412: ("GET", {"If-Match": '"x"'}),
        416: ("GET", {"Range": "bytes=999999999-"}),
    }
    for status, (method, headers) in requests.items():
        assert anonymous.request(method, url, headers=headers).status_code == status
    variant = anonymous.get(f"{url}&w=40&fm=png")
    assert (variant.status_code, variant.headers["content-type"]) == (200, "image/png")
    assert anonymous.get(f"{url}&w=0").status_code == 400
    api.delete(f"{album}/shares/{url.rpartition('=')[2]}")
    for query in ("", "&w=40&fm=png", "&w=77"):
        for method, headers in requests.values():
            ended = anonymous.request(method, f"{url}{query}", headers=headers)
            assert (ended.status_code, ended.headers["cache-control"]) == (404, "no-store")
    never = anonymous.get(f"{image['url']}?share={'0' * 16}")
    assert anonymous.get(url).json() == never.json()
    assert anonymous.get(f"{image['url']}?share={other['id']}").status_code == 200


def test_a_share_is_no_token(api: httpx2.Client, anonymous: httpx2.Client, album: str) -> None:
    created = share(api, album)
    for secret in (created["id"], created["url"].rpartition("/")[2]):
        headers = {"Authorization": f"Bearer {secret}"}
        for path in (
            album,
            f"{album}/shares",
            "/v1/images",
            f"/v1/gallery?album_id={album.rpartition('/')[2]}",
        ):
            response = anonymous.get(f"{path}{'&' if '?' in path else '?'}share={secret}", headers=headers)
            assert response.status_code == (404 if "gallery" in path else 401)


@pytest.mark.parametrize("name", ["password", "expires_at"])
def test_null_is_none_of_what_a_share_need_not_have(api: httpx2.Client, album: str, name: str) -> None:
    created = share(api, album, **{name: None})
    assert (created["has_password"], created["expires_at"]) == (False, None)
