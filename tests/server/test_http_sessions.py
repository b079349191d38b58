"""Over real HTTP: signing in and out, cookies, keys, and that no secret is ever told twice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.cookies import SimpleCookie
from typing import Any

import httpx2
import pytest

from imagehost_core import ImageHost
from imagehost_server.auth.cookies import CSRF_COOKIE, SESSION_COOKIE
from imagehost_server.auth.passwords import hash_password
from imagehost_server.testing import RunningServer, running

PASSWORD = "correct horse battery"
CREDENTIALS = {"username": "ann", "password": PASSWORD}


@pytest.fixture(scope="module", autouse=True)
def ann(operator: ImageHost) -> str:
    operator.accounts.create("ann", password_hash=hash_password(PASSWORD))
    return "ann"


@pytest.fixture
def session(anybody: httpx2.Client) -> dict[str, Any]:
    """A session just begun, as it was answered."""
    return dict(anybody.post("/v1/session", json=CREDENTIALS).json()["data"])


@pytest.fixture
def signed_in(server: RunningServer, session: dict[str, Any]) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {session['token']}"}
    with httpx2.Client(base_url=server.origin, headers=headers, timeout=60) as client:
        yield client


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


# Sessions.


def test_signing_in_gives_a_token_that_acts_with_all_scopes_and_ends(
    session: dict[str, Any], signed_in: httpx2.Client
) -> None:
    assert session.keys() == {"token", "expires_at", "account"}
    assert re.fullmatch(r"ihs_[0-9A-Za-z]{36}", session["token"])
    assert session["account"]["name"] == "ann"
    assert abs(moment(session["expires_at"]) - datetime.now(UTC) - timedelta(days=7)) < timedelta(minutes=1)
    for path in ("/v1/images", "/v1/albums", "/v1/keys", "/v1/account", "/v1/webhooks"):
        assert signed_in.get(path).status_code == 200


def test_signing_out_ends_the_session_at_once(signed_in: httpx2.Client) -> None:
    assert signed_in.delete("/v1/session").json() == {"success": True, "data": {"ended": True}}
    assert signed_in.get("/v1/images").status_code == 401
    assert signed_in.delete("/v1/session").status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"username": "ann", "password": "wrong"}, 401),
        ({"username": "Ann", "password": PASSWORD}, 401),
        ({"username": "ann", "password": ""}, 401),
        ({"username": "ann"}, 422),
        ({"username": "ann", "password": 7}, 422),
        ({"username": "ann", "password": "ä" * 513}, 422),
        ([], 422),
    ],
)
def test_a_sign_in_that_is_wrong_is_refused_and_sets_no_cookie(
    anybody: httpx2.Client, body: object, status: int
) -> None:
    answer = anybody.post("/v1/session", json=body)
    assert answer.status_code == status
    assert "set-cookie" not in answer.headers


def test_lone_surrogates_are_no_password(anybody: httpx2.Client) -> None:
    body = b'{"username": "ann", "password": "\\ud800"}'
    answer = anybody.post("/v1/session", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 401, 422)


# The cookies of a browser.


def cookies_of(answer: httpx2.Response) -> dict[str, Any]:
    jar: SimpleCookie = SimpleCookie()
    for value in answer.headers.get_list("set-cookie"):
        jar.load(value)
    return dict(jar)


def test_the_cookies_are_strict_secure_and_hidden_from_scripts(anybody: httpx2.Client) -> None:
    cookies = cookies_of(anybody.post("/v1/session", json=CREDENTIALS))
    assert cookies.keys() == {SESSION_COOKIE, CSRF_COOKIE}
    for name, cookie in cookies.items():
        assert name.startswith("__Host-")
        assert (cookie["secure"], cookie["path"], cookie["domain"]) == (True, "/", "")
        assert cookie["samesite"].lower() == "strict"
        assert bool(cookie["httponly"]) == (name == SESSION_COOKIE)
        assert 0 < int(cookie["max-age"]) <= 7 * 86_400
    assert cookies[SESSION_COOKIE].value not in cookies[CSRF_COOKIE].value


def browser(anybody: httpx2.Client) -> tuple[dict[str, str], str]:
    """Sign in as a browser does; return what it sends unasked, and what its page can read."""
    cookies = {
        name: cookie.value
        for name, cookie in cookies_of(anybody.post("/v1/session", json=CREDENTIALS)).items()
    }
    unasked = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    return unasked, cookies[CSRF_COOKIE]


def test_a_cookie_alone_reads_and_changes_nothing(anybody: httpx2.Client) -> None:
    unasked, _ = browser(anybody)
    assert anybody.get("/v1/images", headers=unasked).status_code == 200
    for method, path in (
        ("POST", "/v1/albums"),
        ("POST", "/v1/upload"),
        ("POST", "/v1/keys"),
        ("DELETE", "/v1/session"),
        ("PATCH", "/v1/images/0123456789abcdef"),
        ("PUT", "/v1/albums/1/images"),
    ):
        answer = anybody.request(method, path, headers=unasked, json={"name": "x"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN"), path
        assert "X-CSRF-Token" in answer.json()["error"]["details"]


def test_the_value_that_only_our_page_can_read_makes_a_change_pass(anybody: httpx2.Client) -> None:
    unasked, value = browser(anybody)
    _, others = browser(anybody)
    for wrong in (others, "", value[:-1], value + "x", "*"):
        headers = {**unasked, "X-CSRF-Token": wrong}
        assert anybody.post("/v1/albums", headers=headers, json={"name": "x"}).status_code == 403
    headers = {**unasked, "X-CSRF-Token": value}
    assert anybody.post("/v1/albums", headers=headers, json={"name": "x"}).status_code == 201
    ended = anybody.delete("/v1/session", headers=headers)
    assert ended.status_code == 200
    assert {int(cookie["max-age"]) for cookie in cookies_of(ended).values()} == {0}
    assert anybody.get("/v1/images", headers=unasked).status_code == 401


def test_a_token_in_the_header_needs_no_csrf_and_goes_before_the_cookie(
    anybody: httpx2.Client, session: dict[str, Any]
) -> None:
    unasked, _ = browser(anybody)
    bearer = {"Authorization": f"Bearer {session['token']}"}
    assert anybody.post("/v1/albums", headers={**unasked, **bearer}, json={"name": "x"}).status_code == 201
    wrong = {**unasked, "Authorization": "Bearer rubbish"}
    assert anybody.get("/v1/images", headers=wrong).status_code == 401


@pytest.mark.parametrize(
    "cookie", ["", "=", f"{SESSION_COOKIE}", f"{SESSION_COOKIE}=", f"{SESSION_COOKIE}=x; [", "\xff=\xff"]
)
def test_cookies_that_are_none_of_ours_are_401(anybody: httpx2.Client, cookie: str) -> None:
    answer = anybody.get("/v1/images", headers={b"Cookie": cookie.encode("latin-1")})
    assert answer.status_code == 401


@pytest.mark.parametrize(
    "value", ["", "Bearer", "Basic YTpi", "Token x", "Bearer a b", "Bearer \xff", "bearer:x"]
)
def test_a_malformed_header_is_401(anybody: httpx2.Client, value: str) -> None:
    answer = anybody.get("/v1/images", headers={b"Authorization": value.encode("latin-1")})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_the_scheme_s_case_is_free_and_two_headers_are_none(
    anybody: httpx2.Client, session: dict[str, Any]
) -> None:
    one = ("Authorization", f"BEARER {session['token']}")
    assert anybody.get("/v1/images", headers=[one]).status_code == 200
    assert anybody.get("/v1/images", headers=[one, one]).status_code == 401


# Keys.


def test_a_key_is_made_shown_changed_and_revoked(signed_in: httpx2.Client, server: RunningServer) -> None:
    ends = "2100-01-02T03:04:05.000000Z"
    wanted = {"name": " deploy ", "scopes": ["images:write", "images:read"], "expires_at": ends}
    made = signed_in.post("/v1/keys", json=wanted)
    key = made.json()["data"]
    assert made.status_code == 201
    assert made.headers["location"] == f"{server.base_url}/keys/{key['id']}"
    token = key.pop("token")
    assert re.fullmatch(r"ihk_[0-9A-Za-z]{36}", token)
    assert token.startswith(key["prefix"])
    assert key == {
        "id": key["id"],
        "name": "deploy",
        "prefix": token[:10],
        "scopes": ["images:read", "images:write"],
        "expires_at": ends,
        "last_used_at": None,
        "created_at": key["created_at"],
        "revoked_at": None,
    }
    path = f"/v1/keys/{key['id']}"
    assert signed_in.get(path).json()["data"] == key

    used = {"Authorization": f"Bearer {token}"}
    assert httpx2.get(f"{server.base_url}/images", headers=used).status_code == 200
    assert httpx2.get(f"{server.base_url}/albums", headers=used).status_code == 403
    changed = signed_in.patch(path, json={"scopes": ["albums:read"], "expires_at": None, "name": "x"}).json()[
        "data"
    ]
    assert (changed["scopes"], changed["expires_at"], changed["name"]) == (["albums:read"], None, "x")
    assert httpx2.get(f"{server.base_url}/images", headers=used).status_code == 403
    assert httpx2.get(f"{server.base_url}/albums", headers=used).status_code == 200

    assert signed_in.delete(path).json()["data"] == {"id": key["id"], "deleted": True}
    assert httpx2.get(f"{server.base_url}/albums", headers=used).status_code == 401
    shown = signed_in.get(path).json()["data"]
    assert shown["revoked_at"] is not None
    assert shown["last_used_at"] is not None
    assert signed_in.delete(path).status_code == 200
    assert signed_in.patch(path, json={"name": "y"}).status_code == 409


def test_keys_are_listed_newest_first_without_their_tokens(signed_in: httpx2.Client) -> None:
    made = [signed_in.post("/v1/keys", json={"name": f"key {n}"}).json()["data"] for n in range(3)]
    listed = signed_in.get("/v1/keys?per_page=2").json()["data"]
    assert [key["name"] for key in listed["keys"]] == ["key 2", "key 1"]
    assert listed["pagination"]["total"] >= 3
    after = signed_in.get(f"/v1/keys?per_page=1&cursor={listed['pagination']['next_cursor']}").json()["data"]
    assert [key["name"] for key in after["keys"]] == ["key 0"]
    text = signed_in.get("/v1/keys?per_page=100").text
    assert not any(key["token"] in text for key in made)
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
def test_a_key_that_makes_no_sense_is_422_and_every_fault_is_named(
    signed_in: httpx2.Client, body: object, names: list[str]
) -> None:
    made = signed_in.post("/v1/keys", json={"name": "for a change"}).json()["data"]
    for answer in (
        signed_in.post("/v1/keys", json=body),
        signed_in.patch(f"/v1/keys/{made['id']}", json=body),
    ):
        assert answer.status_code == 422
        assert all(f"for {name}" in answer.text or f"{name}" in answer.text for name in names)
    assert signed_in.get(f"/v1/keys/{made['id']}").json()["data"]["name"] == "for a change"


def test_a_key_cannot_make_keys_and_so_never_gets_beyond_its_scopes(signed_in: httpx2.Client) -> None:
    token = signed_in.post("/v1/keys", json={}).json()["data"]["token"]
    key = {"Authorization": f"Bearer {token}"}
    for method, path in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("DELETE", "/v1/session")):
        answer = signed_in.request(method, path, headers=key)
        assert answer.status_code == 403
        assert "session" in answer.json()["error"]["details"]


def test_a_revoked_key_stops_at_once_in_every_process(
    tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]
) -> None:
    data = tmp_path_factory.mktemp("processes") / "data"
    with running(data, "--workers", "3", variables=no_limits) as server:
        with ImageHost.open(data) as host:
            session = host.sessions.create(host.accounts.get("admin")).token
            made = host.keys.create(owner="admin")
        used = {"Authorization": f"Bearer {made.token}", "Connection": "close"}
        statuses = [httpx2.get(f"{server.base_url}/images", headers=used).status_code for _ in range(12)]
        assert set(statuses) == {200}
        managed = {"Authorization": f"Bearer {session}"}
        assert httpx2.delete(f"{server.base_url}/keys/{made.key.id}", headers=managed).status_code == 200
        statuses = [httpx2.get(f"{server.base_url}/images", headers=used).status_code for _ in range(30)]
        assert set(statuses) == {401}
