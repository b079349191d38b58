"""Every route reports all errors of a step in one response, with the first of 400, 404 and 422.

First the syntax and types of the query and the body; then the values, and what they and the path name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_server.testing import RunningServer

MISSING = "0" * 16
LONG = "x" * 2_001


@frozen
class Case:
    """A request with as many errors of one step as possible.

    Attributes:
        route: Method and path.
        status: The expected status.
        names: What the details name, in any order.
        body: The JSON body, or `None`.
        form: The text fields of an upload, or `None`.
        files: The names of the file parts of an upload.
    """

    route: str
    status: int
    names: tuple[str, ...]
    body: object = None
    form: dict[str, str] | None = None
    files: tuple[str, ...] = ()


INVALID_IMAGE: dict[str, object] = {"album_id": 10**9, "description": LONG, "filename": ""}
MISTYPED_IMAGE: dict[str, object] = {"album_id": 1.5, "description": 5, "is_public": "yes", "filename": None}
INVALID_PARAMS: dict[str, object] = {"w": 0, "h": -1, "q": 101, "fit": "crop", "fm": "bmp"}
MISTYPED_PARAMS: dict[str, object] = {"w": "0", "h": 1.5, "q": True, "fit": 5, "fm": None}
INVALID_KEY: dict[str, object] = {
    "name": "x" * 101,
    "scopes": ["images:paint"],
    "expires_at": "2020-01-01T00:00:00Z",
}
MISTYPED_KEY: dict[str, object] = {"name": 5, "scopes": "images:read", "expires_at": 5}
INVALID_WEBHOOK: dict[str, object] = {"url": "http://example.com", "events": ["x"], "description": LONG}
MISTYPED_WEBHOOK: dict[str, object] = {"url": 5, "events": [5], "description": 5}
SHARE = ("expires_at", "password")
INVALID_OPTIONS = {"album_id": "999999999", "quality": "0", "format": "bmp", "is_public": "2"}

CASES = (
    Case("POST /v1/albums", 422, ("name", "description"), {"name": "", "description": LONG}),
    Case(
        "POST /v1/albums",
        422,
        ("name", "description", "is_public"),
        {"name": 5, "description": 5, "is_public": 2},
    ),
    Case(
        "PATCH /v1/albums/999999999",
        404,
        ("'999999999'", "name", "description"),
        {"name": "", "description": LONG},
    ),
    Case("PATCH /v1/albums/999999999", 422, ("name", "is_public"), {"name": 5, "is_public": None}),
    Case("PUT /v1/albums/999999999/images", 404, ("'999999999'", "image_ids"), {"image_ids": []}),
    Case("DELETE /v1/albums/x/images", 404, ("'x'", "image_ids"), {"image_ids": []}),
    Case("DELETE /v1/albums/x/images", 422, ("image_ids",), {"image_ids": [5]}),
    Case("DELETE /v1/albums/999999999?delete_images=maybe", 400, ("delete_images",)),
    Case("POST /v1/albums/x/shares", 404, ("'x'", *SHARE), {"expires_at": "soon", "password": "short"}),
    Case("POST /v1/albums/x/shares", 422, SHARE, {"expires_at": 5, "password": 5}),
    Case(f"PATCH /v1/images/{MISSING}", 404, (MISSING, *INVALID_IMAGE), INVALID_IMAGE),
    Case(f"PATCH /v1/images/{MISSING}", 422, tuple(MISTYPED_IMAGE), MISTYPED_IMAGE),
    Case("PATCH /v1/images", 422, ("image_ids", *INVALID_IMAGE), {"image_ids": [], **INVALID_IMAGE}),
    Case("PATCH /v1/images", 422, ("image_ids", *MISTYPED_IMAGE), MISTYPED_IMAGE),
    Case("DELETE /v1/images", 422, ("image_ids",), {"image_ids": "x"}),
    Case("POST /v1/images/delete", 422, ("image_ids",), {"ids": []}),
    Case(
        f"POST /v1/images/{MISSING}/signed-url",
        404,
        (MISSING, *INVALID_PARAMS, "expires_in"),
        {**INVALID_PARAMS, "expires_in": 0},
    ),
    Case(
        f"POST /v1/images/{MISSING}/signed-url",
        422,
        (*MISTYPED_PARAMS, "expires_in"),
        {**MISTYPED_PARAMS, "expires_in": "x"},
    ),
    Case(
        "POST /v1/signed-urls",
        404,
        (*(f"items[0].{name}" for name in INVALID_PARAMS), "items[0].image_id", "expires_in"),
        {"items": [{"image_id": MISSING, **INVALID_PARAMS}], "expires_in": 0},
    ),
    Case(
        "POST /v1/signed-urls",
        422,
        (
            *(f"items[0].{name}" for name in MISTYPED_PARAMS),
            "items[1].image_id",
            "items[2]",
            "items[3].image_id",
            "expires_in",
        ),
        {
            "items": [{"image_id": MISSING, **MISTYPED_PARAMS}, {"image_id": 5}, 7, {"w": 9_000}],
            "expires_in": "x",
        },
    ),
    Case("POST /v1/keys", 422, tuple(INVALID_KEY), INVALID_KEY),
    Case("POST /v1/keys", 422, ("name", "expires_at"), {"name": "x" * 101, "expires_at": "tomorrow"}),
    Case("POST /v1/keys", 422, tuple(MISTYPED_KEY), MISTYPED_KEY),
    Case(f"PATCH /v1/keys/{MISSING}", 404, (MISSING, *INVALID_KEY), INVALID_KEY),
    Case(f"PATCH /v1/keys/{MISSING}", 422, tuple(MISTYPED_KEY), MISTYPED_KEY),
    Case("POST /v1/webhooks", 422, tuple(INVALID_WEBHOOK), INVALID_WEBHOOK),
    Case("POST /v1/webhooks", 422, tuple(MISTYPED_WEBHOOK), MISTYPED_WEBHOOK),
    Case(f"PATCH /v1/webhooks/{MISSING}", 404, (MISSING, *INVALID_WEBHOOK), INVALID_WEBHOOK),
    Case(
        f"PATCH /v1/webhooks/{MISSING}",
        422,
        (*MISTYPED_WEBHOOK, "is_active"),
        {**MISTYPED_WEBHOOK, "is_active": "x"},
    ),
    Case(
        f"GET /v1/webhooks/{MISSING}/deliveries?page=0&per_page=101&cursor=x",
        400,
        (MISSING, "page", "per_page", "cursor"),
    ),
    Case("POST /v1/upload", 422, tuple(INVALID_OPTIONS), form=INVALID_OPTIONS, files=("image",)),
    Case("POST /v1/upload", 422, tuple(INVALID_OPTIONS), form=INVALID_OPTIONS, files=("files[]",) * 2),
    Case("POST /v1/upload", 400, ("a file",), form=INVALID_OPTIONS),
    Case(
        "POST /v1/upload",
        400,
        ("the form", "the form"),
        form=INVALID_OPTIONS,
        files=(*("files[]",) * 20, "image"),
    ),
    Case("POST /v1/upload", 400, ("image",), form=INVALID_OPTIONS, files=("image", "image")),
)


@pytest.fixture(scope="module")
def session(server: RunningServer, operator: ImageHost) -> Iterator[httpx2.Client]:
    """A client of the account `admin` with a session's token, which manages keys too."""
    token = operator.sessions.create(operator.accounts.get("admin")).token
    with httpx2.Client(
        base_url=server.origin, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE
    ) as client:
        yield client


def send(client: httpx2.Client, case: Case, png: bytes) -> httpx2.Response:
    method, path = case.route.split(" ")
    if case.form is None:
        return client.request(method, path, json=case.body) if case.body else client.request(method, path)
    parts: list[tuple[str, Any]] = [(name, (f"{name}.png", png)) for name in case.files]
    # Also without a file, the form is multipart.
    parts += [(name, (None, text)) for name, text in case.form.items()]
    return client.request(method, path, files=parts)


def named(details: str) -> list[str]:
    """Return what the details name, in order: fields, or the value where there is no field."""
    errors = re.split(r"; (?=expected )", details)
    return [
        match[1] if (match := re.search(r" for (.+?) but received", error)) else error for error in errors
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.route} {case.status}")
def test_one_response_names_every_error_of_a_request(session: httpx2.Client, case: Case, png: bytes) -> None:
    response = send(session, case, png)
    assert response.status_code == case.status, response.text
    found = named(response.json()["error"]["details"])
    assert len(found) == len(case.names), found
    for name in case.names:
        assert any(item == name or name.strip("'") in item for item in found), (name, found)


@frozen
class Member:
    """Values of a member of a body.

    Attributes:
        valid: One that is allowed.
        values: Some that are not allowed.
        types: Some of other types.
    """

    valid: object
    values: tuple[object, ...]
    types: tuple[object, ...]


DESCRIPTION = Member("", (LONG,), (5, None))
BODIES: dict[str, dict[str, Member]] = {
    "POST /v1/albums": {
        "name": Member("x", ("", "x" * 101), (5, None)),
        "description": DESCRIPTION,
        "is_public": Member(1, (), (2, "x", None)),
    },
    "PATCH /v1/images/{image_id}": {
        "album_id": Member(None, (10**9, "x", 0), (1.5, [])),
        "description": DESCRIPTION,
        "is_public": Member(True, (), (2, "x", None)),
        "filename": Member("a.png", ("", " "), (5, None)),
    },
    "POST /v1/images/{image_id}/signed-url": {
        "w": Member(5, (0, 8_193), (1.5, "x", None)),
        "h": Member(6, (-1,), ([], "0300", "50")),
        "q": Member(50, (101,), (True, "50")),
        "fit": Member("fill", ("crop",), (5,)),
        "fm": Member("png", ("gif",), (None,)),
        "expires_in": Member(60, (0, 10**9), ("60", 1.5)),
    },
    "POST /v1/keys": {
        "name": Member("x", ("x" * 101,), (5, None)),
        "scopes": Member(["images:read"], ([], ["x"]), ("images:read", [5], None)),
        "expires_at": Member(None, ("2020-01-01T00:00:00Z", "tomorrow"), (5,)),
    },
    "POST /v1/webhooks": {
        "url": Member("https://8.8.8.8/", ("http://example.com", "x"), (5, None)),
        "events": Member([], (["x"],), ("image.deleted", [5], None)),
        "description": DESCRIPTION,
    },
}
"""The members of bodies by route."""


@pytest.mark.parametrize("route", BODIES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_details_name_exactly_the_members_of_another_type_and_without_any_those_not_allowed(
    session: httpx2.Client, image_id: str, route: str, data: st.DataObject
) -> None:
    members = BODIES[route]
    wrong = data.draw(st.lists(st.sampled_from(sorted(members)), min_size=1, unique=True))
    body = {name: member.valid for name, member in members.items()}
    types: list[str] = []
    for name in wrong:
        member = members[name]
        of_types = not member.values or data.draw(st.booleans())
        body[name] = data.draw(st.sampled_from(member.types if of_types else member.values))
        types += [name] if of_types else []
    method, path = route.replace("{image_id}", image_id).split(" ")
    response = session.request(method, path, json=body)
    assert response.status_code == 422, response.text
    assert sorted(named(response.json()["error"]["details"])) == sorted(types or wrong)
