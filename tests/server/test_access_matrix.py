"""Every route with every kind of token: authentication, scopes, and resources of other accounts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from attrs import frozen
from tests.open_host import open_host
from tests.server.conftest import NO_LIMITS, hash_quickly
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core._util.clock import utc_now
from imagehost_core.authorization import SessionRequirement
from imagehost_core.models import ALL_SCOPES, Scope
from imagehost_core.settings import from_environment, resolve_settings
from imagehost_core.tokens import TokenKind, new_token
from imagehost_server.routes import ROUTE_SCOPES
from imagehost_server.settings import ServerSettings

PASSWORD = "correct horse"
MISSING_ID = "0" * 16
ENDPOINT = "http://127.0.0.1:9/hook"

BODIES: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {
    "POST /v1/upload": lambda ids: {"files": {"image": ("a.png", ids["png"])}},
    "PATCH /v1/images/{image_id}": lambda _: {"json": {"description": "x"}},
    "POST /v1/images/{image_id}/signed-url": lambda _: {"json": {"expires_in": 9, "w": 9}},
    "PATCH /v1/images": lambda ids: {"json": {"image_ids": [ids["image_id"]], "description": "z"}},
    "DELETE /v1/images": lambda ids: {"json": {"image_ids": [ids["image_id"]]}},
    "POST /v1/images/delete": lambda ids: {"json": {"image_ids": [ids["image_id"]]}},
    "POST /v1/signed-urls": lambda ids: {"json": {"items": [{"image_id": ids["image_id"]}]}},
    "POST /v1/albums": lambda _: {"json": {"name": "x"}},
    "PATCH /v1/albums/{album_id}": lambda _: {"json": {"name": "y"}},
    "PUT /v1/albums/{album_id}/images": lambda ids: {"json": {"image_ids": [ids["image_id"]]}},
    "DELETE /v1/albums/{album_id}/images": lambda ids: {"json": {"image_ids": [ids["image_id"]]}},
    "POST /v1/albums/{album_id}/shares": lambda _: {"json": {}},
    "POST /v1/session": lambda ids: {"json": {"username": ids["user"], "password": PASSWORD}},
    "POST /v1/accounts": lambda ids: {"json": {"username": ids["new_user"], "password": PASSWORD}},
    "POST /v1/account/password": lambda _: {"json": {"current_password": PASSWORD, "new_password": PASSWORD}},
    "PATCH /v1/accounts/{account_id}": lambda _: {"json": {"quota_bytes": None}},
    "POST /v1/keys": lambda _: {"json": {"name": "x"}},
    "PATCH /v1/keys/{key_id}": lambda _: {"json": {"name": "y"}},
    "POST /v1/webhooks": lambda _: {"json": {"url": ENDPOINT}},
    "PATCH /v1/webhooks/{webhook_id}": lambda _: {"json": {"description": "y"}},
}
"""A valid request of each route that has a body."""

CREATED = {"POST /v1/albums", "POST /v1/session", "POST /v1/accounts", "POST /v1/keys", "POST /v1/webhooks"}
CREATED |= {"POST /v1/webhooks/{webhook_id}/test", "POST /v1/albums/{album_id}/shares"}
"""The routes whose success is 201."""

FURTHER_SCOPES = dict.fromkeys(
    ("POST /v1/albums/{album_id}/shares", "GET /v1/albums/{album_id}/shares"), Scope.IMAGES_READ
)
"""The second scope of routes that require two: share links show private images."""

MISSING = {
    "image_id": MISSING_ID,
    "album_id": "999999999",
    "account_id": "999999999",
    "key_id": MISSING_ID,
    "session_id": MISSING_ID,
    "webhook_id": MISSING_ID,
    "delivery_id": MISSING_ID,
    "share_id": MISSING_ID,
}
"""Well-formed ids of resources that do not exist."""

FILE = "sharex.sxcu"
"""The name in the routes of integrations, which is no id. They respond with the file, without envelope."""


@frozen
class Service:
    """A server with the accounts ann, bob, eve and admin, an operator, and a session token of each."""

    client: httpx2.Client
    host: ImageHost
    png: bytes
    sessions: dict[str, str]

    def key(self, user: str, *scopes: Scope) -> str:
        return self.host.keys.create(owner=user, scopes=scopes or ALL_SCOPES).token

    def send(self, method: str, path: str, token: str | None, **body: Any) -> httpx2.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.client.request(method, path, headers=headers, **body)

    def resources(self, user: str) -> dict[str, Any]:
        """Create one resource of each kind for an account; return their ids, and values for bodies."""
        host = self.host
        for previous in host.webhooks.list(owner=user):  # an account has at most 100
            host.webhooks.delete(previous, owner=user)
        album = host.albums.create(owner=user, name="x")
        webhook = host.webhooks.create(owner=user, url=ENDPOINT)
        created: dict[str, Any] = {
            "image_id": host.upload(self.png, owner=user),
            "album_id": album,
            "share_id": host.albums.create_share(album, owner=user),
            "key_id": host.keys.create(owner=user),
            "webhook_id": webhook,
            "delivery_id": host.webhooks.test(webhook, owner=user),
        }
        ids = {name: str(resource.id) for name, resource in created.items()}
        account = host.accounts.get(user)
        ids |= {"account_id": str(account.id), "session_id": host.sessions.create(account).id}
        return {**ids, "png": self.png, "user": user, "new_user": new_token(TokenKind.KEY)[:30]}

    def invalid_tokens(self) -> dict[str, str | None]:
        """Return invalid tokens, by the reason."""
        with open_host(self.host.path, clock=lambda: utc_now() - timedelta(hours=1)) as past:
            expires_at = utc_now() - timedelta(minutes=30)
            expired = past.keys.create(owner="ann", expires_at=expires_at).token
        revoked = self.host.keys.create(owner="ann")
        self.host.keys.delete(revoked.id, owner="ann")
        ended = self.host.sessions.create(self.host.accounts.get("ann"))
        self.host.sessions.delete(ended, owner="ann")
        return {
            "none": None,
            "malformed": "rubbish",
            "mistyped": self.key("ann")[:-1] + "!",
            "unknown": new_token(TokenKind.KEY),
            "unknown session": new_token(TokenKind.SESSION),
            "expired": expired,
            "revoked": revoked.token,
            "signed out": ended.token,
            "suspended": self.key("gone"),
        }


VARIABLES = {
    **NO_LIMITS,
    "IMAGEHOST_BASE_URL": "http://testserver.local/v1",
    "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true",
    "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false",
}


@pytest.fixture(scope="module")
def service(png: bytes) -> Iterator[Service]:
    settings = resolve_settings([from_environment(VARIABLES)], ServerSettings)[0]
    host = open_host(settings=settings)
    with serving(host, settings) as origin, httpx2.Client(base_url=origin, timeout=PATIENCE) as client:
        for user in ("ann", "bob", "eve", "gone"):
            host.accounts.create(user, password_hash=hash_quickly(PASSWORD))
        users = ("ann", "bob", "eve", "admin")
        sessions = {user: host.sessions.create(host.accounts.get(user)).token for user in users}
        yield Service(client, host, png, sessions)


@pytest.fixture(scope="module")
def unchanged(service: Service) -> dict[str, Any]:
    """Resources of eve, for requests that must not change them."""
    return service.resources("eve")


@pytest.fixture(scope="module")
def invalid_tokens(service: Service) -> dict[str, str | None]:
    tokens = service.invalid_tokens()
    service.host.accounts.update("gone", suspended=True)
    return tokens


def split(route: str, ids: dict[str, Any]) -> tuple[str, str]:
    """Return the method of a route and its path with ids in it."""
    method, path = route.split(" ")
    return method, re.sub(r"\{(\w+)\}", lambda match: str({"name": FILE, **ids}[match[1]]), path)


def body_of(route: str, ids: dict[str, Any]) -> dict[str, Any]:
    return BODIES[route](ids) if route in BODIES else {}


def minimal_token(service: Service, user: str, route: str) -> str:
    """Return a token with no more than the requirement of a route."""
    requirement = ROUTE_SCOPES[route]
    if isinstance(requirement, Scope):
        return service.key(user, requirement, FURTHER_SCOPES.get(route, requirement))
    return service.sessions["admin" if requirement is SessionRequirement.OPERATOR else user]


def error_code(response: httpx2.Response) -> str:
    """Return the code of an error response; assert that it is an error envelope."""
    members = response.json()
    assert members.keys() == {"success", "error"}
    assert members["success"] is False
    assert members["error"].keys() == {"code", "message", "details"}
    return str(members["error"]["code"])


def comparable(response: httpx2.Response, *ids: str) -> tuple[int, str, list[tuple[str, str]]]:
    """Return status, body and headers of a response without what differs between any two.

    `Connection` is set by the HTTP server: it closes if a body that is not read has not arrived yet.
    """
    # Whole words: an album id may be part of another id.
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, ids))})\b")
    text = pattern.sub("ID", response.text) if ids else response.text
    ignored = ("x-request-id", "date", "x-ratelimit-remaining", "content-length", "connection")
    headers = [(name, value) for name, value in response.headers.items() if name.lower() not in ignored]
    return response.status_code, text, sorted(headers)


PROTECTED = [route for route, requirement in ROUTE_SCOPES.items() if requirement is not None]
OWNED = [route for route in PROTECTED if ROUTE_SCOPES[route] is not SessionRequirement.OPERATOR]
"""The routes of an account's own resources."""
OPERATORS = [route for route in PROTECTED if ROUTE_SCOPES[route] is SessionRequirement.OPERATOR]
OPEN = [route for route, requirement in ROUTE_SCOPES.items() if requirement is None]


def test_every_route_with_a_body_is_in_the_table() -> None:
    assert BODIES.keys() <= ROUTE_SCOPES.keys()


@pytest.mark.parametrize("route", PROTECTED)
def test_invalid_tokens_are_401_with_identical_responses(
    service: Service, invalid_tokens: dict[str, str | None], route: str
) -> None:
    responses = {}
    for kind, token in invalid_tokens.items():
        ids = {**MISSING, "png": service.png, "new_user": "new"}
        response = service.send(*split(route, ids), token, **body_of(route, ids))
        assert (response.status_code, error_code(response)) == (401, "UNAUTHORIZED"), kind
        assert response.headers["www-authenticate"] == "Bearer"
        responses[kind] = comparable(response)
    # The response does not reveal why a well-formed token is invalid.
    well_formed = ("unknown", "expired", "revoked", "signed out", "suspended")
    assert len({str(responses[kind]) for kind in well_formed}) == 1


@pytest.mark.parametrize("route", PROTECTED)
def test_without_the_required_scope_it_is_403_whether_the_resource_exists_or_not(
    service: Service, unchanged: dict[str, Any], route: str
) -> None:
    requirement = ROUTE_SCOPES[route]
    others = ALL_SCOPES - {requirement} if isinstance(requirement, Scope) else ALL_SCOPES
    token, ids = service.key("eve", *others), unchanged
    existing = service.send(*split(route, ids), token, **body_of(route, ids))
    missing = service.send(*split(route, {**ids, **MISSING}), token, **body_of(route, ids))
    assert (existing.status_code, error_code(existing)) == (403, "FORBIDDEN")
    assert comparable(existing) == comparable(missing)


@pytest.mark.parametrize("route", OPERATORS)
def test_another_users_session_is_403_whether_the_account_exists_or_not(service: Service, route: str) -> None:
    token, ids = service.sessions["bob"], service.resources("ann")
    existing, own, missing = (
        service.send(*split(route, names), token, **body_of(route, ids))
        for names in (ids, service.resources("bob"), {**ids, **MISSING})
    )
    assert (existing.status_code, error_code(existing)) == (403, "FORBIDDEN")
    assert comparable(existing) == comparable(own) == comparable(missing)


@pytest.mark.parametrize("route", [route for route in OPERATORS if "{" in route])
@pytest.mark.parametrize("account_id", ["999999999", "0", "-1", "01", "x", str(2**63)])
def test_an_unknown_account_is_404_for_operators(service: Service, route: str, account_id: str) -> None:
    ids = {"account_id": account_id}
    response = service.send(*split(route, ids), service.sessions["admin"], **body_of(route, ids))
    assert (response.status_code, error_code(response)) == (404, "NOT_FOUND")


@pytest.mark.parametrize("route", [route for route in OWNED if "_id}" in route])
def test_a_foreign_resource_responds_exactly_like_a_missing_one(
    service: Service, unchanged: dict[str, Any], route: str
) -> None:
    ids, token = unchanged, minimal_token(service, "bob", route)
    before = service.host.accounts.usage("eve")
    foreign = service.send(*split(route, ids), token, **body_of(route, ids))
    missing = service.send(*split(route, MISSING), token, **body_of(route, ids))
    assert (foreign.status_code, error_code(foreign)) == (404, "NOT_FOUND")
    names = [name for name in MISSING if f"{{{name}}}" in route]
    foreign_ids, missing_ids = [str(ids[name]) for name in names], [MISSING[name] for name in names]
    assert comparable(foreign, *foreign_ids) == comparable(missing, *missing_ids)
    assert service.host.accounts.usage("eve") == before


@pytest.mark.parametrize("route", PROTECTED)
def test_a_token_with_only_the_required_scope_is_sufficient(service: Service, route: str) -> None:
    if route == "DELETE /v1/session":
        token = service.host.sessions.create(service.host.accounts.get("ann")).token
    else:
        token = minimal_token(service, "ann", route)
    ids = service.resources("ann")
    response = service.send(*split(route, ids), token, **body_of(route, ids))
    assert response.status_code == (201 if route in CREATED else 200), response.text
    assert "{name}" in route or response.json()["success"] is True


@pytest.mark.parametrize("route", [route for route in OWNED if "{" not in route and route.startswith("GET")])
def test_lists_contain_no_resources_of_other_accounts(
    service: Service, unchanged: dict[str, Any], route: str
) -> None:
    ids = unchanged
    response = service.send(*split(route, ids), minimal_token(service, "bob", route))
    assert response.status_code == 200
    numbers = ("album_id", "account_id")
    assert not any(f'"{ids[name]}"' in response.text for name in MISSING if name not in numbers)
    assert f'"id":{ids["album_id"]},' not in response.text


@pytest.mark.parametrize("route", OPEN)
def test_public_routes_accept_any_token(
    service: Service, invalid_tokens: dict[str, str | None], route: str
) -> None:
    for token in (*invalid_tokens.values(), service.sessions["bob"]):
        ids = {"user": "ann", "new_user": new_token(TokenKind.KEY)[:30]}
        response = service.send(*split(route, ids), token, **body_of(route, ids))
        assert response.status_code == (201 if route in CREATED else 200), response.text


@pytest.mark.parametrize("scope", sorted(ALL_SCOPES))
def test_a_key_of_one_scope_is_accepted_exactly_where_it_is_required(service: Service, scope: Scope) -> None:
    token = service.key("ann", scope)
    for route, requirement in ROUTE_SCOPES.items():
        ids = {**MISSING, "png": b"", "user": "ann", "new_user": "-"}
        status = service.send(*split(route, ids), token, **body_of(route, ids)).status_code
        assert (status == 403) == (requirement not in (None, scope) or route in FURTHER_SCOPES), route


@pytest.mark.parametrize("route", FURTHER_SCOPES)
def test_a_route_that_requires_two_scopes_refuses_a_key_without_the_second(
    service: Service, unchanged: dict[str, Any], route: str
) -> None:
    token, ids = service.key("eve", *(ALL_SCOPES - {FURTHER_SCOPES[route]})), unchanged
    existing, missing = (
        service.send(*split(route, names), token, **body_of(route, ids))
        for names in (ids, {**ids, **MISSING})
    )
    assert (existing.status_code, error_code(existing)) == (403, "FORBIDDEN")
    assert comparable(existing) == comparable(missing)


# Ids in queries and bodies.


def test_a_foreign_album_equals_a_missing_one_in_queries_and_bodies(service: Service) -> None:
    ids, token = service.resources("ann"), service.sessions["bob"]
    own_image = service.resources("bob")["image_id"]

    def send_all(album_id: str) -> list[httpx2.Response]:
        form = {"files": {"image": ("a.png", service.png)}, "data": {"album_id": album_id}}
        return [
            service.send("GET", f"/v1/images?album_id={album_id}", token),
            service.send("POST", "/v1/upload", token, **form),
            service.send("PATCH", f"/v1/images/{own_image}", token, json={"album_id": int(album_id)}),
        ]

    foreign, missing = send_all(ids["album_id"]), send_all(MISSING["album_id"])
    assert [response.status_code for response in foreign] == [404, 422, 422]
    for response, other in zip(foreign, missing, strict=True):
        assert comparable(response, ids["album_id"]) == comparable(other, MISSING["album_id"])


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_adding_a_foreign_image_to_an_album_equals_a_missing_one(service: Service, method: str) -> None:
    ids, own_ids, token = service.resources("ann"), service.resources("bob"), service.sessions["bob"]

    def send(image_id: str) -> httpx2.Response:
        path = f"/v1/albums/{own_ids['album_id']}/images"
        return service.send(method, path, token, json={"image_ids": [image_id]})

    foreign, missing = send(ids["image_id"]), send(MISSING_ID)
    assert foreign.json()["data"]["results"] == [{"image_id": ids["image_id"], "status": "not_found"}]
    assert comparable(foreign, ids["image_id"])[1:] == comparable(missing, MISSING_ID)[1:]


@pytest.mark.parametrize(
    "route", ["PATCH /v1/images", "DELETE /v1/images", "POST /v1/images/delete", "POST /v1/signed-urls"]
)
def test_a_foreign_image_of_a_bulk_request_equals_a_missing_one(service: Service, route: str) -> None:
    ids, token = service.resources("ann"), service.sessions["bob"]
    foreign = service.send(*split(route, ids), token, **body_of(route, ids))
    missing = service.send(*split(route, ids), token, **body_of(route, MISSING))
    assert comparable(foreign, ids["image_id"]) == comparable(missing, MISSING_ID)
    assert service.send("GET", f"/v1/images/{ids['image_id']}", service.sessions["ann"]).status_code == 200


def test_a_private_image_equals_a_missing_one_for_others(service: Service) -> None:
    form = {"files": {"image": ("a.png", service.png)}, "data": {"is_public": "0"}}
    image_id = service.send("POST", "/v1/upload", service.sessions["ann"], **form).json()["data"]["id"]
    assert service.send("GET", f"/img/{image_id}", service.key("ann", Scope.IMAGES_READ)).status_code == 200
    for token in (None, service.sessions["bob"], service.key("ann", *(ALL_SCOPES - {Scope.IMAGES_READ}))):
        private, missing = (
            service.send("GET", f"/img/{path_id}", token) for path_id in (image_id, MISSING_ID)
        )
        assert private.status_code == 404
        assert comparable(private, image_id) == comparable(missing, MISSING_ID)


def test_only_sessions_manage_keys_sessions_passwords_and_accounts() -> None:
    assert {
        route for route, requirement in ROUTE_SCOPES.items() if isinstance(requirement, SessionRequirement)
    } == {
        "DELETE /v1/session",
        "POST /integrations/{name}",
        "GET /v1/sessions",
        "DELETE /v1/sessions/{session_id}",
        "POST /v1/account/password",
        "POST /v1/account/signing-secret",
        *(f"{method} /v1/accounts" for method in ("GET", "POST")),
        *(f"{method} /v1/accounts/{{account_id}}" for method in ("GET", "PATCH")),
        *(f"{method} /v1/keys" for method in ("GET", "POST")),
        *(f"{method} /v1/keys/{{key_id}}" for method in ("GET", "PATCH", "DELETE")),
    }
