"""Password changes and the list of sessions over HTTP."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.server.conftest import hash_quickly
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.tokens import token_hash
from imagehost_server.auth.cookies import SESSION_COOKIE
from imagehost_server.testing import RunningServer

PASSWORD = "correct horse battery"
OTHER = "staple correct horse"
_numbers = itertools.count(1)

SignIn = Callable[..., httpx2.Client]


@pytest.fixture
def name(operator: ImageHost) -> str:
    """The name of a new account."""
    new = f"changing{next(_numbers)}"
    operator.accounts.create(new, password_hash=hash_quickly(PASSWORD))
    return new


@pytest.fixture
def sign_in(server: RunningServer, anonymous: httpx2.Client, name: str) -> Iterator[SignIn]:
    """Signs in over HTTP; returns a client with the session."""
    clients: list[httpx2.Client] = []

    def sign_in(user_agent: str = "test") -> httpx2.Client:
        body = {"username": name, "password": PASSWORD}
        response = anonymous.post("/v1/session", json=body, headers={"User-Agent": user_agent})
        headers = {"Authorization": f"Bearer {response.json()['data']['token']}"}
        clients.append(httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE))
        return clients[-1]

    yield sign_in
    for client in clients:
        client.close()


def token_of(client: httpx2.Client) -> str:
    return str(client.headers["authorization"].partition(" ")[2])


def sessions_of(client: httpx2.Client) -> list[dict[str, Any]]:
    return list(client.get("/v1/sessions").json()["data"]["sessions"])


def change(client: httpx2.Client, current: object, new: object) -> httpx2.Response:
    body = {"current_password": current, "new_password": new}
    return client.post("/v1/account/password", json=body)


def test_a_password_change_ends_all_other_sessions(
    sign_in: SignIn, anonymous: httpx2.Client, operator: ImageHost, name: str
) -> None:
    one, other = sign_in(), sign_in()
    key = {"Authorization": f"Bearer {operator.keys.create(owner=name).token}"}
    response = change(one, PASSWORD, OTHER)
    assert (response.status_code, response.json()["data"]) == (200, {"changed": True})
    assert one.get("/v1/account").status_code == 200
    assert other.get("/v1/account").status_code == 401
    assert anonymous.get("/v1/account", headers=key).status_code == 200
    for password, status in ((PASSWORD, 401), (OTHER, 201)):
        body = {"username": name, "password": password}
        assert anonymous.post("/v1/session", json=body).status_code == status


@pytest.mark.parametrize(
    ("current", "new", "names"),
    [
        ("wrong password", OTHER, ["current_password"]),
        ("wrong password", "short", ["current_password", "new_password"]),
        (PASSWORD, "ä" * 513, ["new_password"]),
        ("x" * 2_000, OTHER, ["current_password"]),
        (7, "short", ["current_password"]),
        (7, 7, ["current_password", "new_password"]),
        (None, None, ["current_password", "new_password"]),
    ],
)
def test_all_errors_of_a_password_change_are_reported_together_and_nothing_changes(
    sign_in: SignIn, current: object, new: object, names: list[str]
) -> None:
    one, other = sign_in(), sign_in()
    response = change(one, current, new)
    details = response.json()["error"]["details"]
    assert response.status_code == 422
    for wrong in ("current_password", "new_password"):
        assert (f"for {wrong} but" in details) == (wrong in names)
    assert not any(isinstance(secret, str) and secret in response.text for secret in (current, new))
    assert other.get("/v1/account").status_code == 200
    assert change(one, PASSWORD, PASSWORD).status_code == 200


def test_an_account_without_a_password_cannot_change_it(operator: ImageHost, server: RunningServer) -> None:
    account = operator.accounts.create("passwordless")
    headers = {"Authorization": f"Bearer {operator.sessions.create(account).token}"}
    with httpx2.Client(base_url=server.origin, headers=headers, timeout=PATIENCE) as client:
        assert change(client, "", OTHER).status_code == 422


def test_sessions_are_listed_without_secrets_and_the_current_one_is_marked(
    sign_in: SignIn, operator: ImageHost, name: str
) -> None:
    one, other = sign_in("Mozilla/5.0"), sign_in("curl/8")
    listed = sessions_of(one)
    assert [(session["user_agent"], session["is_current"]) for session in listed] == [
        ("curl/8", False),
        ("Mozilla/5.0", True),
    ]
    assert {session["ip_address"] for session in listed} == {"127.0.0.1"}
    assert listed[0].keys() == {
        "id",
        "user_agent",
        "ip_address",
        "created_at",
        "expires_at",
        "last_used_at",
        "is_current",
    }
    text = one.get("/v1/sessions").text
    for client in (one, other):
        assert token_of(client) not in text
        assert token_hash(token_of(client)) not in text
    page = one.get("/v1/sessions?per_page=1").json()["data"]
    assert (len(page["sessions"]), page["pagination"]["total"]) == (1, 2)


def test_a_session_is_ended_by_its_id(sign_in: SignIn, operator: ImageHost) -> None:
    one, other = sign_in(), sign_in()
    session_id = next(session["id"] for session in sessions_of(one) if not session["is_current"])
    response = one.delete(f"/v1/sessions/{session_id}")
    assert response.json()["data"] == {"id": session_id, "deleted": True}
    assert "set-cookie" not in response.headers
    assert other.get("/v1/account").status_code == 401
    assert one.delete(f"/v1/sessions/{session_id}").status_code == 404
    foreign = operator.sessions.create(operator.accounts.get("admin"))
    assert one.delete(f"/v1/sessions/{foreign.id}").status_code == 404
    assert operator.authenticate(foreign.token).account.name == "admin"


def test_ending_the_current_session_deletes_its_cookies(sign_in: SignIn) -> None:
    client = sign_in()
    (session,) = sessions_of(client)
    response = client.delete(f"/v1/sessions/{session['id']}")
    assert response.status_code == 200
    assert f"{SESSION_COOKIE}=" in response.headers["set-cookie"]
    assert client.get("/v1/account").status_code == 401
