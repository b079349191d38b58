"""Over real HTTP: windows of requests, who they count for, and what the headers say."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import httpx2
import pytest

from imagehost_core import ImageHost
from imagehost_core.models import LimitOverrides
from imagehost_core.tokens import TokenKind, new_token
from imagehost_server.auth.passwords import hash_password
from imagehost_server.testing import RunningServer, running

PASSWORD = "correct horse"
_numbers = itertools.count(1)
Ask = Callable[..., httpx2.Response]


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server behind a trusted proxy on loopback, so that a test may come from any address."""
    variables = {
        "IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1,198.51.100.0/24,2001:db8:ffff::/48",
        "IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "3",
        "IMAGEHOST_LIMITS_SIGN_INS_PER_MINUTE": "2",
        "IMAGEHOST_REGISTRATION": "true",
    }
    with running(tmp_path_factory.mktemp("limits") / "data", variables=variables) as server:
        yield server


@pytest.fixture(scope="module")
def host(limited: RunningServer) -> Iterator[ImageHost]:
    with ImageHost.open(limited.data) as opened:
        yield opened


@pytest.fixture
def ask(limited: RunningServer) -> Iterator[Ask]:
    """Ask from an address of one's own, or with a token."""
    with httpx2.Client(base_url=limited.origin, timeout=60) as client:

        def call(
            method: str, path: str, address: str = "", token: str | None = None, **more: object
        ) -> httpx2.Response:
            headers = {"X-Forwarded-For": address, "X-Forwarded-Proto": "https"}
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            return client.request(method, path, headers=headers, **more)  # type: ignore[arg-type]

        yield call


def user(host: ImageHost, name: str, **limits: int) -> str:
    """Make an account with limits of its own; return a token."""
    host.accounts.create(name, password_hash=hash_password(PASSWORD))
    host.accounts.set_limits(name, LimitOverrides(**limits))
    return host.keys.create(owner=name).token


def address() -> str:
    """Return an address that no test has come from before."""
    return f"203.0.113.{next(_numbers)}"


def wait_for_a_fresh_minute(seconds: float = 20.0) -> None:
    """Wait until at least so much is left of the minute that counts."""
    left = 60 - time.time() % 60
    if left < seconds:
        time.sleep(left + 0.1)


def told(answer: httpx2.Response) -> tuple[int, int]:
    """Return limit and remaining, once the reset has been seen to be a border to come."""
    reset = int(answer.headers["x-ratelimit-reset"])
    assert reset % 60 == 0
    assert 0 < reset - time.time() <= 61 if reset % 3_600 else reset > time.time()
    return int(answer.headers["x-ratelimit-limit"]), int(answer.headers["x-ratelimit-remaining"])


def test_the_limit_is_counted_down_to_429_which_says_when_to_come_again(ask: Ask, host: ImageHost) -> None:
    token = user(host, "down", api_per_minute=4)
    wait_for_a_fresh_minute()
    seen = [ask("GET", "/v1/images", token=token) for _ in range(6)]
    assert [answer.status_code for answer in seen] == [200] * 4 + [429] * 2
    assert [told(answer) for answer in seen] == [(4, 3), (4, 2), (4, 1), (4, 0), (4, 0), (4, 0)]
    for answer in seen[4:]:
        assert answer.json()["error"]["code"] == "RATE_LIMIT_EXCEEDED"
        reset, wait = int(answer.headers["x-ratelimit-reset"]), int(answer.headers["retry-after"])
        assert abs(time.time() + wait - reset) <= 2


def test_every_answer_of_the_interface_tells_what_is_left(ask: Ask, host: ImageHost) -> None:
    token = user(host, "every", api_per_minute=50)
    wait_for_a_fresh_minute()
    asked = [
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
    ]
    for number, (method, path, status) in enumerate(asked):
        answer = ask(method, path, token=token)
        assert (answer.status_code, told(answer)) == (status, (50, 49 - number)), path
    nobody = ask("GET", "/v1/images", address())
    assert (nobody.status_code, told(nobody)) == (401, (3, 2))


def test_neither_pictures_nor_what_tells_of_the_service_counts(
    ask: Ask, host: ImageHost, picture: bytes
) -> None:
    token = user(host, "viewer", api_per_minute=5)
    wait_for_a_fresh_minute()
    image = ask("POST", "/v1/upload", token=token, files={"image": picture}).json()["data"]
    for path in (
        f"/img/{image['id']}",
        f"/v1/img/{image['id']}?w=9",
        "/v1/openapi.json",
        "/v1/docs",
        "/healthz",
    ):
        answer = ask("GET", path, token=token)
        assert answer.status_code == 200
        assert "x-ratelimit-limit" not in answer.headers
    assert told(ask("GET", "/v1/images", token=token)) == (5, 3)


@pytest.mark.parametrize(
    "path", ["/v1/upload", "/api/v1/upload", "/v1/upload/", "/v1//upload", "/v1/upload//"]
)
def test_uploads_have_a_window_of_their_own_however_the_path_is_written(
    ask: Ask, host: ImageHost, path: str
) -> None:
    token = user(host, f"up-{next(_numbers)}", uploads_per_minute=2)
    wait_for_a_fresh_minute()
    seen = [ask("POST", path, token=token) for _ in range(3)]
    assert [answer.status_code for answer in seen] == [415, 415, 429]
    assert told(seen[2]) == (2, 0)
    assert ask("GET", "/v1/images", token=token).status_code == 200


def test_an_account_s_windows_are_shown_to_it(ask: Ask, host: ImageHost) -> None:
    token = user(host, "shown", api_per_minute=9, quota_bytes=1_000)
    wait_for_a_fresh_minute()
    ask("GET", "/v1/images", token=token)
    data = ask("GET", "/v1/account", token=token).json()["data"]
    assert data["account"]["name"] == "shown"
    assert data["usage"] == {"bytes": 0, "images": 0, "albums": 0}
    assert data["quota"] == {"bytes": 1_000, "remaining": 1_000}
    windows = {window["name"]: (window["limit"], window["remaining"]) for window in data["limits"]}
    assert windows == {
        "api_per_minute": (9, 7),
        "api_per_hour": (1_000, 998),
        "api_per_day": (10_000, 9_998),
        "uploads_per_minute": (10, 10),
    }


def test_a_limit_of_0_refuses_nothing_and_is_shown_nowhere(ask: Ask, host: ImageHost) -> None:
    none = {f"api_per_{window}": 0 for window in ("minute", "hour", "day")}
    token = user(host, "unlimited", uploads_per_minute=0, quota_bytes=0, **none)
    seen = [ask("GET", "/v1/account", token=token) for _ in range(70)]
    assert {answer.status_code for answer in seen} == {200}
    assert not [name for answer in seen for name in answer.headers if name.startswith("x-ratelimit")]
    data = seen[-1].json()["data"]
    assert data["limits"] == []
    assert data["quota"] == {"bytes": None, "remaining": None}


# Without a good token the address counts.


@pytest.mark.parametrize("token", [None, "rubbish", new_token(TokenKind.KEY), new_token(TokenKind.SESSION)])
def test_requests_without_a_good_token_count_for_their_address(ask: Ask, token: str | None) -> None:
    wait_for_a_fresh_minute()
    one = address()
    statuses = [ask("GET", "/v1/images", one, token).status_code for _ in range(4)]
    assert statuses == [401, 401, 401, 429]
    assert ask("GET", "/v1/gallery", one).status_code == 429
    assert ask("GET", "/v1/images", address(), token).status_code == 401


def test_a_good_token_is_taken_from_an_address_that_has_used_up_its_window(ask: Ask, host: ImageHost) -> None:
    token, one = user(host, "good"), address()
    wait_for_a_fresh_minute()
    assert [ask("GET", "/v1/gallery", one).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert ask("GET", "/v1/images", one, token).status_code == 200


def test_a_client_cannot_choose_its_address(ask: Ask) -> None:
    """What stands left of the hop that a trusted proxy has added was written by the client."""
    mine = address()
    wait_for_a_fresh_minute()
    statuses = [
        ask("GET", "/v1/gallery", f"10.0.0.{number}, {mine}, 198.51.100.7").status_code for number in range(4)
    ]
    assert statuses == [200, 200, 200, 429]


def test_addresses_of_one_ipv6_network_count_as_one(ask: Ask) -> None:
    wait_for_a_fresh_minute()
    addresses = ["2001:db8:1:2::1", "2001:db8:1:2::2", "2001:db8:1:2:ffff::", "2001:db8:1:2:3:4:5:6"]
    assert [ask("GET", "/v1/gallery", one).status_code for one in addresses] == [200, 200, 200, 429]
    assert ask("GET", "/v1/gallery", "2001:db8:1:3::1").status_code == 200


def test_without_a_trusted_proxy_the_header_means_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    variables = {"IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "3"}
    with running(tmp_path_factory.mktemp("direct") / "data", variables=variables) as server:
        wait_for_a_fresh_minute()
        statuses = [
            httpx2.get(
                f"{server.base_url}/gallery", headers={"X-Forwarded-For": f"192.0.2.{number}"}
            ).status_code
            for number in range(4)
        ]
    assert statuses == [200, 200, 200, 429]


# Signing in, and making accounts.


def sign_in(ask: Ask, name: str, password: str, address: str) -> httpx2.Response:
    return ask("POST", "/v1/session", address, json={"username": name, "password": password})


def test_signing_in_is_limited_for_an_account_from_wherever_it_is_tried(ask: Ask, host: ImageHost) -> None:
    user(host, "target")
    wait_for_a_fresh_minute()
    seen = [sign_in(ask, "target", "wrong password", address()) for _ in range(2)]
    assert [answer.status_code for answer in seen] == [401, 401]
    assert [told(answer) for answer in seen] == [(2, 1), (2, 0)]
    right = sign_in(ask, "target", PASSWORD, address())
    assert (right.status_code, told(right)) == (429, (2, 0))
    assert 1 <= int(right.headers["retry-after"]) <= 60


def test_signing_in_is_limited_for_an_address_whatever_name_is_tried(ask: Ask) -> None:
    mine = address()
    wait_for_a_fresh_minute()
    seen = [sign_in(ask, f"nobody{number}", "x", mine).status_code for number in range(3)]
    assert seen == [401, 401, 429]


def test_who_has_no_account_is_told_what_a_wrong_password_is_told(ask: Ask, host: ImageHost) -> None:
    user(host, "somebody")
    host.accounts.create("mute")
    wait_for_a_fresh_minute()
    answers = [sign_in(ask, name, "wrong password", address()) for name in ("somebody", "nobody", "mute")]
    assert [answer.status_code for answer in answers] == [401] * 3
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.parametrize("name", ["", "x" * 100_000, "\u0000", "ä", "a/b", "' OR 1=1 --"])
def test_a_name_that_cannot_be_an_account_s_is_refused_as_any_other(ask: Ask, name: str) -> None:
    wait_for_a_fresh_minute(5)
    assert sign_in(ask, name, "x", address()).status_code in (401, 429)


def test_a_suspended_account_cannot_sign_in(ask: Ask, host: ImageHost) -> None:
    user(host, "idle")
    host.accounts.set_suspended("idle", True)
    assert sign_in(ask, "idle", PASSWORD, address()).status_code == 401


def test_anybody_makes_an_account_where_registration_is_open(ask: Ask) -> None:
    wait_for_a_fresh_minute()
    new, mine = {"username": "fresh", "password": PASSWORD}, address()
    made = ask("POST", "/v1/accounts", mine, json=new)
    assert (made.status_code, made.json()["data"]["name"]) == (201, "fresh")
    again = ask("POST", "/v1/accounts", mine, json=new)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    assert ask("POST", "/v1/accounts", mine, json=new).status_code == 429
    assert sign_in(ask, "fresh", PASSWORD, address()).status_code in (201, 429)


@pytest.mark.parametrize(
    ("username", "password"),
    [("x", "1234567"), ("x", "ä" * 513), ("-", PASSWORD), ("c/d", PASSWORD)],
)
def test_an_account_that_makes_no_sense_is_422(ask: Ask, username: str, password: str) -> None:
    new = {"username": username, "password": password}
    answer = ask("POST", "/v1/accounts", address(), json=new)
    assert answer.status_code == 422
    assert password not in answer.text


def test_registration_is_closed_unless_it_is_opened(anybody: httpx2.Client) -> None:
    answer = anybody.post("/v1/accounts", json={"username": "x", "password": PASSWORD})
    assert (answer.status_code, answer.json()) == (404, anybody.get("/v1/nope").json())
    assert "/accounts" not in anybody.get("/v1/openapi.json").json()["paths"]
