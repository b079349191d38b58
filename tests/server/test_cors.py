"""CORS of the JSON API: which responses pages of other origins can read, and what they may send."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.open_host import open_host
from tests.server.fake_server import FakeServer, FakeTransport, ParsedResponse
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.authorization import SessionRequirement
from imagehost_core.models import Scope
from imagehost_core.settings import LimitSettings, RenderingSettings, SettingsError
from imagehost_core.testing import FrozenClock, make_image
from imagehost_server.app import create_app
from imagehost_server.auth.cookies import CSRF_HEADER, SESSION_COOKIE
from imagehost_server.middleware.cors import PRIVATE_PATHS, CorsPolicy
from imagehost_server.routes import ROUTE_SCOPES
from imagehost_server.settings import HttpSettings, ServerSettings, load

PAGE = "https://app.example.com"
OTHER = "https://other.example"
EXPOSED = {
    "idempotent-replayed", "location", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining",
    "x-ratelimit-reset", "x-request-id",
}  # fmt: skip
PREFLIGHT = {"Origin": PAGE, "Access-Control-Request-Method": "POST"}


def settings_with(*origins: str) -> ServerSettings:
    return ServerSettings(
        cors_origins=origins,
        trusted_proxies=("127.0.0.1",),
        registration=True,
        limits=LimitSettings(unauthenticated_per_minute=3),
        rendering=RenderingSettings(processes=1),
    )


@pytest.fixture(scope="module")
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(autouse=True)
def next_minute(clock: FrozenClock) -> None:
    clock.advance(seconds=60)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cors") / "data"


@pytest.fixture(scope="module")
def host(data: Path, clock: FrozenClock) -> ImageHost:
    return open_host(data, settings=settings_with("*"), clock=clock)


@pytest.fixture(scope="module")
def client(host: ImageHost) -> Iterator[httpx2.Client]:
    """A client of a server that allows every origin."""
    with (
        serving(host, settings_with("*")) as origin,
        httpx2.Client(base_url=origin, headers={"Origin": PAGE}, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def listed() -> Iterator[httpx2.Client]:
    """A client of a server that allows two origins."""
    settings = settings_with(PAGE, "http://localhost:3000")
    with (
        serving(open_host(settings=settings), settings) as origin,
        httpx2.Client(base_url=origin, timeout=PATIENCE) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def reader(host: ImageHost) -> dict[str, str]:
    """The headers of a token that only reads."""
    return {"Authorization": f"Bearer {host.keys.create(owner='admin', scopes=[Scope.IMAGES_READ]).token}"}


@pytest.fixture(scope="module")
def writer(host: ImageHost) -> dict[str, str]:
    """The headers of a token with all scopes."""
    return {"Authorization": f"Bearer {host.keys.create(owner='admin').token}"}


def assert_readable(response: httpx2.Response) -> None:
    """Assert that a page of any origin can read a response without credentials."""
    assert response.headers["access-control-allow-origin"] == "*"
    exposed = response.headers["access-control-expose-headers"].lower().split(", ")
    assert set(exposed) == EXPOSED
    assert "access-control-allow-credentials" not in response.headers


def has_cors_headers(response: httpx2.Response) -> bool:
    return any(name.startswith("access-control-") for name in response.headers)


def test_success_is_readable_with_every_exposed_header(client: httpx2.Client, writer: dict[str, str]) -> None:
    files = {"image": make_image()}
    for prefix in ("/v1", "/api/v1"):
        headers = {**writer, "Idempotency-Key": prefix}
        for _ in range(2):
            response = client.post(f"{prefix}/upload", files=files, headers=headers)
            assert response.status_code == 200
            assert_readable(response)
        assert response.headers["idempotent-replayed"] == "true"
    created = client.post("/v1/albums", json={"name": "cats"}, headers=writer)
    assert_readable(created)
    assert created.headers["location"]


def test_requests_without_an_origin_get_the_same_headers(client: httpx2.Client) -> None:
    """So the response does not vary by Origin."""
    request = client.build_request("GET", "/v1/gallery")
    del request.headers["origin"]
    response = client.send(request)
    assert_readable(response)
    assert "vary" not in response.headers


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/images?page=0", 400),
        ("POST", "/v1/upload", 403),
        ("GET", "/v1/nothing", 404),
        ("GET", "/api/v1/images/0000000000000000", 404),
        ("PUT", "/v1/images", 405),
    ],
)
def test_errors_of_routes_are_readable(
    client: httpx2.Client, reader: dict[str, str], method: str, path: str, status: int
) -> None:
    response = client.request(method, path, headers=reader)
    assert response.status_code == status
    assert_readable(response)


def test_errors_of_bodies_are_readable(client: httpx2.Client, writer: dict[str, str]) -> None:
    responses = [
        client.post("/v1/albums", content=b"{}", headers=writer),
        client.post("/v1/albums", json={"name": "x" * 2**20}, headers=writer),
        client.post("/v1/upload", files={"image": b"GIF"}, headers=writer),
        client.post("/v1/albums", json={"name": ""}, headers=writer),
    ]
    assert [response.status_code for response in responses] == [415, 413, 415, 422]
    for response in responses:
        assert_readable(response)


def test_401_and_429_from_outside_the_routes_are_readable(client: httpx2.Client) -> None:
    responses = [client.get("/v1/images") for _ in range(4)]
    assert [response.status_code for response in responses] == [401, 401, 401, 429]
    for response in responses:
        assert_readable(response)
    assert responses[-1].headers["retry-after"]


def test_errors_of_the_security_middleware_are_readable(client: httpx2.Client) -> None:
    response = client.get("/v1/gallery", headers={"X-Forwarded-Proto": "http"})
    assert response.status_code == 403
    assert_readable(response)
    response = client.get("/v1/gallery", headers={"X-Long": "x" * 65_536})
    assert response.status_code == 431
    assert_readable(response)


def test_an_error_of_the_storage_is_readable(
    client: httpx2.Client, data: Path, writer: dict[str, str]
) -> None:
    staging = data / "staging"
    staging.rename(data / "elsewhere")
    try:
        response = client.post("/v1/upload", files={"image": make_image()}, headers=writer)
    finally:
        (data / "elsewhere").rename(staging)
    assert response.status_code >= 500
    assert_readable(response)


def test_errors_of_the_delivery_route_are_readable(client: httpx2.Client, host: ImageHost) -> None:
    image = host.upload(make_image(), owner="admin")
    for path, status in ((f"/img/{image.id}?w=0", 400), ("/v1/img/0000000000000000", 404)):
        response = client.get(path)
        assert response.status_code == status
        assert response.headers.get_list("access-control-allow-origin") == ["*"]
        assert response.headers["cross-origin-resource-policy"] == "cross-origin"
    response = client.get(f"/img/{image.id}", headers={"X-Forwarded-Proto": "http"})
    assert response.status_code == 403
    assert response.headers["access-control-allow-origin"] == "*"
    response = client.get(f"/img/{image.id}")
    assert response.headers.get_list("access-control-allow-origin") == ["*"]


@pytest.mark.parametrize(
    ("path", "status", "allowed"),
    [
        ("/v1/gallery", 431, PAGE),
        ("/api/v1/upload", 431, PAGE),
        ("/img/0000000000000000", 431, "*"),
        ("/v1/keys", 431, None),
        ("/v1/gallery", 503, PAGE),
    ],
)
def test_errors_of_the_protocol_are_readable(path: str, status: int, allowed: str | None) -> None:
    settings = ServerSettings(cors_origins=(PAGE,), http=HttpSettings(max_connections=1))
    lines = [f"GET {path} HTTP/1.1", "Host: a", f"Origin: {PAGE}"]
    if status == 431:
        lines.append(f"X-Long: {'x' * 200_000}")
    request = "\r\n".join([*lines, "", ""]).encode()

    async def respond(server: FakeServer) -> bytes:
        if status == 503:
            # Its request is in progress until the event loop runs, as the fast path takes none in two parts.
            first = server.connect(FakeTransport())
            first.data_received(request[:1])
            first.data_received(request[1:])
        return await server.request(FakeTransport(), [request])

    with open_host() as host:
        response = ParsedResponse.parse(asyncio.run(respond(FakeServer(create_app(host, settings)))))
    assert response.status == status
    assert response.headers.get("access-control-allow-origin") == allowed


# Routes that pages of other origins may not use.


@pytest.mark.parametrize("prefix", ["/v1", "/api/v1", "//v1", "/v1/"])
@pytest.mark.parametrize("suffix", ["", "/", "/0000000000000000"])
@pytest.mark.parametrize("path", PRIVATE_PATHS)
def test_routes_of_sessions_and_keys_send_no_cors_headers(
    client: httpx2.Client, path: str, prefix: str, suffix: str
) -> None:
    for method in ("GET", "POST", "OPTIONS"):
        response = client.request(method, f"{prefix}/{path}{suffix}", headers=PREFLIGHT)
        assert not has_cors_headers(response)


def test_every_route_that_needs_a_session_or_a_password_is_private() -> None:
    policy = CorsPolicy(["*"])
    routes = {route for route, required in ROUTE_SCOPES.items() if required is SessionRequirement.ONLY} | {
        "POST /v1/session",
        "POST /v1/accounts",
    }
    assert [route for route in routes if policy.applies_to(route.partition(" ")[2])] == []


@pytest.mark.parametrize(
    "path",
    ["/v1/account", "/v1/keysets", "/v1/images/keys", "/v1/accountspassword", "/v1/openapi.json", "/v1"],
)
def test_similar_paths_are_not_private(path: str) -> None:
    policy = CorsPolicy(["*"])
    assert policy.applies_to(path)
    assert policy.applies_to(f"/api{path}")


@pytest.mark.parametrize(
    "path", ["/", "/healthz", "/readyz", "/metrics", "/v10/images", "/api/images", "/login"]
)
def test_paths_outside_the_json_api_send_no_cors_headers(client: httpx2.Client, path: str) -> None:
    assert not has_cors_headers(client.get(path))


# Preflight requests.


def test_preflight_requests_are_neither_authenticated_nor_counted(client: httpx2.Client) -> None:
    for path in ("/v1/upload", "/api/v1/images/0000000000000000", "/v1/nothing") * 3:
        response = client.options(path, headers=PREFLIGHT)
        assert (response.status_code, response.content) == (204, b"")
        assert_readable(response)
        assert response.headers["x-request-id"]
        assert "x-ratelimit-limit" not in response.headers
        assert int(response.headers["access-control-max-age"]) > 0
        methods = set(response.headers["access-control-allow-methods"].split(", "))
        assert methods == {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}
    for path in ("/v1/keys", "/api/v1/session", "/integrations/curl.sh", "/login") * 2:
        response = client.options(path, headers=PREFLIGHT)
        assert (response.status_code, has_cors_headers(response)) == (204, False)
    assert client.get("/v1/gallery").headers["x-ratelimit-remaining"] == "2"


def test_preflight_allows_the_headers_of_the_api_and_not_that_of_the_csrf_token(
    client: httpx2.Client,
) -> None:
    response = client.options("/v1/upload", headers=PREFLIGHT)
    allowed = set(response.headers["access-control-allow-headers"].lower().split(", "))
    assert {"accept", "content-type"} <= allowed
    safelisted = {"accept", "accept-language", "content-language", "content-type"}
    not_safelisted = {"authorization", "cache-control", "idempotency-key", "x-requested-with"}
    assert allowed - safelisted == not_safelisted
    assert CSRF_HEADER.decode() not in allowed


@pytest.mark.parametrize("header", PREFLIGHT)
def test_options_without_the_headers_of_a_preflight_is_an_ordinary_request(
    client: httpx2.Client, header: str
) -> None:
    request = client.build_request("OPTIONS", "/v1/gallery", headers=PREFLIGHT)
    del request.headers[header]
    response = client.send(request)
    assert response.headers["x-ratelimit-limit"]
    assert "access-control-allow-methods" not in response.headers


# A list of origins.


@pytest.mark.parametrize("origin", [PAGE, "http://localhost:3000"])
def test_a_listed_origin_is_allowed_by_name(listed: httpx2.Client, origin: str) -> None:
    for response in (
        listed.get("/v1/images", headers={"Origin": origin}),
        listed.options("/v1/upload", headers={**PREFLIGHT, "Origin": origin}),
    ):
        assert response.headers["access-control-allow-origin"] == origin
        assert response.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize(
    "origin",
    [
        None, "null", "", "*", "https://app.example.com.evil.example", "https://app-example.com",
        "https://appXexample.com", "http://app.example.com", "https://app.example.com:8443",
        "https://xapp.example.com", "https://app.example.com/",
    ],
)  # fmt: skip
def test_another_origin_is_not_allowed(listed: httpx2.Client, origin: str | None) -> None:
    headers = {} if origin is None else {"Origin": origin}
    response = listed.get("/v1/images", headers=headers)
    assert not has_cors_headers(response)
    assert response.headers["vary"] == "Origin"


def test_a_repeated_origin_is_not_allowed(listed: httpx2.Client) -> None:
    response = listed.get("/v1/images", headers=[("Origin", PAGE), ("Origin", PAGE)])
    assert not has_cors_headers(response)


@given(st.lists(st.sampled_from([PAGE, OTHER, "app://obsidian.md"]), min_size=1), st.text(max_size=30))
def test_only_listed_origins_are_allowed(origins: list[str], text: str) -> None:
    policy = CorsPolicy(origins)
    for origin in (PAGE, OTHER, text):
        received = [(b"origin", origin.encode("latin-1", "replace"))]
        headers = dict(policy.response_headers("/v1/images", received))
        assert (b"access-control-allow-origin" in headers) == (origin in origins)


def test_no_origins_disable_cors() -> None:
    settings = settings_with()
    with (
        serving(open_host(settings=settings), settings) as origin,
        httpx2.Client(base_url=origin, headers=PREFLIGHT) as client,
    ):
        for method in ("GET", "OPTIONS"):
            assert not has_cors_headers(client.request(method, "/v1/gallery"))


# Cookies.


def test_a_request_with_the_session_cookie_is_not_readable_by_another_origin(
    client: httpx2.Client, host: ImageHost
) -> None:
    """Browsers withhold a response to a request with credentials unless credentials are allowed."""
    token = host.sessions.create(host.accounts.get("admin")).token
    cookie = {"Cookie": f"{SESSION_COOKIE}={token}"}
    response = client.get("/v1/images", headers=cookie)
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in response.headers
    assert client.post("/v1/albums", json={"name": "x"}, headers=cookie).status_code == 403


# The setting.


def test_the_setting_is_a_list_with_commas(tmp_path: Path) -> None:
    def origins(text: str) -> tuple[str, ...]:
        return load(tmp_path, {}, {"IMAGEHOST_CORS_ORIGINS": text})[0].cors_origins

    assert load(tmp_path, {}, {})[0].cors_origins == ("*",)
    assert origins("") == ()
    assert origins("*") == ("*",)
    assert origins(f"{PAGE}, app://obsidian.md,http://[::1]:3000") == (
        PAGE, "app://obsidian.md", "http://[::1]:3000"
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "app.example.com", "https://app.example.com/", "https://app.example.com/path", "https://",
        "https://a@b.example", "https://*.example.com", "HTTPS://app.example.com", "https://App.example.com",
        "https://app.example.com:443", "http://app.example.com:80", "https://a.example:", "null", "*,https://a.example",
        "https://a.example?x", "https://ä.example", "https://a.example b",
    ],
)  # fmt: skip
def test_a_value_that_is_not_an_origin_stops_startup(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"expected .* for cors_origins but received"):
        load(tmp_path, {}, {"IMAGEHOST_CORS_ORIGINS": text})
