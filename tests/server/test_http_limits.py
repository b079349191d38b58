"""Rate limits over HTTP: windows, accounts and IP addresses, and the response headers.

The server runs in a thread of this process on a frozen clock, so that no test waits for a minute to begin.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Unpack

import httpx2
import pytest
from tests.open_host import open_host
from tests.server.conftest import hash_quickly
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.limits import FIRST_SIGN_IN_DELAY
from imagehost_core.services.accounts import AccountProperties
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.testing import FrozenClock
from imagehost_core.tokens import TokenKind, new_token
from imagehost_server.settings import ServerSettings

PASSWORD = "correct horse"
LIMITS = LimitSettings(unauthenticated_per_minute=3, sign_ins_per_minute=2)
_numbers = itertools.count(1)
Send = Callable[..., httpx2.Response]


@pytest.fixture(scope="module")
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture(autouse=True)
def next_minute(clock: FrozenClock) -> None:
    """Begin each test 20 seconds into a minute in which nothing was counted."""
    clock.advance(seconds=80 - clock().timestamp() % 60)


@pytest.fixture(scope="module")
def settings() -> ServerSettings:
    """Settings that trust a proxy on loopback, so that tests can send from any IP address."""
    return ServerSettings(
        trusted_proxies=("127.0.0.1", "198.51.100.0/24", "2001:db8:ffff::/48"),
        registration=True,
        limits=LIMITS,
        rendering=RenderingSettings(processes=1),
    )


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, settings: ServerSettings, clock: FrozenClock) -> ImageHost:
    return open_host(tmp_path_factory.mktemp("limits") / "data", settings=settings, clock=clock)


@pytest.fixture(scope="module")
def client(host: ImageHost, settings: ServerSettings) -> Iterator[httpx2.Client]:
    with serving(host, settings) as origin, httpx2.Client(base_url=origin, timeout=PATIENCE) as client:
        yield client


@pytest.fixture
def send(client: httpx2.Client) -> Send:
    """Return a function that sends a request from an IP address, or with a token."""

    def send(
        method: str, path: str, address: str = "", token: str | None = None, **body: object
    ) -> httpx2.Response:
        headers = {"X-Forwarded-For": address, "X-Forwarded-Proto": "https"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return client.request(method, path, headers=headers, **body)  # type: ignore[arg-type]

    return send


def create_user(host: ImageHost, name: str, **limits: Unpack[AccountProperties]) -> str:
    """Create an account with its own limits; return a token."""
    host.accounts.create(name, password_hash=hash_quickly(PASSWORD), **limits)
    return host.keys.create(owner=name).token


def new_address() -> str:
    """Return an IP address that no test has used."""
    return f"203.0.113.{next(_numbers)}"


def rate_limit_headers(response: httpx2.Response) -> tuple[int, int]:
    """Return limit and remaining."""
    return int(response.headers["x-ratelimit-limit"]), int(response.headers["x-ratelimit-remaining"])


def test_requests_count_down_to_429_until_the_next_minute(
    send: Send, host: ImageHost, clock: FrozenClock
) -> None:
    token = create_user(host, "down", api_per_minute=4)
    responses = [send("GET", "/v1/images", token=token) for _ in range(6)]
    assert [response.status_code for response in responses] == [200] * 4 + [429] * 2
    remaining = [rate_limit_headers(response) for response in responses]
    assert remaining == [(4, 3), (4, 2), (4, 1), (4, 0), (4, 0), (4, 0)]
    reset = clock().timestamp() + 40
    assert {int(response.headers["x-ratelimit-reset"]) for response in responses} == {reset}
    for response in responses[4:]:
        assert response.json()["error"]["code"] == "RATE_LIMIT_EXCEEDED"
        assert response.headers["retry-after"] == "40"
    clock.advance(seconds=39)
    assert send("GET", "/v1/images", token=token).status_code == 429
    clock.advance(seconds=1)
    response = send("GET", "/v1/images", token=token)
    assert (response.status_code, rate_limit_headers(response)) == (200, (4, 3))
    assert int(response.headers["x-ratelimit-reset"]) == reset + 60


def test_every_api_response_has_rate_limit_headers(send: Send, host: ImageHost) -> None:
    token = create_user(host, "every", api_per_minute=50)
    requests = [
        ("GET", "/v1/images", 200),
        ("HEAD", "/v1/images", 200),
        ("OPTIONS", "/v1/images", 204),
        ("GET", "/v1/nope", 404),
        ("GET", "/v1", 404),
        ("PUT", "/v1/images", 405),
        ("GET", "/v1/images?page=0", 400),
        ("GET", "/v1/images/0123456789abcdef", 404),
        ("GET", "/api/v1/images", 200),
        ("GET", "/v1/images/", 200),
        ("GET", "/v1//images", 200),
        ("POST", "/v1/keys", 403),
        ("POST", "/v1/albums", 415),
        ("GET", "/integrations/curl.sh", 200),
        ("POST", "/integrations/curl.sh", 403),
    ]
    for number, (method, path, status) in enumerate(requests):
        response = send(method, path, token=token)
        assert (response.status_code, rate_limit_headers(response)) == (status, (50, 49 - number)), path
    anonymous = send("GET", "/v1/images", new_address())
    assert (anonymous.status_code, rate_limit_headers(anonymous)) == (401, (3, 2))


def test_image_urls_probes_and_the_api_description_are_not_counted(
    send: Send, host: ImageHost, png: bytes
) -> None:
    token = create_user(host, "viewer", api_per_minute=5)
    image = send("POST", "/v1/upload", token=token, files={"image": png}).json()["data"]
    for path in (
        f"/img/{image['id']}",
        f"/v1/img/{image['id']}?w=9",
        "/v1/openapi.json",
        "/v1/docs",
        "/healthz",
    ):
        response = send("GET", path, token=token)
        assert response.status_code == 200
        assert "x-ratelimit-limit" not in response.headers
    assert rate_limit_headers(send("GET", "/v1/images", token=token)) == (5, 3)


@pytest.mark.parametrize(
    "path", ["/v1/upload", "/api/v1/upload", "/v1/upload/", "/v1//upload", "/v1/upload//"]
)
def test_uploads_have_their_own_window_for_every_spelling_of_the_path(
    send: Send, host: ImageHost, path: str
) -> None:
    token = create_user(host, f"up-{next(_numbers)}", uploads_per_minute=2)
    responses = [send("POST", path, token=token) for _ in range(3)]
    assert [response.status_code for response in responses] == [415, 415, 429]
    assert rate_limit_headers(responses[2]) == (2, 0)
    assert send("GET", "/v1/images", token=token).status_code == 200


def test_an_account_can_get_the_state_of_its_windows(send: Send, host: ImageHost, clock: FrozenClock) -> None:
    token = create_user(host, "shown", api_per_minute=9, quota_bytes=1_000)
    send("GET", "/v1/images", token=token)
    data = send("GET", "/v1/account", token=token).json()["data"]
    assert data["account"]["name"] == "shown"
    assert data["usage"] == {"bytes": 0, "images": 0, "albums": 0}
    assert data["quota"] == {"bytes": 1_000, "remaining": 1_000}
    windows = {window["name"]: (window["limit"], window["remaining"]) for window in data["limits"]}
    assert windows == {
        "api_per_minute": (9, 7),
        "api_per_hour": (1_000, 998),
        "api_per_day": (10_000, 9_998),
        "uploads_per_minute": (10, 10),
        "bulk_ids_per_minute": (1_000, 1_000),
    }


def test_a_limit_of_0_is_unlimited_and_has_no_headers(send: Send, host: ImageHost) -> None:
    unlimited: AccountProperties = {"api_per_minute": 0, "api_per_hour": 0, "api_per_day": 0}
    unlimited |= {"uploads_per_minute": 0, "bulk_ids_per_minute": 0, "quota_bytes": 0}
    token = create_user(host, "unlimited", **unlimited)
    responses = [send("GET", "/v1/account", token=token) for _ in range(70)]
    assert {response.status_code for response in responses} == {200}
    headers = [name for response in responses for name in response.headers]
    assert not [name for name in headers if name.startswith("x-ratelimit")]
    data = responses[-1].json()["data"]
    assert data["limits"] == []
    assert data["quota"] == {"bytes": None, "remaining": None}


# Without a valid token, the client's IP address counts.


@pytest.mark.parametrize(
    "token",
    [None, "rubbish", new_token(TokenKind.KEY), new_token(TokenKind.SESSION)],
    ids=["none", "malformed", "unknown-key", "unknown-session"],
)
def test_requests_without_a_valid_token_count_against_the_ip_address(send: Send, token: str | None) -> None:
    address = new_address()
    statuses = [send("GET", "/v1/images", address, token).status_code for _ in range(4)]
    assert statuses == [401, 401, 401, 429]
    assert send("GET", "/v1/gallery", address).status_code == 429
    assert send("GET", "/v1/images", new_address(), token).status_code == 401


def test_a_valid_token_works_from_an_ip_address_without_requests_left(send: Send, host: ImageHost) -> None:
    token, address = create_user(host, "good"), new_address()
    assert [send("GET", "/v1/gallery", address).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert send("GET", "/v1/images", address, token).status_code == 200


def test_a_client_cannot_choose_its_ip_address(send: Send) -> None:
    """Entries left of the one that the nearest trusted proxy has added were written by the client."""
    address = new_address()
    statuses = [
        send("GET", "/v1/gallery", f"10.0.0.{number}, {address}, 198.51.100.7").status_code
        for number in range(4)
    ]
    assert statuses == [200, 200, 200, 429]


def test_ipv6_addresses_of_one_network_share_a_window(send: Send) -> None:
    addresses = ["2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:ffff::", "2001:db8:1:2:3:4:5:6"]
    statuses = [send("GET", "/v1/gallery", address).status_code for address in addresses]
    assert statuses == [200, 200, 200, 429]
    assert send("GET", "/v1/gallery", "2001:db8:1:3::1").status_code == 200


# Sign-in and registration.


def sign_in(send: Send, name: str, password: str, address: str) -> httpx2.Response:
    return send("POST", "/v1/session", address, json={"username": name, "password": password})


def test_wrong_passwords_from_other_ip_addresses_do_not_keep_the_right_one_out(
    send: Send, host: ImageHost
) -> None:
    """Names in any case are one account; the delay of the attempts beyond two is of real time."""
    create_user(host, "target")
    names = ("target", "TARGET", "Target", "target")
    responses = [sign_in(send, name, "wrong password", new_address()) for name in names]
    assert {response.status_code for response in responses} == {401}
    assert {rate_limit_headers(response) for response in responses} == {(2, 1)}
    before = time.monotonic()
    assert sign_in(send, "target", PASSWORD, new_address()).status_code == 201
    assert time.monotonic() - before >= 3 * FIRST_SIGN_IN_DELAY


def test_an_ip_address_without_attempts_left_is_refused_the_right_password(
    send: Send, host: ImageHost
) -> None:
    create_user(host, "guessed")
    address = new_address()
    for _ in range(2):
        assert sign_in(send, "guessed", "wrong password", address).status_code == 401
    refused = sign_in(send, "guessed", PASSWORD, address)
    assert (refused.status_code, rate_limit_headers(refused)) == (429, (2, 0))
    assert refused.headers["retry-after"] == "40"


def test_a_class_behind_one_ip_address_signs_in_as_successes_do_not_count(
    send: Send, host: ImageHost
) -> None:
    address = new_address()
    for number in range(3):
        create_user(host, f"pupil{number}")
        assert sign_in(send, f"pupil{number}", PASSWORD, address).status_code == 201


def test_sign_in_is_limited_per_ip_address_for_all_names(send: Send) -> None:
    address = new_address()
    statuses = [sign_in(send, f"unknown{number}", "x", address).status_code for number in range(3)]
    assert statuses == [401, 401, 429]


def test_an_unknown_account_gets_the_response_of_a_wrong_password(send: Send, host: ImageHost) -> None:
    create_user(host, "existing")
    host.accounts.create("without-password")
    names = ("existing", "unknown", "without-password")
    responses = [sign_in(send, name, "wrong password", new_address()) for name in names]
    assert [response.status_code for response in responses] == [401] * 3
    assert len({response.text for response in responses}) == 1


@pytest.mark.parametrize("name", ["", "x" * 100_000, "\u0000", "ä", "a/b", "' OR 1=1 --"])
def test_an_invalid_account_name_is_401_like_any_other(send: Send, name: str) -> None:
    assert sign_in(send, name, "x", new_address()).status_code == 401


def test_a_suspended_account_cannot_sign_in(send: Send, host: ImageHost) -> None:
    create_user(host, "idle")
    host.accounts.update("idle", suspended=True)
    assert sign_in(send, "idle", PASSWORD, new_address()).status_code == 401


def test_a_password_change_counts_as_a_sign_in_attempt(send: Send, host: ImageHost) -> None:
    create_user(host, "guesser", api_per_minute=0)
    token, address = host.sessions.create(host.accounts.get("guesser")).token, new_address()
    body = {"current_password": "wrong", "new_password": PASSWORD}
    statuses = [send("POST", "/v1/account/password", address, token, json=body).status_code for _ in range(3)]
    assert statuses == [422, 422, 429]
    assert sign_in(send, "guesser", PASSWORD, address).status_code == 429
    right = {"current_password": PASSWORD, "new_password": "another long password"}
    assert send("POST", "/v1/account/password", new_address(), token, json=right).status_code == 200


def test_right_passwords_count_nowhere(send: Send, host: ImageHost) -> None:
    create_user(host, "regular", api_per_minute=0)
    token, address = host.sessions.create(host.accounts.get("regular")).token, new_address()
    body = {"current_password": PASSWORD, "new_password": PASSWORD}
    album = host.albums.create(owner="regular", name="locked")
    share = host.albums.create_share(album, owner="regular", password_hash=hash_quickly(PASSWORD))
    for _ in range(3):
        assert send("POST", "/v1/account/password", address, token, json=body).status_code == 200
        assert sign_in(send, "regular", PASSWORD, address).status_code == 201
        assert send("POST", f"/s/{share.token}", address, data={"password": PASSWORD}).status_code == 303


def test_accounts_can_be_created_if_registration_is_enabled(send: Send) -> None:
    body, address = {"username": "fresh", "password": PASSWORD}, new_address()
    created = send("POST", "/v1/accounts", address, json=body)
    assert (created.status_code, created.json()["data"]["name"]) == (201, "fresh")
    repeated = send("POST", "/v1/accounts", address, json=body)
    assert (repeated.status_code, repeated.json()["error"]["code"]) == (409, "CONFLICT")
    assert send("POST", "/v1/accounts", address, json=body).status_code == 429


def test_a_created_account_can_sign_in(send: Send) -> None:
    body = {"username": "newcomer", "password": PASSWORD}
    assert send("POST", "/v1/accounts", new_address(), json=body).status_code == 201
    assert sign_in(send, "newcomer", PASSWORD, new_address()).status_code == 201


@pytest.mark.parametrize(
    ("username", "password"),
    [("x", "1234567"), ("x", "ä" * 513), ("-", PASSWORD), ("c/d", PASSWORD)],
)
def test_an_account_with_an_invalid_name_or_password_is_422(send: Send, username: str, password: str) -> None:
    body = {"username": username, "password": password}
    response = send("POST", "/v1/accounts", new_address(), json=body)
    assert response.status_code == 422
    assert password not in response.text


def test_registration_is_disabled_by_default(anonymous: httpx2.Client) -> None:
    response = anonymous.post("/v1/accounts", json={"username": "x", "password": PASSWORD})
    assert (response.status_code, response.json()) == (401, anonymous.get("/v1/accounts").json())
    operation = anonymous.get("/v1/openapi.json").json()["paths"]["/accounts"]["post"]
    assert operation["security"] == [{"session": []}, {"cookie": [], "csrf": []}]
