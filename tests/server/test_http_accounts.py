"""Accounts over HTTP: operators, limits, suspension and registration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.open_host import open_host
from tests.server.conftest import hash_quickly
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_server.auth.cookies import CSRF_COOKIE, SESSION_COOKIE, csrf_token
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import RunningServer

PASSWORD = "correct horse battery"
_numbers = itertools.count(1)

SessionOf = Callable[[str], httpx2.Client]


@pytest.fixture
def session_of(server: RunningServer, operator: ImageHost) -> Iterator[SessionOf]:
    """Creates a client with a session of an account."""
    clients: list[httpx2.Client] = []

    def create(name: str) -> httpx2.Client:
        token = operator.sessions.create(operator.accounts.get(name)).token
        headers = {"Authorization": f"Bearer {token}"}
        clients.append(httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE))
        return clients[-1]

    yield create
    for client in clients:
        client.close()


@pytest.fixture
def admin(session_of: SessionOf) -> httpx2.Client:
    return session_of("admin")


@pytest.fixture
def name(operator: ImageHost) -> str:
    """The name of a new account."""
    new = f"managed{next(_numbers)}"
    operator.accounts.create(new, password_hash=hash_quickly(PASSWORD))
    return new


def path_of(operator: ImageHost, name: str) -> str:
    return f"/v1/accounts/{operator.accounts.get(name).id}"


def details(response: httpx2.Response) -> str:
    return str(response.json()["error"]["details"])


def test_an_operator_creates_gets_lists_and_updates_an_account(
    admin: httpx2.Client, server: RunningServer, anonymous: httpx2.Client
) -> None:
    body: dict[str, Any] = {"name": "created", "password": PASSWORD, "quota_bytes": 9}
    created = admin.post("/v1/accounts", json={**body, "limits": {"api_per_hour": 0}})
    account = created.json()["data"]
    assert (created.status_code, created.headers["location"]) == (
        201,
        f"{server.base_url}/accounts/{account['id']}",
    )
    assert account == {
        "id": account["id"],
        "name": "created",
        "role": "user",
        "limits": {
            "api_per_minute": None,
            "api_per_hour": 0,
            "api_per_day": None,
            "uploads_per_minute": None,
            "bulk_ids_per_minute": None,
        },
        "quota_bytes": 9,
        "suspended": False,
        "created_at": account["created_at"],
        "usage": {"bytes": 0, "images": 0, "albums": 0},
    }
    path = f"/v1/accounts/{account['id']}"
    assert admin.get(path).json()["data"] == account
    assert admin.get("/v1/accounts?per_page=1").json()["data"]["accounts"] == [account]
    changes = {"role": "operator", "limits": {"uploads_per_minute": 60}, "quota_bytes": None}
    changed = admin.patch(path, json=changes).json()["data"]
    expected = {**account, "role": "operator", "quota_bytes": None}
    assert changed == {**expected, "limits": {**account["limits"], "uploads_per_minute": 60}}
    assert admin.patch(path, json={}).json()["data"] == changed
    assert admin.post("/v1/accounts", json=body).status_code == 409
    session = anonymous.post("/v1/session", json={"username": "created", "password": PASSWORD})
    assert session.json()["data"]["account"]["role"] == "operator"
    token = {"Authorization": f"Bearer {session.json()['data']['token']}"}
    assert anonymous.get("/v1/accounts", headers=token).status_code == 200
    assert admin.patch(path, json={"role": "user"}).json()["data"]["role"] == "user"
    assert anonymous.get("/v1/accounts", headers=token).status_code == 403


def test_accounts_are_listed_by_page_and_cursor(admin: httpx2.Client, operator: ImageHost) -> None:
    names = [f"listed{number}" for number in range(3)]
    for listed in names:
        operator.accounts.create(listed)
    first = admin.get("/v1/accounts?per_page=2").json()["data"]
    assert [account["name"] for account in first["accounts"]] == names[:0:-1]
    cursor = first["pagination"]["next_cursor"]
    second = admin.get(f"/v1/accounts?per_page=1&cursor={cursor}").json()["data"]
    assert [account["name"] for account in second["accounts"]] == names[:1]
    assert admin.get("/v1/accounts?per_page=101&page=0").status_code == 400


def test_the_account_of_a_session_shows_its_role(
    admin: httpx2.Client, session_of: SessionOf, name: str
) -> None:
    for client, role in ((admin, "operator"), (session_of(name), "user")):
        assert client.get("/v1/account").json()["data"]["account"]["role"] == role


@pytest.mark.parametrize(
    ("body", "names", "status_of_unknown"),
    [
        ({"role": "admin", "quota_bytes": -1}, ["role", "quota_bytes"], 404),
        ({"limits": {"api_per_minute": -1, "api_per_day": 2**63}}, ["api_per_minute", "api_per_day"], 404),
        # An error of a type is one of the first step, in which no account is looked up.
        ({"limits": {"api_per_minute": "5"}, "suspended": "no"}, ["limits.api_per_minute", "suspended"], 422),
        ({"limits": {"api_per_hour": 1.5}, "role": 7}, ["limits.api_per_hour", "role"], 422),
        ({"limits": [], "role": None, "quota_bytes": "1"}, ["limits", "role", "quota_bytes"], 422),
        ({"limits": None}, ["limits"], 422),
    ],
)
def test_all_errors_of_an_update_are_reported_together(
    admin: httpx2.Client,
    operator: ImageHost,
    name: str,
    body: dict[str, Any],
    names: list[str],
    status_of_unknown: int,
) -> None:
    before = operator.accounts.get(name)
    response = admin.patch(path_of(operator, name), json=body)
    assert response.status_code == 422
    assert all(f"for {wrong} but" in details(response) for wrong in names), details(response)
    assert operator.accounts.get(name) == before
    unknown = admin.patch("/v1/accounts/999999999", json=body)
    assert unknown.status_code == status_of_unknown
    assert all(f"for {wrong} but" in details(unknown) for wrong in names), details(unknown)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"username": "a/b", "password": "short", "role": "x"}, ["name", "password", "role"]),
        ({"name": 7, "password": 7, "role": 7}, ["name", "password", "role"]),
        ({"password": PASSWORD, "limits": {"api_per_day": "1"}}, ["name", "limits.api_per_day"]),
        ({"name": "a/b", "password": PASSWORD, "limits": {"api_per_day": -1}}, ["name", "api_per_day"]),
    ],
)
def test_all_errors_of_a_new_account_are_reported_together(
    admin: httpx2.Client, body: dict[str, Any], names: list[str]
) -> None:
    response = admin.post("/v1/accounts", json=body)
    assert response.status_code == 422
    assert all(f"for {wrong} but" in details(response) for wrong in names), details(response)


def test_the_last_operator_cannot_be_suspended_or_demoted(
    admin: httpx2.Client, operator: ImageHost, name: str
) -> None:
    path = path_of(operator, "admin")
    for body in ({"suspended": True}, {"role": "user"}):
        response = admin.patch(path, json=body)
        assert (response.status_code, response.json()["error"]["code"]) == (409, "CONFLICT")
    operator.accounts.update(name, role="operator")
    assert admin.patch(path, json={"role": "user"}).json()["data"]["role"] == "user"
    assert admin.patch(path, json={"role": "operator"}).status_code == 403
    operator.accounts.update("admin", role="operator")
    operator.accounts.update(name, role="user")


def test_an_operators_cookie_needs_the_csrf_token(
    anonymous: httpx2.Client, operator: ImageHost, name: str
) -> None:
    token = operator.sessions.create(operator.accounts.get("admin")).token
    cookie = {"Cookie": f"{SESSION_COOKIE}={token}; {CSRF_COOKIE}={csrf_token(token)}"}
    header = {**cookie, "X-CSRF-Token": csrf_token(token)}
    path, body = path_of(operator, name), {"quota_bytes": 1}
    assert anonymous.patch(path, headers=cookie, json=body).status_code == 403
    assert anonymous.patch(path, headers=header, json=body).status_code == 200
    new = {"username": f"{name}x", "password": PASSWORD}
    assert anonymous.post("/v1/accounts", headers=cookie, json=new).status_code == 403
    assert anonymous.post("/v1/accounts", headers=header, json=new).status_code == 201


def test_suspending_refuses_tokens_and_sign_in_until_it_ends(
    admin: httpx2.Client, anonymous: httpx2.Client, operator: ImageHost, session_of: SessionOf, name: str
) -> None:
    client, path = session_of(name), path_of(operator, name)
    key = {"Authorization": f"Bearer {operator.keys.create(owner=name).token}"}
    credentials = {"username": name, "password": PASSWORD}
    assert admin.patch(path, json={"suspended": True}).json()["data"]["suspended"] is True
    assert client.get("/v1/account").status_code == 401
    assert anonymous.get("/v1/account", headers=key).status_code == 401
    assert anonymous.post("/v1/session", json=credentials).status_code == 401
    assert admin.patch(path, json={"suspended": 0}).json()["data"]["suspended"] is False
    assert client.get("/v1/account").status_code == 401
    assert anonymous.get("/v1/account", headers=key).status_code == 200
    assert anonymous.post("/v1/session", json=credentials).status_code == 201


@pytest.mark.parametrize("by_http", [True, False], ids=["this process", "another process"])
def test_images_of_a_suspended_account_are_404_from_every_cache(
    admin: httpx2.Client, anonymous: httpx2.Client, operator: ImageHost, png: bytes, name: str, by_http: bool
) -> None:
    image = operator.upload(png, owner=name)
    private = operator.upload(png, owner=name, is_public=False)
    url = f"/img/{image.id}.webp?w=50"
    signed = operator.images.signed_url(private, "w=40").url.partition("/img/")[2]
    etag = anonymous.get(url).headers["etag"]
    requests: list[tuple[str, str, dict[str, str]]] = [
        ("GET", url, {}),
        ("HEAD", url, {}),
        ("GET", url, {"Range": "bytes=0-9"}),
        ("GET", url, {"If-None-Match": etag}),
        ("GET", f"/img/{image.id}", {}),
        ("GET", f"/img/{signed}", {}),
    ]

    def statuses() -> list[int]:
        return [anonymous.request(*request[:2], headers=request[2]).status_code for request in requests]

    def suspend(suspended: bool) -> None:
        if by_http:
            response = admin.patch(path_of(operator, name), json={"suspended": suspended})
            assert response.status_code == 200
        else:
            operator.accounts.update(name, suspended=suspended)

    # Twice: the second responses are from memory, those of plain requests from the fast path.
    for _ in range(2):
        assert statuses() == [200, 200, 206, 304, 200, 200]
    suspend(True)
    for _ in range(2):
        assert statuses() == [404] * 6
    missing = anonymous.get(f"/img/{'0' * 16}.webp?w=50")
    response = anonymous.get(url)
    assert response.json() == {
        **missing.json(),
        "error": {**missing.json()["error"], "details": details(missing).replace("0" * 16, image.id)},
    }
    suspend(False)
    for _ in range(2):
        assert statuses() == [200, 200, 206, 304, 200, 200]


# Registration.


def test_registration_needs_no_valid_token_and_gives_no_role() -> None:
    body = {"username": "fresh", "password": PASSWORD}
    settings = ServerSettings(registration=True)
    host = open_host(settings=settings)
    with serving(host, settings) as origin, httpx2.Client(base_url=origin) as client:
        for wrong in ({"role": "operator"}, {"quota_bytes": None}, {"limits": {"api_per_day": 0}}):
            assert client.post("/v1/accounts", json={**body, **wrong}).status_code == 401
        expired = {"Authorization": "Bearer rubbish"}
        created = client.post("/v1/accounts", json=body, headers=expired)
        assert (created.status_code, created.json()["data"]["role"]) == (201, "user")
        key = {"Authorization": f"Bearer {host.keys.create(owner='fresh').token}"}
        session = {"Authorization": f"Bearer {host.sessions.create(host.accounts.get('fresh')).token}"}
        for headers in (key, session):
            other = {"username": "other", "password": PASSWORD}
            assert client.post("/v1/accounts", json=other, headers=headers).status_code == 403
        document = client.get("/v1/openapi.json").json()
        assert {} in document["paths"]["/accounts"]["post"]["security"]
