"""Configuration files over HTTP: with a placeholder for everyone, with a new key for a session."""

from __future__ import annotations

import json

import httpx2
import pytest

from imagehost_core import ImageHost
from imagehost_core.models import Scope
from imagehost_server.auth.cookies import SESSION_COOKIE, csrf_token
from imagehost_server.integrations import INTEGRATIONS, TOKEN_PLACEHOLDER, UploadTarget
from imagehost_server.testing import RunningServer


@pytest.fixture
def session_token(operator: ImageHost) -> str:
    """A token of a new session of `admin`."""
    return operator.sessions.create(operator.accounts.get("admin")).token


def token_of(response: httpx2.Response) -> str:
    """Return the token in the file for ShareX."""
    return str(json.loads(response.content)["Headers"]["Authorization"]).removeprefix("Bearer ")


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_everyone_gets_a_file_with_a_placeholder(
    server: RunningServer, anonymous: httpx2.Client, name: str
) -> None:
    response = anonymous.get(f"/integrations/{name}", headers={"Host": "evil.example"})
    assert response.status_code == 200
    assert response.text == INTEGRATIONS[name].render(UploadTarget(server.base_url))
    assert TOKEN_PLACEHOLDER in response.text
    assert response.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("name", INTEGRATIONS)
def test_a_session_gets_a_file_with_a_key_that_can_only_upload(
    server: RunningServer, anonymous: httpx2.Client, operator: ImageHost, session_token: str, name: str
) -> None:
    headers = {"Authorization": f"Bearer {session_token}"}
    response = anonymous.post(f"/integrations/{name}", headers=headers)
    assert (response.status_code, response.headers["cache-control"]) == (200, "no-store")
    assert TOKEN_PLACEHOLDER not in response.text
    key = operator.keys.list(owner="admin").items[0]
    assert (key.name, key.scopes, key.expires_at) == (
        INTEGRATIONS[name].program,
        (Scope.IMAGES_WRITE,),
        None,
    )
    assert key.prefix in response.text


def test_the_key_of_a_file_uploads_and_does_nothing_else(
    anonymous: httpx2.Client, session_token: str, png: bytes
) -> None:
    headers = {"Authorization": f"Bearer {session_token}"}
    file = anonymous.post("/integrations/sharex.sxcu", headers=headers)
    key = {"Authorization": f"Bearer {token_of(file)}"}
    config = json.loads(file.content)
    uploaded = anonymous.post(config["RequestURL"], headers=key, files={config["FileFormName"]: png})
    assert uploaded.status_code == 200
    assert anonymous.get("/v1/images", headers=key).status_code == 403
    assert anonymous.post("/integrations/curl.sh", headers=key).status_code == 403


def test_each_file_has_a_key_of_its_own(anonymous: httpx2.Client, session_token: str) -> None:
    headers = {"Authorization": f"Bearer {session_token}"}
    tokens = {token_of(anonymous.post("/integrations/sharex.sxcu", headers=headers)) for _ in range(2)}
    assert len(tokens) == 2


def test_a_browser_needs_the_csrf_token(
    anonymous: httpx2.Client, operator: ImageHost, session_token: str
) -> None:
    cookie = {"Cookie": f"{SESSION_COOKIE}={session_token}"}
    before = operator.keys.list(owner="admin").total or 0
    assert anonymous.post("/integrations/curl.sh", headers=cookie).status_code == 403
    assert operator.keys.list(owner="admin").total == before
    headers = {**cookie, "X-CSRF-Token": csrf_token(session_token)}
    assert anonymous.post("/integrations/curl.sh", headers=headers).status_code == 200
    assert operator.keys.list(owner="admin").total == before + 1


@pytest.mark.parametrize("name", ["nothing", "sharex", "SHAREX.SXCU", "..%2Fcurl.sh"])
def test_an_unknown_name_is_404_and_makes_no_key(
    anonymous: httpx2.Client, operator: ImageHost, session_token: str, name: str
) -> None:
    before = operator.keys.list(owner="admin").total
    headers = {"Authorization": f"Bearer {session_token}"}
    for response in (
        anonymous.get(f"/integrations/{name}"),
        anonymous.post(f"/integrations/{name}", headers=headers),
    ):
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "NOT_FOUND"
    assert operator.keys.list(owner="admin").total == before


def test_without_a_session_no_key_is_made(anonymous: httpx2.Client, api: httpx2.Client) -> None:
    assert anonymous.post("/integrations/curl.sh").status_code == 401
    assert api.post("/integrations/curl.sh").status_code == 403


def test_the_files_are_described(anonymous: httpx2.Client) -> None:
    document = anonymous.get("/v1/openapi.json").json()
    item = document["paths"]["/integrations/{name}"]
    for method in ("get", "post"):
        assert item[method]["tags"] == ["integrations"]
        (parameter,) = item[method]["parameters"]
        assert parameter["schema"]["enum"] == list(INTEGRATIONS)
        assert {"404", "429"} <= item[method]["responses"].keys()
    assert "/v1" not in item["servers"][0]["url"]
