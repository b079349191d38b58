"""Every route reports all errors of a request in one response, with the first of 400, 404 and 422."""

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
    """A request with as many errors as possible.

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


INVALID_IMAGE: dict[str, object] = {
    "album_id": 10**9,
    "description": LONG,
    "is_public": "yes",
    "filename": "",
}
INVALID_PARAMS: dict[str, object] = {"w": 0, "h": 1.5, "q": 101, "fit": "crop", "fm": "bmp"}
INVALID_KEY: dict[str, object] = {"name": 5, "scopes": ["images:paint"], "expires_at": "2020-01-01T00:00:00Z"}
INVALID_WEBHOOK: dict[str, object] = {"url": "http://example.com", "events": ["x"], "description": 5}
INVALID_OPTIONS = {"album_id": "999999999", "quality": "0", "format": "bmp", "is_public": "2"}

CASES = (
    Case(
        "POST /v1/albums",
        422,
        ("name", "description", "is_public"),
        {"name": "", "description": 5, "is_public": 2},
    ),
    Case(
        "PATCH /v1/albums/999999999",
        404,
        ("'999999999'", "name", "description", "is_public"),
        {"name": 5, "description": LONG, "is_public": None},
    ),
    Case("PUT /v1/albums/999999999/images", 404, ("'999999999'", "image_ids"), {"image_ids": []}),
    Case("DELETE /v1/albums/x/images", 404, ("'x'", "image_ids"), {"image_ids": [5]}),
    Case("DELETE /v1/albums/999999999?delete_images=maybe", 400, ("'999999999'", "delete_images")),
    Case(f"PATCH /v1/images/{MISSING}", 404, (MISSING, *INVALID_IMAGE), INVALID_IMAGE),
    Case("PATCH /v1/images", 422, ("image_ids", *INVALID_IMAGE), {"image_ids": [], **INVALID_IMAGE}),
    Case("PATCH /v1/images", 422, ("image_ids", *INVALID_IMAGE), INVALID_IMAGE),
    Case("DELETE /v1/images", 422, ("image_ids",), {"image_ids": "x"}),
    Case("POST /v1/images/delete", 422, ("image_ids",), {"ids": []}),
    Case(
        f"POST /v1/images/{MISSING}/signed-url",
        404,
        (MISSING, *INVALID_PARAMS, "expires_in"),
        {**INVALID_PARAMS, "expires_in": 0},
    ),
    Case(
        "POST /v1/signed-urls",
        404,
        (
            *(f"items[0].{name}" for name in INVALID_PARAMS),
            "items[0].image_id",
            "items[1].image_id",
            "items[2]",
            "items[3].image_id",
            "items[3].w",
            "expires_in",
        ),
        {
            "items": [
                {"image_id": MISSING, **INVALID_PARAMS},
                {"image_id": 5},
                7,
                {"w": 9_000},
            ],
            "expires_in": "x",
        },
    ),
    Case("POST /v1/keys", 422, tuple(INVALID_KEY), INVALID_KEY),
    Case("POST /v1/keys", 422, ("name", "expires_at"), {"name": "x" * 101, "expires_at": "tomorrow"}),
    Case(f"PATCH /v1/keys/{MISSING}", 404, (MISSING, *INVALID_KEY), INVALID_KEY),
    Case("POST /v1/webhooks", 422, tuple(INVALID_WEBHOOK), INVALID_WEBHOOK),
    Case(
        f"PATCH /v1/webhooks/{MISSING}",
        404,
        (MISSING, *INVALID_WEBHOOK, "is_active"),
        {**INVALID_WEBHOOK, "is_active": "x"},
    ),
    Case(
        f"GET /v1/webhooks/{MISSING}/deliveries?page=0&per_page=101&cursor=x",
        400,
        (MISSING, "page", "per_page", "cursor"),
    ),
    Case("POST /v1/upload", 422, tuple(INVALID_OPTIONS), form=INVALID_OPTIONS, files=("image",)),
    Case("POST /v1/upload", 422, tuple(INVALID_OPTIONS), form=INVALID_OPTIONS, files=("files[]",) * 2),
    Case("POST /v1/upload", 400, ("a file", *INVALID_OPTIONS), form=INVALID_OPTIONS),
    Case(
        "POST /v1/upload",
        400,
        ("the form", "the form", *INVALID_OPTIONS),
        form=INVALID_OPTIONS,
        files=(*("files[]",) * 20, "image"),
    ),
    Case("POST /v1/upload", 400, ("image", *INVALID_OPTIONS), form=INVALID_OPTIONS, files=("image", "image")),
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


BODIES: dict[str, tuple[dict[str, list[object]], dict[str, object]]] = {
    "POST /v1/albums": (
        {"name": ["", 5, None, "x" * 101], "description": [LONG, 5, None], "is_public": [2, "x", None]},
        {"name": "x", "description": "", "is_public": 1},
    ),
    "PATCH /v1/images/{image_id}": (
        {
            "album_id": [10**9, "x", 0, 1.5, []],
            "description": [LONG, 5, None],
            "is_public": [2, "x", None],
            "filename": ["", " ", 5, None],
        },
        {"album_id": None, "description": "", "is_public": True, "filename": "a.png"},
    ),
    "POST /v1/images/{image_id}/signed-url": (
        {
            "w": [0, 1.5, "x", None, 8_193],
            "h": [-1, [], "0300", "50"],
            "q": [101, True, "50"],
            "fit": ["crop", 5],
            "fm": ["gif", None],
            "expires_in": [0, "60", 1.5, 10**9],
        },
        {"w": 5, "h": 6, "q": 50, "fit": "fill", "fm": "png", "expires_in": 60},
    ),
    "POST /v1/keys": (
        {
            "name": ["x" * 101, 5, None],
            "scopes": [[], ["x"], "images:read", [5], None],
            "expires_at": ["2020-01-01T00:00:00Z", "tomorrow", 5],
        },
        {"name": "x", "scopes": ["images:read"], "expires_at": None},
    ),
    "POST /v1/webhooks": (
        {
            "url": ["http://example.com", "x", 5, None],
            "events": [["x"], "image.deleted", [5], None],
            "description": [LONG, 5, None],
        },
        {"url": "https://8.8.8.8/", "events": [], "description": ""},
    ),
}
"""By route: values of each member that are not allowed, and values that are."""


@pytest.mark.parametrize("route", BODIES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_details_name_exactly_the_members_that_are_not_allowed(
    session: httpx2.Client, image_id: str, route: str, data: st.DataObject
) -> None:
    invalid, valid = BODIES[route]
    wrong = data.draw(st.lists(st.sampled_from(sorted(invalid)), min_size=1, unique=True))
    body = {**valid, **{name: data.draw(st.sampled_from(invalid[name])) for name in wrong}}
    method, path = route.replace("{image_id}", image_id).split(" ")
    response = session.request(method, path, json=body)
    assert response.status_code == 422, response.text
    assert sorted(named(response.json()["error"]["details"])) == sorted(wrong)
