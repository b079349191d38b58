"""Lsky Pro v2 compatibility: members under `/api/v1` that `/v1` does not have."""

from __future__ import annotations

import attrs
import httpx2
import pytest
from tests.open_host import open_host
from tests.server.in_process import serving

from imagehost_core.models import Links
from imagehost_core.resources import ImageRecord
from imagehost_core.settings import LimitSettings
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import RunningServer

RECORD = [attribute.name for attribute in attrs.fields(ImageRecord)]
LINKS = [attribute.name for attribute in attrs.fields(Links)]


def upload(client: httpx2.Client, png: bytes, prefix: str = "/api/v1", **fields: str) -> httpx2.Response:
    return client.post(f"{prefix}/upload", files={"file": ("cat.png", png, "image/png")}, data=fields)


def test_a_single_upload_has_the_members_of_lsky(api: httpx2.Client, png: bytes) -> None:
    response = upload(api, png)
    envelope = response.json()
    record = envelope["data"]
    assert (envelope["success"], envelope["status"], envelope["message"]) == (True, True, "OK")
    assert list(record) == [*RECORD, "key", "name", "origin_name", "mimetype", "extension"]
    assert list(record["links"]) == [*LINKS, "thumbnail_url", "markdown_with_link"]
    assert record["key"] == record["id"]
    assert (record["name"], record["origin_name"]) == (record["filename"], "cat.png")
    assert (record["mimetype"], record["extension"]) == ("image/webp", "webp")
    assert record["links"]["thumbnail_url"] == record["thumb_url"]
    assert record["links"]["markdown_with_link"] == f"[![cat.webp]({record['url']})]({record['url']})"
    assert int(response.headers["content-length"]) == len(response.content)


@pytest.mark.parametrize("path", ["//api/v1/upload", "/api/v1//upload", "/api/v1/upload/"])
def test_superfluous_slashes_make_no_difference(
    server: RunningServer, api: httpx2.Client, png: bytes, path: str
) -> None:
    files, fields = {"file": ("cat.png", png, "image/png")}, {"permission": "0"}
    envelope = api.post(f"{server.origin}{path}", files=files, data=fields).json()
    assert (envelope["status"], envelope["data"]["is_public"]) == (True, False)
    assert envelope["data"]["key"] == envelope["data"]["id"]


def test_uploads_under_v1_have_no_member_of_lsky(api: httpx2.Client, png: bytes) -> None:
    envelope = upload(api, png, "/v1", permission="0").json()
    assert list(envelope) == ["success", "data"]
    assert list(envelope["data"]) == RECORD
    assert list(envelope["data"]["links"]) == LINKS
    assert envelope["data"]["is_public"] is True
    assert list(api.get(f"/v1/images/{'0' * 16}").json()) == ["success", "error"]


@pytest.mark.parametrize(("permission", "is_public"), [("1", True), ("0", False), ("", True)])
def test_permission_is_the_visibility(
    api: httpx2.Client, png: bytes, permission: str, is_public: bool
) -> None:
    assert upload(api, png, permission=permission).json()["data"]["is_public"] is is_public


def test_another_permission_is_an_error(api: httpx2.Client, png: bytes) -> None:
    envelope = upload(api, png, permission="2").json()
    assert envelope["error"]["code"] == "VALIDATION_ERROR"
    assert "is_public" in envelope["message"]


def test_permission_beside_is_public_is_an_error_that_names_both(api: httpx2.Client, png: bytes) -> None:
    envelope = upload(api, png, permission="0", is_public="0").json()
    assert envelope["error"]["code"] == "VALIDATION_ERROR"
    assert "one value for is_public and permission" in envelope["error"]["details"]


def test_fields_that_lsky_clients_send_beside_the_file_are_ignored(api: httpx2.Client, png: bytes) -> None:
    assert upload(api, png, ssl="true", strategy_id="1", album_id="").json()["status"] is True


def test_several_files_have_the_members_of_the_envelope_only(api: httpx2.Client, png: bytes) -> None:
    envelope = api.post("/api/v1/upload", files={"files[]": png}).json()
    assert envelope["status"] is True
    assert list(envelope["data"]["images"][0]) == RECORD


def test_an_image_is_deleted_by_its_key(api: httpx2.Client, png: bytes) -> None:
    record = upload(api, png).json()["data"]
    deleted = api.delete(f"/api/v1/images/{record['key']}")
    assert (deleted.status_code, deleted.json()["status"]) == (200, True)
    assert api.get(record["url"]).status_code == 404
    repeated = api.delete(f"/api/v1/images/{record['key']}").json()
    error = repeated["error"]
    assert (repeated["status"], repeated["message"]) == (False, f"{error['message']}: {error['details']}")


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/images", {"Authorization": "Bearer x"}, 401),
        ("GET", "/nothing", {}, 404),
        ("PUT", "/upload", {}, 405),
        ("GET", "/gallery", {"X" * 40_000: "y" * 40_000}, 431),
        ("GET", f"/img/{'0' * 16}", {}, 404),
    ],
)
def test_every_error_has_status_and_message(
    anonymous: httpx2.Client, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    direct = anonymous.request(method, f"/v1{path}", headers=headers)
    alias = anonymous.request(method, f"/api/v1{path}", headers=headers)
    assert (direct.status_code, alias.status_code) == (status, status)
    assert list(direct.json()) == ["success", "error"]
    assert list(alias.json()) == ["success", "error", "status", "message"]
    assert alias.json()["status"] is False
    assert alias.json()["error"] == direct.json()["error"]
    assert alias.headers.keys() == direct.headers.keys()


def test_responses_without_envelope_are_unchanged(anonymous: httpx2.Client) -> None:
    for path in ("/openapi.json", "/docs"):
        assert anonymous.get(f"/api/v1{path}").content == anonymous.get(f"/v1{path}").content
    head = anonymous.head("/api/v1/gallery")
    assert (head.status_code, head.content) == (200, b"")


def test_a_replayed_upload_has_the_members_too(api: httpx2.Client, png: bytes) -> None:
    headers = {"Idempotency-Key": "lsky-1"}
    send = [api.post("/api/v1/upload", files={"file": ("a.png", png)}, headers=headers) for _ in range(2)]
    assert [response.headers.get("Idempotent-Replayed") for response in send] == [None, "true"]
    assert send[0].json() == send[1].json()
    direct = api.post("/v1/upload", files={"file": ("a.png", png)}, headers=headers)
    assert list(direct.json()["data"]) == RECORD


def test_the_profile_has_the_names_and_counts_that_lsky_clients_show(
    account: httpx2.Client, png: bytes
) -> None:
    upload(account, png)
    profile = account.get("/api/v1/profile").json()
    data = profile["data"]
    assert profile["status"] is True
    assert data["name"] == data["account"]["name"]
    assert (data["image_num"], data["album_num"], data["email"], data["url"]) == (1, 0, "", "")
    assert data["used_capacity"] == round(data["usage"]["bytes"] / 1024, 2) > 0
    assert data["capacity"] is None
    assert account.get("/v1/profile").status_code == 404
    assert "name" not in account.get("/api/v1/account").json()["data"]


def test_a_refused_upload_says_why_in_the_message(png: bytes) -> None:
    settings = ServerSettings(limits=LimitSettings(uploads_per_minute=1))
    host = open_host(settings=settings)
    headers = {"Authorization": f"Bearer {host.keys.create(owner='admin').token}"}
    with serving(host, settings) as origin, httpx2.Client(base_url=origin, headers=headers) as client:
        responses = [upload(client, png) for _ in range(3)]
    refused = next(response for response in responses if response.status_code == 429)
    assert refused.json()["status"] is False
    assert refused.json()["error"]["details"] in refused.json()["message"]
    assert "retry-after" in refused.headers
