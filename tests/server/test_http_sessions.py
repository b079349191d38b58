"""Sessions, cookies and API keys over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from typing import Any

import httpx2
import pytest
from tests.server.conftest import hash_quickly
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_server.auth.cookies import CSRF_COOKIE, SESSION_COOKIE
from imagehost_server.testing import RunningServer, running

PASSWORD = "correct horse battery"
CREDENTIALS = {"username": "ann", "password": PASSWORD}


@pytest.fixture(scope="module", autouse=True)
def ann(operator: ImageHost) -> str:
    operator.accounts.create("ann", password_hash=hash_quickly(PASSWORD))
    return "ann"


@pytest.fixture
def session(anonymous: httpx2.Client) -> dict[str, Any]:
    """The record of a new session."""
    return dict(anonymous.post("/v1/session", json=CREDENTIALS).json()["data"])


@pytest.fixture
def signed_in(server: RunningServer, session: dict[str, Any]) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {session['token']}"}
    with httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE) as client:
        yield client


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text)


# Sessions.


def test_sign_in_returns_a_token_with_all_scopes_and_an_expiry(
    session: dict[str, Any], signed_in: httpx2.Client
) -> None:
    assert session.keys() == {"id", "token", "expires_at", "account"}
    assert re.fullmatch(r"ihs_[0-9A-Za-z]{36}", session["token"])
    assert session["account"]["name"] == "ann"
    assert abs(parse_time(session["expires_at"]) - datetime.now(UTC) - timedelta(days=7)) < timedelta(
        minutes=1
    )
    for path in ("/v1/images", "/v1/albums", "/v1/keys", "/v1/account", "/v1/webhooks"):
        assert signed_in.get(path).status_code == 200


def test_sign_out_ends_the_session_at_once(signed_in: httpx2.Client) -> None:
    sessions = signed_in.get("/v1/sessions").json()["data"]["sessions"]
    (own,) = (session["id"] for session in sessions if session["is_current"])
    data = {"id": own, "deleted": True}
    assert signed_in.delete("/v1/session").json() == {"success": True, "data": data}
    assert signed_in.get("/v1/images").status_code == 401
    assert signed_in.delete("/v1/session").status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"username": "ann", "password": "wrong"}, 401),
        ({"username": "anne", "password": PASSWORD}, 401),
        ({"username": "ann", "password": ""}, 401),
        ({"username": "ann"}, 422),
        ({"username": "ann", "password": 7}, 422),
        ({"username": "ann", "password": "ä" * 513}, 422),
        ([], 422),
    ],
)
def test_a_failed_sign_in_sets_no_cookie(anonymous: httpx2.Client, body: object, status: int) -> None:
    response = anonymous.post("/v1/session", json=body)
    assert response.status_code == status
    assert "set-cookie" not in response.headers


def test_lone_surrogates_are_not_a_password(anonymous: httpx2.Client) -> None:
    body = b'{"username": "ann", "password": "\\ud800"}'
    response = anonymous.post("/v1/session", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 401, 422)


# The cookies of a browser.


def cookies_of(response: httpx2.Response) -> dict[str, Any]:
    jar: SimpleCookie = SimpleCookie()
    for value in response.headers.get_list("set-cookie"):
        jar.load(value)
    return dict(jar)


def test_session_cookies_are_strict_secure_and_httponly(anonymous: httpx2.Client) -> None:
    cookies = cookies_of(anonymous.post("/v1/session", json=CREDENTIALS))
    assert cookies.keys() == {SESSION_COOKIE, CSRF_COOKIE}
    for name, cookie in cookies.items():
        assert name.startswith("__Host-")
        assert (cookie["secure"], cookie["path"], cookie["domain"]) == (True, "/", "")
        assert cookie["samesite"].lower() == "strict"
        assert bool(cookie["httponly"]) == (name == SESSION_COOKIE)
        assert 0 < int(cookie["max-age"]) <= 7 * 86_400
    assert cookies[SESSION_COOKIE].value not in cookies[CSRF_COOKIE].value


def browser(anonymous: httpx2.Client) -> tuple[dict[str, str], str]:
    """Sign in; return the headers that a browser sends by itself, and the CSRF token for its pages."""
    cookies = {
        name: cookie.value
        for name, cookie in cookies_of(anonymous.post("/v1/session", json=CREDENTIALS)).items()
    }
    cookie_header = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    return cookie_header, cookies[CSRF_COOKIE]


def test_a_cookie_without_csrf_token_allows_only_safe_methods(anonymous: httpx2.Client) -> None:
    cookie, _ = browser(anonymous)
    assert anonymous.get("/v1/images", headers=cookie).status_code == 200
    for method, path in (
        ("POST", "/v1/albums"),
        ("POST", "/v1/upload"),
        ("POST", "/v1/keys"),
        ("DELETE", "/v1/session"),
        ("PATCH", "/v1/images/0123456789abcdef"),
        ("PUT", "/v1/albums/1/images"),
    ):
        response = anonymous.request(method, path, headers=cookie, json={"name": "x"})
        assert (response.status_code, response.json()["error"]["code"]) == (403, "FORBIDDEN"), path
        assert "X-CSRF-Token" in response.json()["error"]["details"]


def test_the_csrf_token_of_the_session_allows_unsafe_methods(anonymous: httpx2.Client) -> None:
    cookie, token = browser(anonymous)
    _, other_token = browser(anonymous)
    for wrong in (other_token, "", token[:-1], token + "x", "*"):
        headers = {**cookie, "X-CSRF-Token": wrong}
        assert anonymous.post("/v1/albums", headers=headers, json={"name": "x"}).status_code == 403
    headers = {**cookie, "X-CSRF-Token": token}
    assert anonymous.post("/v1/albums", headers=headers, json={"name": "x"}).status_code == 201
    ended = anonymous.delete("/v1/session", headers=headers)
    assert ended.status_code == 200
    assert {int(cookie["max-age"]) for cookie in cookies_of(ended).values()} == {0}
    assert anonymous.get("/v1/images", headers=cookie).status_code == 401


def test_a_bearer_token_needs_no_csrf_token_and_precedes_the_cookie(
    anonymous: httpx2.Client, session: dict[str, Any]
) -> None:
    cookie, _ = browser(anonymous)
    bearer = {"Authorization": f"Bearer {session['token']}"}
    assert anonymous.post("/v1/albums", headers={**cookie, **bearer}, json={"name": "x"}).status_code == 201
    wrong = {**cookie, "Authorization": "Bearer rubbish"}
    assert anonymous.get("/v1/images", headers=wrong).status_code == 401


@pytest.mark.parametrize(
    "cookie", ["", "=", f"{SESSION_COOKIE}", f"{SESSION_COOKIE}=", f"{SESSION_COOKIE}=x; [", "\xff=\xff"]
)
def test_malformed_cookies_are_401(anonymous: httpx2.Client, cookie: str) -> None:
    response = anonymous.get("/v1/images", headers={b"Cookie": cookie.encode("latin-1")})
    assert response.status_code == 401


@pytest.mark.parametrize(
    "value", ["", "Bearer", "Basic YTpi", "Token x", "Bearer a b", "Bearer \xff", "bearer:x"]
)
def test_a_malformed_authorization_header_is_401(anonymous: httpx2.Client, value: str) -> None:
    response = anonymous.get("/v1/images", headers={b"Authorization": value.encode("latin-1")})
    assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


def test_the_scheme_is_case_insensitive_and_two_headers_are_401(
    anonymous: httpx2.Client, session: dict[str, Any]
) -> None:
    header = ("Authorization", f"BEARER {session['token']}")
    assert anonymous.get("/v1/images", headers=[header]).status_code == 200
    assert anonymous.get("/v1/images", headers=[header, header]).status_code == 401


# Keys.


def test_a_key_can_be_created_read_updated_and_revoked(
    signed_in: httpx2.Client, server: RunningServer
) -> None:
    expires_at = "2100-01-02T03:04:05.000000Z"
    body = {"name": " deploy ", "scopes": ["images:write", "images:read"], "expires_at": expires_at}
    response = signed_in.post("/v1/keys", json=body)
    key = response.json()["data"]
    assert response.status_code == 201
    assert response.headers["location"] == f"{server.base_url}/keys/{key['id']}"
    token = key.pop("token")
    assert re.fullmatch(r"ihk_[0-9A-Za-z]{36}", token)
    assert token.startswith(key["prefix"])
    assert key == {
        "id": key["id"],
        "name": "deploy",
        "prefix": token[:10],
        "scopes": ["images:read", "images:write"],
        "expires_at": expires_at,
        "last_used_at": None,
        "created_at": key["created_at"],
        "revoked_at": None,
    }
    path = f"/v1/keys/{key['id']}"
    assert signed_in.get(path).json()["data"] == key

    bearer = {"Authorization": f"Bearer {token}"}
    assert httpx2.get(f"{server.base_url}/images", headers=bearer).status_code == 200
    assert httpx2.get(f"{server.base_url}/albums", headers=bearer).status_code == 403
    changed = signed_in.patch(path, json={"scopes": ["albums:read"], "expires_at": None, "name": "x"}).json()[
        "data"
    ]
    assert (changed["scopes"], changed["expires_at"], changed["name"]) == (["albums:read"], None, "x")
    assert httpx2.get(f"{server.base_url}/images", headers=bearer).status_code == 403
    assert httpx2.get(f"{server.base_url}/albums", headers=bearer).status_code == 200

    assert signed_in.delete(path).json()["data"] == {"id": key["id"], "deleted": True}
    assert httpx2.get(f"{server.base_url}/albums", headers=bearer).status_code == 401
    revoked = signed_in.get(path).json()["data"]
    assert revoked["revoked_at"] is not None
    assert revoked["last_used_at"] is not None
    assert signed_in.delete(path).status_code == 200
    assert signed_in.patch(path, json={"name": "y"}).status_code == 409


def test_keys_are_listed_newest_first_without_their_tokens(signed_in: httpx2.Client) -> None:
    created = [signed_in.post("/v1/keys", json={"name": f"key {n}"}).json()["data"] for n in range(3)]
    listed = signed_in.get("/v1/keys?per_page=2").json()["data"]
    assert [key["name"] for key in listed["keys"]] == ["key 2", "key 1"]
    assert listed["pagination"]["total"] >= 3
    after = signed_in.get(f"/v1/keys?per_page=1&cursor={listed['pagination']['next_cursor']}").json()["data"]
    assert [key["name"] for key in after["keys"]] == ["key 0"]
    text = signed_in.get("/v1/keys?per_page=100").text
    assert not any(key["token"] in text for key in created)
    assert all("token" not in key for key in listed["keys"])


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"name": "x" * 101}, ["name"]),
        ({"name": None}, ["name"]),
        ({"scopes": []}, ["scopes"]),
        ({"scopes": ["images:everything"], "name": "x" * 101}, ["name", "scopes"]),
        ({"scopes": "images:read"}, ["scopes"]),
        ({"expires_at": "2000-01-01T00:00:00Z"}, ["expires_at"]),
        ({"expires_at": "2100-01-01T00:00:00"}, ["expires_at"]),
        ({"expires_at": "tomorrow"}, ["expires_at"]),
        ({"expires_at": 7}, ["expires_at"]),
        ({"expires_at": "9999-12-31T23:59:59-14:00"}, ["expires_at"]),
    ],
)
def test_an_invalid_key_is_422_and_every_error_is_named(
    signed_in: httpx2.Client, body: object, names: list[str]
) -> None:
    key = signed_in.post("/v1/keys", json={"name": "unchanged"}).json()["data"]
    for response in (
        signed_in.post("/v1/keys", json=body),
        signed_in.patch(f"/v1/keys/{key['id']}", json=body),
    ):
        assert response.status_code == 422
        assert all(f"for {name}" in response.text or f"{name}" in response.text for name in names)
    assert signed_in.get(f"/v1/keys/{key['id']}").json()["data"]["name"] == "unchanged"


def test_a_key_cannot_manage_keys(signed_in: httpx2.Client) -> None:
    token = signed_in.post("/v1/keys", json={}).json()["data"]["token"]
    bearer = {"Authorization": f"Bearer {token}"}
    for method, path in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/session")):
        response = signed_in.request(method, path, headers=bearer)
        assert response.status_code == 403
        assert "session" in response.json()["error"]["details"]


@pytest.mark.slow
def test_a_revoked_key_is_refused_at_once_in_every_process(
    tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]
) -> None:
    data = tmp_path_factory.mktemp("processes") / "data"
    with running(data, "--workers", "3", variables=no_limits) as server:
        with ImageHost.open(data) as host:
            session = host.sessions.create(host.accounts.get("admin")).token
            created = host.keys.create(owner="admin")
        # A new connection for each request, so that they reach all processes.
        bearer = {"Authorization": f"Bearer {created.token}", "Connection": "close"}
        session_header = {"Authorization": f"Bearer {session}"}
        with httpx2.Client(base_url=server.base_url, timeout=PATIENCE) as client:
            statuses = [client.get("/images", headers=bearer).status_code for _ in range(12)]
            assert set(statuses) == {200}
            assert client.delete(f"/keys/{created.id}", headers=session_header).status_code == 200
            statuses = [client.get("/images", headers=bearer).status_code for _ in range(30)]
            assert set(statuses) == {401}
