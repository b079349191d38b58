"""What the responses of every route have in common: allowed methods, and the headers of the rate limits."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import httpx2
import pytest
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.models import Scope
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.testing import make_image
from imagehost_core.tokens import TokenKind, new_token
from imagehost_server.auth.cookies import SESSION_COOKIE
from imagehost_server.auth.identity import is_counted
from imagehost_server.auth.passwords import hash_password
from imagehost_server.routes import ROUTE_SCOPES
from imagehost_server.settings import ServerSettings
from imagehost_server.web.router import HANDLERS

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
PARAMETERS = {
    "image_id": "0" * 16,
    "album_id": "999999999",
    "account_id": "999999999",
    "name": "sharex.sxcu",
    "item_id": "0" * 16,
}
ROUTES = [route.split(" ") for route in ROUTE_SCOPES]
COUNTED = [(method, path) for method, path in ROUTES if is_counted(path)]
READ_PAGES = sorted(
    path
    for handler in HANDLERS
    for path in handler.paths
    if "GET" in handler.http_methods and handler.opt.get("page") and "{" not in path
)
PAGES = sorted({path for handler in HANDLERS for path in handler.paths})

SETTINGS = ServerSettings(
    limits=LimitSettings(
        api_per_minute=10**6,
        api_per_hour=0,
        api_per_day=0,
        unauthenticated_per_minute=10**6,
        pages_per_minute=0,
    ),
    rendering=RenderingSettings(processes=1),
)


def concrete(path: str) -> str:
    return re.sub(r"\{(\w+?)(?::\w+)?\}", lambda match: PARAMETERS.get(match[1], "0" * 16), path)


@pytest.fixture(scope="module")
def host() -> ImageHost:
    return open_host(settings=SETTINGS)


@pytest.fixture(scope="module")
def client(host: ImageHost) -> Iterator[httpx2.Client]:
    with serving(host, SETTINGS) as origin, httpx2.Client(base_url=origin, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="module")
def key(host: ImageHost) -> dict[str, str]:
    """The credentials of a key of one scope."""
    host.accounts.get_or_create("ann")
    token = host.keys.create(owner="ann", scopes=[Scope.ACCOUNT_READ]).token
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def session(host: ImageHost) -> str:
    """The token of a session."""
    return host.sessions.create(host.accounts.get_or_create("ben")).token


@pytest.mark.parametrize("path", sorted({path for _, path in ROUTES} | set(PAGES) | {"/img/{image_id}"}))
def test_options_and_405_name_the_same_methods(client: httpx2.Client, path: str) -> None:
    url = concrete(path)
    options = client.request("OPTIONS", url)
    assert options.status_code == 204
    allowed = options.headers["allow"].split(", ")
    assert allowed == sorted({*allowed, "OPTIONS"})
    assert {method for method, other in ROUTES if other == path} <= {*allowed}
    for method in METHODS:
        response = client.request(method, url)
        assert (response.status_code == 405) == (method not in allowed), method
        if response.status_code == 405:
            assert response.headers["allow"].split(", ") == allowed
            details = f"expected one of {', '.join(allowed)} but received {method}"
            assert method == "HEAD" or response.json()["error"]["details"] == details


def test_a_url_without_a_route_is_named(client: httpx2.Client) -> None:
    for path in ("/v1/nothing", "/v1/images/a/b/c", "/nothing"):
        details = client.get(path).json()["error"]["details"]
        assert details == f"expected a URL of this API but received '{path}'"


@pytest.mark.parametrize(("method", "path"), COUNTED)
def test_every_error_has_the_headers_of_the_rate_limits(
    client: httpx2.Client, key: dict[str, str], session: str, method: str, path: str
) -> None:
    """Also where a request is refused by its headers alone, before its token is read."""
    csrf = {"Cookie": f"{SESSION_COOKIE}={session}"}
    json, bearer = {"Content-Type": "application/json"}, {"Authorization": f"Bearer {session}"}
    requests: dict[str, tuple[list[tuple[str, str]], bytes | None]] = {
        "no token": ([], None),
        "an unknown token": ([("Authorization", f"Bearer {new_token(TokenKind.KEY)}")], None),
        "too narrow a key": ([*key.items()], None),
        "no CSRF token": ([*csrf.items()], None),
        "no valid JSON": ([*bearer.items(), *json.items()], b"{"),
        "a body of another type": ([*bearer.items(), ("Content-Type", "text/plain")], b"x"),
        "an unacceptable body": ([*bearer.items(), *json.items()], b"[]"),
        "plain HTTP through a proxy": ([*bearer.items(), ("X-Forwarded-Proto", "http")], None),
        "an empty host": ([*bearer.items(), ("Host", "")], None),
        "a malformed host": ([*bearer.items(), ("Host", "a b")], None),
    }
    for prefix in ("/v1", "/api/v1") if path.startswith("/v1") else ("",):
        url = concrete(path.replace("/v1", prefix, 1))
        for name, (headers, content) in requests.items():
            response = client.request(method, f"{url}?page=0&per_page=x", headers=headers, content=content)
            if response.status_code >= 400:
                found = {each for each in response.headers if each.startswith("x-ratelimit-")}
                assert found == {f"x-ratelimit-{each}" for each in ("limit", "remaining", "reset")}, name
            if name in ("plain HTTP through a proxy", "an empty host", "a malformed host"):
                assert response.status_code == (403 if name.startswith("plain") else 400), name


def access_line(caplog: pytest.LogCaptureFixture, request_id: str) -> dict[str, object]:
    """Return the fields of the access line of a request, which is written after its response was sent."""
    for _ in range(1_000):
        for record in caplog.get_records("call"):
            fields: dict[str, object] = getattr(record, "fields", {})
            if record.message == "request" and fields["request_id"] == request_id:
                return fields
        time.sleep(0.01)
    raise AssertionError(request_id)


@pytest.mark.parametrize(("method", "path"), COUNTED)
def test_the_access_line_of_each_route_names_the_token_and_the_code_of_a_refusal(
    client: httpx2.Client,
    key: dict[str, str],
    host: ImageHost,
    method: str,
    path: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "imagehost.access")
    response = client.request(method, concrete(path), headers=key)
    fields = access_line(caplog, response.headers["x-request-id"])
    assert (fields["account"], fields["key"]) == ("ann", host.keys.list(owner="ann").items[0].id)
    if response.is_error:
        assert fields["code"] == response.json()["error"]["code"]
    else:
        assert "code" not in fields


@pytest.mark.parametrize("path", READ_PAGES)
def test_the_access_line_of_each_page_names_the_session(
    client: httpx2.Client, session: str, host: ImageHost, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "imagehost.access")
    headers = {"Cookie": f"{SESSION_COOKIE}={session}", "Accept": "text/html"}
    response = client.get(path, headers=headers)
    fields = access_line(caplog, response.headers["x-request-id"])
    ben = host.sessions.list(owner="ben").items[0]
    assert (fields["account"], fields["session"]) == ("ben", ben.id)
    assert ("code" in fields) == response.is_error


def test_a_private_image_and_a_sign_in_name_who_made_the_request(
    client: httpx2.Client, host: ImageHost, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "imagehost.access")
    host.accounts.create("cid", password_hash=hash_password("correct horse"))
    signed_in = client.post("/v1/session", json={"username": "cid", "password": "correct horse"})
    line = access_line(caplog, signed_in.headers["x-request-id"])
    session = host.sessions.list(owner="cid").items[0]
    assert (line["account"], line["session"]) == ("cid", session.id)
    image = host.upload(make_image(), owner="cid", is_public=False)
    token = signed_in.json()["data"]["token"]
    sent = client.get(f"/img/{image.id}", headers={"Authorization": f"Bearer {token}"})
    assert sent.status_code == 200
    assert access_line(caplog, sent.headers["x-request-id"])["account"] == "cid"
    refused = client.get(f"/img/{image.id}?w=0")
    line = access_line(caplog, refused.headers["x-request-id"])
    assert (line["code"], "account" in line) == (refused.json()["error"]["code"], False)


@pytest.mark.parametrize("quality", ["80", "0"])
def test_an_image_that_was_not_fetched_is_logged_without_the_query_of_its_url(
    client: httpx2.Client, host: ImageHost, caplog: pytest.LogCaptureFixture, quality: str
) -> None:
    caplog.set_level("INFO", "imagehost.access")
    token = host.keys.create(owner="admin").token
    fields = {"image_url": "https://127.0.0.1/folder/a%20cat.png?token=secret", "quality": quality}
    response = client.post(
        "/v1/upload",
        files={name: (None, value) for name, value in fields.items()},
        headers={"Authorization": f"Bearer {token}"},
    )
    assert response.status_code == 422
    (line,) = [record for record in caplog.get_records("call") if record.msg == "upload failed"]
    logged: dict[str, object] = line.fields  # type: ignore[attr-defined]
    assert (logged["file"], logged["size"], logged["code"]) == ("a cat.png", 0, "VALIDATION_ERROR")
    assert "secret" not in str(logged)


def test_a_rejected_sign_in_tells_no_name(client: httpx2.Client, caplog: pytest.LogCaptureFixture) -> None:
    """It may be a password that was typed in the wrong place."""
    caplog.set_level("INFO", "imagehost.access")
    response = client.post("/v1/session", json={"username": "hunter2", "password": "wrong password"})
    fields = access_line(caplog, response.headers["x-request-id"])
    assert fields["code"] == "UNAUTHORIZED"
    assert "hunter2" not in str(fields)
