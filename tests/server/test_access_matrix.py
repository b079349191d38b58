"""Every route against every kind of token: who is let in, who is told what, and who learns nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from attrs import frozen

from imagehost_core import ImageHost
from imagehost_core._util.clock import utc_now
from imagehost_core.models import ALL_SCOPES, Scope
from imagehost_core.tokens import TokenKind, new_token
from imagehost_server.auth.passwords import hash_password
from imagehost_server.auth.scopes import ROUTE_SCOPES, Requirement, SessionRequirement
from imagehost_server.testing import RunningServer, running

PASSWORD = "correct horse"
WRONG = "0" * 16
HOOK = "http://127.0.0.1:9/hook"

BODIES: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {
    "POST /v1/upload": lambda ids: {"files": {"image": ("a.png", ids["picture"])}},
    "PATCH /v1/images/{image_id}": lambda _: {"json": {"description": "x"}},
    "POST /v1/images/{image_id}/signed-url": lambda _: {"json": {"expires_in": 9, "w": 9}},
    "POST /v1/albums": lambda _: {"json": {"name": "x"}},
    "PATCH /v1/albums/{album_id}": lambda _: {"json": {"name": "y"}},
    "PUT /v1/albums/{album_id}/images": lambda ids: {"json": {"image_ids": [ids["image_id"]]}},
    "DELETE /v1/albums/{album_id}/images": lambda ids: {"json": {"image_ids": [ids["image_id"]]}},
    "POST /v1/session": lambda ids: {"json": {"username": ids["user"], "password": PASSWORD}},
    "POST /v1/accounts": lambda ids: {"json": {"username": ids["new_user"], "password": PASSWORD}},
    "POST /v1/keys": lambda _: {"json": {"name": "x"}},
    "PATCH /v1/keys/{key_id}": lambda _: {"json": {"name": "y"}},
    "POST /v1/webhooks": lambda _: {"json": {"url": HOOK}},
    "PATCH /v1/webhooks/{webhook_id}": lambda _: {"json": {"description": "y"}},
}
"""What each route is sent, so that nothing is wrong with the request but who sends it."""

CREATED = {"POST /v1/albums", "POST /v1/session", "POST /v1/accounts", "POST /v1/keys", "POST /v1/webhooks"}
CREATED |= {"POST /v1/webhooks/{webhook_id}/test"}
"""What answers 201."""

MISSING = {
    "image_id": WRONG,
    "album_id": "999999999",
    "key_id": WRONG,
    "webhook_id": WRONG,
    "delivery_id": WRONG,
}
"""Ids of the right shape that nobody has."""


@frozen
class World:
    """A server, two accounts, and tokens of every kind of the first."""

    client: httpx2.Client
    host: ImageHost
    picture: bytes
    sessions: dict[str, str]

    def key(self, user: str, *scopes: Scope) -> str:
        return self.host.keys.create(owner=user, scopes=scopes or ALL_SCOPES).token

    def ask(self, method: str, path: str, token: str | None, **body: Any) -> httpx2.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.client.request(method, path, headers=headers, **body)

    def things(self, user: str) -> dict[str, Any]:
        """Make one of each for an account; return their ids, and what requests need beside."""
        ask, token = self.ask, self.sessions[user]
        image = ask("POST", "/v1/upload", token, files={"image": ("a.png", self.picture)})
        album = ask("POST", "/v1/albums", token, json={"name": "x"})
        key = ask("POST", "/v1/keys", token, json={})
        webhook = ask("POST", "/v1/webhooks", token, json={"url": HOOK})
        webhook_id = webhook.json()["data"]["id"]
        delivery = ask("POST", f"/v1/webhooks/{webhook_id}/test", token)
        made = {"image_id": image, "album_id": album, "key_id": key, "delivery_id": delivery}
        ids = {name: str(answer.json()["data"]["id"]) for name, answer in made.items()}
        new = new_token(TokenKind.KEY)[:30]
        return {**ids, "webhook_id": webhook_id, "picture": self.picture, "user": user, "new_user": new}

    def spoiled(self) -> dict[str, str | None]:
        """Return tokens that are no good, by what is wrong with them."""
        past = ImageHost.open(self.host.path, clock=lambda: utc_now() - timedelta(hours=1))
        with past:
            ends = utc_now() - timedelta(minutes=30)
            expired = past.keys.create(owner="ann", expires_at=ends).token
        revoked = self.host.keys.create(owner="ann")
        self.host.keys.revoke(revoked.key.id, owner="ann")
        ended = self.host.sessions.create(self.host.accounts.get("ann")).token
        self.host.sessions.end(ended)
        return {
            "none": None,
            "malformed": "rubbish",
            "mistyped": self.key("ann")[:-1] + "!",
            "unknown": new_token(TokenKind.KEY),
            "unknown session": new_token(TokenKind.SESSION),
            "expired": expired,
            "revoked": revoked.token,
            "signed out": ended,
            "suspended": self.key("gone"),
        }


@pytest.fixture(scope="module")
def running_server(
    tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]
) -> Iterator[RunningServer]:
    variables = {
        **no_limits,
        "IMAGEHOST_REGISTRATION": "true",
        "IMAGEHOST_WEBHOOKS_ALLOW_LOOPBACK": "true",
        "IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "false",
    }
    with running(tmp_path_factory.mktemp("matrix") / "data", variables=variables) as server:
        yield server


@pytest.fixture(scope="module")
def world(running_server: RunningServer, picture: bytes) -> Iterator[World]:
    with (
        ImageHost.open(running_server.data) as host,
        httpx2.Client(base_url=running_server.origin, timeout=60) as client,
    ):
        for user in ("ann", "bob", "gone"):
            host.accounts.create(user, password_hash=hash_password(PASSWORD))
        sessions = {user: host.sessions.create(host.accounts.get(user)).token for user in ("ann", "bob")}
        made = World(client, host, picture, sessions)
        yield made


@pytest.fixture(scope="module")
def spoiled(world: World) -> dict[str, str | None]:
    tokens = world.spoiled()
    world.host.accounts.set_suspended("gone", True)
    return tokens


def split(route: str, ids: dict[str, Any]) -> tuple[str, str]:
    """Return the method of a route and its path with ids in it."""
    method, path = route.split(" ")
    return method, re.sub(r"\{(\w+)\}", lambda match: str(ids[match[1]]), path)


def body_of(route: str, ids: dict[str, Any]) -> dict[str, Any]:
    return BODIES[route](ids) if route in BODIES else {}


def good(world: World, user: str, need: Requirement | None) -> str:
    """Return the least token that a route takes."""
    return world.key(user, need) if isinstance(need, Scope) else world.sessions[user]


def error(answer: httpx2.Response) -> str:
    """Return the code of an error, which has exactly the members of one."""
    members = answer.json()
    assert members.keys() == {"success", "error"}
    assert members["success"] is False
    assert members["error"].keys() == {"code", "message", "details"}
    return str(members["error"]["code"])


def likeness(answer: httpx2.Response, *ids: str) -> tuple[int, str, list[tuple[str, str]]]:
    """Return all of an answer but what differs between any two.

    `Connection` is the HTTP server's: it closes where a body that nobody reads has not come yet.
    """
    # Whole words: the number of an album may well be a part of another id.
    known = re.compile(rf"\b({'|'.join(map(re.escape, ids))})\b")
    text = known.sub("ID", answer.text) if ids else answer.text
    ignored = ("x-request-id", "date", "x-ratelimit-remaining", "content-length", "connection")
    headers = [(name, value) for name, value in answer.headers.items() if name.lower() not in ignored]
    return answer.status_code, text, sorted(headers)


NEEDING = [route for route, need in ROUTE_SCOPES.items() if need is not None]
OPEN = [route for route, need in ROUTE_SCOPES.items() if need is None]


def test_every_route_with_a_body_is_in_the_table() -> None:
    assert BODIES.keys() <= ROUTE_SCOPES.keys()


@pytest.mark.parametrize("route", NEEDING)
def test_without_a_good_token_it_is_401_and_all_bad_ones_look_alike(
    world: World, spoiled: dict[str, str | None], route: str
) -> None:
    seen = {}
    for kind, token in spoiled.items():
        ids = {**MISSING, "picture": world.picture}
        answer = world.ask(*split(route, ids), token, **body_of(route, ids))
        assert (answer.status_code, error(answer)) == (401, "UNAUTHORIZED"), kind
        assert answer.headers["www-authenticate"] == "Bearer"
        seen[kind] = likeness(answer)
    # What it is that is wrong with a token of the right shape, is told to nobody.
    assert (
        len({str(seen[kind]) for kind in ("unknown", "expired", "revoked", "signed out", "suspended")}) == 1
    )


@pytest.mark.parametrize("route", NEEDING)
def test_with_all_scopes_but_the_right_one_it_is_403_whether_the_thing_is_there_or_not(
    world: World, route: str
) -> None:
    need = ROUTE_SCOPES[route]
    others = ALL_SCOPES - {need} if isinstance(need, Scope) else ALL_SCOPES
    token, ids = world.key("ann", *others), world.things("ann")
    there = world.ask(*split(route, ids), token, **body_of(route, ids))
    missing = world.ask(*split(route, {**ids, **MISSING}), token, **body_of(route, ids))
    assert (there.status_code, error(there)) == (403, "FORBIDDEN")
    assert likeness(there) == likeness(missing)


@pytest.mark.parametrize("route", [route for route in NEEDING if "{" in route])
def test_another_account_s_thing_answers_exactly_as_a_missing_one(world: World, route: str) -> None:
    ids, token = world.things("ann"), good(world, "bob", ROUTE_SCOPES[route])
    before = world.host.accounts.usage("ann")
    foreign = world.ask(*split(route, ids), token, **body_of(route, ids))
    missing = world.ask(*split(route, MISSING), token, **body_of(route, ids))
    assert (foreign.status_code, error(foreign)) == (404, "NOT_FOUND")
    known = [str(ids[name]) for name in MISSING]
    assert likeness(foreign, *known) == likeness(missing, *MISSING.values())
    assert world.host.accounts.usage("ann") == before


@pytest.mark.parametrize("route", NEEDING)
def test_with_the_least_token_of_one_s_own_it_is_done(world: World, route: str) -> None:
    if route == "DELETE /v1/session":
        token = world.host.sessions.create(world.host.accounts.get("ann")).token
    else:
        token = good(world, "ann", ROUTE_SCOPES[route])
    ids = world.things("ann")
    answer = world.ask(*split(route, ids), token, **body_of(route, ids))
    assert answer.status_code == (201 if route in CREATED else 200), answer.text
    assert answer.json()["success"] is True


@pytest.mark.parametrize(
    "route", [route for route in NEEDING if "{" not in route and route.startswith("GET")]
)
def test_lists_show_nothing_of_others(world: World, route: str) -> None:
    ids = world.things("ann")
    answer = world.ask(*split(route, ids), good(world, "bob", ROUTE_SCOPES[route]))
    assert answer.status_code == 200
    assert not any(f'"{ids[name]}"' in answer.text for name in MISSING if name != "album_id")
    assert f'"id":{ids["album_id"]},' not in answer.text


@pytest.mark.parametrize("route", OPEN)
def test_what_needs_no_token_is_answered_with_any(
    world: World, spoiled: dict[str, str | None], route: str
) -> None:
    for token in (*spoiled.values(), world.sessions["bob"]):
        ids = {"user": "ann", "new_user": new_token(TokenKind.KEY)[:30]}
        answer = world.ask(*split(route, ids), token, **body_of(route, ids))
        assert answer.status_code == (201 if route in CREATED else 200), answer.text


@pytest.mark.parametrize("scope", sorted(ALL_SCOPES))
def test_a_key_of_one_scope_passes_exactly_where_that_is_needed(world: World, scope: Scope) -> None:
    token = world.key("ann", scope)
    for route, need in ROUTE_SCOPES.items():
        ids = {**MISSING, "picture": b"", "user": "ann", "new_user": "-"}
        status = world.ask(*split(route, ids), token, **body_of(route, ids)).status_code
        assert (status == 403) == (need not in (None, scope)), route


# Ids that come in elsewhere than in a path.


def test_another_account_s_album_is_a_missing_one_wherever_it_is_named(world: World) -> None:
    ids, token = world.things("ann"), world.sessions["bob"]
    mine = world.things("bob")["image_id"]

    def answers(album_id: str) -> list[httpx2.Response]:
        form = {"files": {"image": ("a.png", world.picture)}, "data": {"album_id": album_id}}
        return [
            world.ask("GET", f"/v1/images?album_id={album_id}", token),
            world.ask("POST", "/v1/upload", token, **form),
            world.ask("PATCH", f"/v1/images/{mine}", token, json={"album_id": int(album_id)}),
        ]

    foreign, missing = answers(ids["album_id"]), answers(MISSING["album_id"])
    assert [answer.status_code for answer in foreign] == [404, 422, 422]
    for one, other in zip(foreign, missing, strict=True):
        assert likeness(one, ids["album_id"]) == likeness(other, MISSING["album_id"])


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_another_account_s_image_is_a_missing_one_in_an_album(world: World, method: str) -> None:
    ids, mine, token = world.things("ann"), world.things("bob"), world.sessions["bob"]

    def answer(image_id: str) -> httpx2.Response:
        path = f"/v1/albums/{mine['album_id']}/images"
        return world.ask(method, path, token, json={"image_ids": [image_id]})

    foreign, missing = answer(ids["image_id"]), answer(WRONG)
    assert foreign.json()["data"]["results"] == [{"image_id": ids["image_id"], "status": "not_found"}]
    assert likeness(foreign, ids["image_id"])[1:] == likeness(missing, WRONG)[1:]


def test_a_private_picture_is_a_missing_one_for_others(world: World) -> None:
    form = {"files": {"image": ("a.png", world.picture)}, "data": {"is_public": "0"}}
    image_id = world.ask("POST", "/v1/upload", world.sessions["ann"], **form).json()["data"]["id"]
    assert world.ask("GET", f"/img/{image_id}", world.key("ann", Scope.IMAGES_READ)).status_code == 200
    for token in (None, world.sessions["bob"], world.key("ann", *(ALL_SCOPES - {Scope.IMAGES_READ}))):
        private, missing = (world.ask("GET", f"/img/{one}", token) for one in (image_id, WRONG))
        assert private.status_code == 404
        assert likeness(private, image_id) == likeness(missing, WRONG)


def test_keys_are_managed_by_sessions_alone(world: World) -> None:
    assert {route for route, need in ROUTE_SCOPES.items() if need is SessionRequirement.ONLY} == {
        "DELETE /v1/session",
        *(f"{method} /v1/keys" for method in ("GET", "POST")),
        *(f"{method} /v1/keys/{{key_id}}" for method in ("GET", "PATCH", "DELETE")),
    }
