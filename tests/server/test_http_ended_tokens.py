"""Tokens that end while the body of their request arrives: 401, and the request changes nothing."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from attrs import frozen
from tests.server.conftest import hash_quickly
from tests.server.test_access_matrix import BODIES, PASSWORD, split
from tests.waiting import PATIENCE

from imagehost_core import Account, ImageHost
from imagehost_core.authorization import Requirement, SessionRequirement
from imagehost_core.models import Role, Scope
from imagehost_server.auth.cookies import CSRF_COOKIE, SESSION_COOKIE, csrf_token
from imagehost_server.routes import ROUTE_SCOPES
from imagehost_server.testing import RunningServer

ENDPOINT = "https://1.1.1.1/hook"
"""An endpoint that is accepted without a DNS lookup; no event is sent to it."""
numbers = itertools.count()


@frozen
class Caller:
    """An account with a resource of each kind, and a token of it."""

    host: ImageHost
    account: Account
    ids: dict[str, Any]
    token: str
    key_id: str

    def state(self) -> object:
        """Return what the account has, and which accounts there are."""
        host, owner = self.host, self.account.name
        names = sorted(account.name for account in host.accounts.iter())
        if owner not in names:
            return names
        lists = (host.images, host.albums, host.keys, host.webhooks)
        keys = [repr(key) for key in host.keys.list(owner=owner)]
        return names, [repr(list(each.list(owner=owner))) for each in lists if each is not host.keys], keys


@pytest.fixture(scope="module")
def call(operator: ImageHost, png: bytes) -> Callable[[Requirement], Caller]:
    """Return a function that makes an account with a token that has no more than a requirement."""
    hashed = hash_quickly(PASSWORD)

    def make(requirement: Requirement) -> Caller:
        host, name = operator, f"caller-{next(numbers)}"
        role = Role.OPERATOR if requirement is SessionRequirement.OPERATOR else Role.USER
        account = host.accounts.create(name, password_hash=hashed, role=role)
        image = host.upload(png, owner=account, filename="a.png")
        webhook = host.webhooks.create(owner=account, url=ENDPOINT, events=["album.updated"])
        ids: dict[str, Any] = {
            "png": png,
            "user": name,
            "new_user": f"{name}-new",
            "image_id": image.id,
            "album_id": str(host.albums.create(owner=account, name="a").id),
            "key_id": host.keys.create(owner=account).id,
            "webhook_id": webhook.id,
            "account_id": str(account.id),
        }
        if isinstance(requirement, Scope):
            created = host.keys.create(owner=account, scopes=[requirement])
            return Caller(host, account, ids, created.token, created.id)
        return Caller(host, account, ids, host.sessions.create(account).token, "")

    return make


@contextmanager
def half_sent(
    server: RunningServer, method: str, path: str, headers: dict[str, str], body: dict[str, Any]
) -> Iterator[Callable[[], tuple[int, bytes]]]:
    """Send the head of a request and half of its body; yield the function that sends the rest.

    The server asks for the body (100 Continue) once it has authenticated the head.
    """
    with httpx2.Client() as client:
        request = client.build_request(method, f"{server.origin}{path}", headers=headers, **body)
        content = request.read()
    lines = [f"{method} {path} HTTP/1.1", "expect: 100-continue", "connection: close"]
    lines += [f"{name}: {value}" for name, value in request.headers.items() if name != "connection"]
    middle = max(1, len(content) // 2)
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        assert connection.recv(1_000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(content[:middle])

        def send_rest() -> tuple[int, bytes]:
            connection.sendall(content[middle:])
            response = b"".join(iter(lambda: connection.recv(65_536), b""))
            return int(response.split(b" ")[1]), response

        yield send_rest


def end(caller: Caller) -> None:
    """End the token of a caller, in another process than the server's."""
    if caller.key_id:
        caller.host.keys.delete(caller.key_id, owner=caller.account.name)
    else:
        session = caller.host.authenticate(caller.token).session_id
        caller.host.sessions.delete(session, owner=caller.account.name)


WITH_BODY = [route for route in BODIES if ROUTE_SCOPES[route] is not None]


@pytest.mark.parametrize("route", WITH_BODY)
def test_a_token_that_ends_while_the_body_arrives_is_401_on_every_route(
    server: RunningServer, call: Callable[[Requirement], Caller], route: str
) -> None:
    requirement = ROUTE_SCOPES[route]
    assert requirement is not None
    caller = call(requirement)
    method, path = split(route, caller.ids)
    headers = {"Authorization": f"Bearer {caller.token}"}
    with half_sent(server, method, path, headers, BODIES[route](caller.ids)) as send_rest:
        end(caller)
        before = caller.state()
        status, response = send_rest()
    assert status == 401, response
    assert b"www-authenticate: bearer" in response.lower()
    assert caller.state() == before


ENDS: dict[str, tuple[int, Callable[[Caller], object]]] = {
    "revoked": (401, end),
    "narrowed": (
        403,
        lambda caller: caller.host.keys.update(
            caller.key_id, owner=caller.account.name, scopes=["account:read"]
        ),
    ),
    "suspended": (401, lambda caller: caller.host.accounts.update(caller.account.name, suspended=True)),
    "deleted": (401, lambda caller: caller.host.accounts.delete(caller.account.name)),
}


@pytest.mark.parametrize("end_name", ENDS)
@pytest.mark.parametrize(
    "route", ["POST /v1/upload", "POST /v1/albums", "PATCH /v1/images/{image_id}", "PATCH /v1/images"]
)
def test_whatever_ends_a_key_ends_its_requests(
    server: RunningServer, call: Callable[[Requirement], Caller], route: str, end_name: str
) -> None:
    requirement, (expected, end_key) = ROUTE_SCOPES[route], ENDS[end_name]
    assert requirement is not None
    caller = call(requirement)
    method, path = split(route, caller.ids)
    headers = {"Authorization": f"Bearer {caller.token}"}
    with half_sent(server, method, path, headers, BODIES[route](caller.ids)) as send_rest:
        end_key(caller)
        before = caller.state()
        status, response = send_rest()
    assert status == expected, response
    assert caller.state() == before


@pytest.mark.parametrize("path", ["/v1/keys", "/settings/keys", "/upload"])
def test_a_session_that_a_new_password_ends_makes_no_key_and_stores_nothing(
    server: RunningServer, call: Callable[[Requirement], Caller], path: str
) -> None:
    caller = call(SessionRequirement.ONLY)
    csrf = csrf_token(caller.token)
    cookie = f"{SESSION_COOKIE}={caller.token}; {CSRF_COOKIE}={csrf}"
    headers = {"Cookie": cookie, "X-CSRF-Token": csrf}
    bodies: dict[str, dict[str, Any]] = {
        "/v1/keys": {"json": {}},
        "/settings/keys": {"data": {"csrf_token": csrf, "name": "a", "preset": "all"}},
        "/upload": {"data": {"csrf_token": csrf}, "files": {"files[]": ("a.png", caller.ids["png"])}},
    }
    with half_sent(server, "POST", path, headers, bodies[path]) as send_rest:
        caller.host.accounts.set_password_hash(caller.account.name, hash_quickly("another password"))
        before = caller.state()
        status, response = send_rest()
    assert status == 401, response
    assert caller.state() == before


def test_a_stored_response_is_not_repeated_for_a_token_that_has_ended(
    server: RunningServer, call: Callable[[Requirement], Caller]
) -> None:
    caller = call(Scope.ALBUMS_WRITE)
    headers = {"Authorization": f"Bearer {caller.token}", "Idempotency-Key": "once"}
    body: dict[str, Any] = {"json": {"name": "x"}}
    with half_sent(server, "POST", "/v1/albums", headers, body) as send_rest:
        status, first = send_rest()
    assert status == 201
    with half_sent(server, "POST", "/v1/albums", headers, body) as send_rest:
        end(caller)
        status, response = send_rest()
    assert (status, json.loads(first.partition(b"\r\n\r\n")[2])["success"]) == (401, True)
    assert b"idempotent-replayed: true" not in response.lower()
