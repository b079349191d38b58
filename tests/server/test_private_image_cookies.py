"""Private images on pages of the server's own origin: the session cookie counts as the token."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.models import Image
from imagehost_core.settings import RenderingSettings
from imagehost_core.testing import make_image
from imagehost_server.auth.cookies import SESSION_COOKIE, same_origin_session_cookie
from imagehost_server.settings import ServerSettings

SAME_ORIGIN = {"Sec-Fetch-Site": "same-origin"}
ADDRESS_BAR = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
SETTINGS = ServerSettings(rendering=RenderingSettings(processes=1))


@pytest.fixture(scope="module")
def host() -> ImageHost:
    return open_host(settings=SETTINGS)


@pytest.fixture(scope="module")
def client(host: ImageHost) -> Iterator[httpx2.Client]:
    with serving(host, SETTINGS) as origin, httpx2.Client(base_url=origin, timeout=PATIENCE) as client:
        yield client


@pytest.fixture(scope="module")
def private(host: ImageHost) -> Image:
    return host.upload(make_image(64, 48), owner="admin", is_public=False)


@pytest.fixture(scope="module")
def cookie(host: ImageHost) -> dict[str, str]:
    return cookie_of(host, "admin")


def cookie_of(host: ImageHost, name: str) -> dict[str, str]:
    """Return the header of a new session's cookie."""
    session = host.sessions.create(host.accounts.get_or_create(name))
    return {"Cookie": f"theme=dark; {SESSION_COOKIE}={session.token}"}


@pytest.mark.parametrize("fetch", [SAME_ORIGIN, ADDRESS_BAR], ids=["page", "address-bar"])
@pytest.mark.parametrize("query", ["", "?w=20"])
@pytest.mark.parametrize("prefix", ["/img", "/v1/img", "/api/v1/img"])
def test_the_cookie_of_the_owner_gives_access_to_pages_of_the_same_origin_and_from_the_address_bar(
    client: httpx2.Client,
    private: Image,
    cookie: dict[str, str],
    prefix: str,
    query: str,
    fetch: dict[str, str],
) -> None:
    for method in ("GET", "HEAD"):
        for _ in range(2):
            response = client.request(method, f"{prefix}/{private.id}{query}", headers={**cookie, **fetch})
            assert response.status_code == 200
            assert response.headers["cache-control"] == "private, no-store"
            assert response.headers["cross-origin-resource-policy"] == "same-origin"
            assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("Sec-Fetch-Site", "same-site")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "none")],
        [("Sec-Fetch-Site", "none"), ("Sec-Fetch-Mode", "no-cors")],
        [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")],
        [("Sec-Fetch-Site", "same-site"), ("Sec-Fetch-Mode", "navigate")],
        [("Sec-Fetch-Mode", "navigate")],
        [("Sec-Fetch-Site", "")],
        [("Sec-Fetch-Site", "same-origin, cross-site")],
        [("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "same-origin")],
        [("Sec-Fetch-Site", "same-origin"), ("Authorization", "Bearer unknown")],
        [("Sec-Fetch-Site", "same-origin"), ("Authorization", "")],
    ],
)
def test_the_cookie_counts_for_nothing_else(
    client: httpx2.Client, private: Image, cookie: dict[str, str], headers: list[tuple[str, str]]
) -> None:
    assert client.get(f"/img/{private.id}", headers={**cookie, **SAME_ORIGIN}).status_code == 200
    response = client.get(f"/img/{private.id}", headers=[*cookie.items(), *headers])
    missing = client.get(f"/img/{'0' * 16}", headers=[*cookie.items(), *headers])
    assert response.status_code == 404
    assert response.text.replace(private.id, "0" * 16) == missing.text
    assert response.headers.keys() == missing.headers.keys()


def test_the_cookie_of_another_account_is_as_good_as_none(
    client: httpx2.Client, host: ImageHost, private: Image
) -> None:
    for cookie in (cookie_of(host, "another"), {"Cookie": f"{SESSION_COOKIE}=ihs_1"}, {"Cookie": "a=b"}):
        assert client.get(f"/img/{private.id}", headers={**cookie, **SAME_ORIGIN}).status_code == 404
    image = host.upload(make_image(), owner="admin")
    assert client.get(f"/img/{image.id}", headers={**cookie, **SAME_ORIGIN}).status_code == 200


@pytest.mark.parametrize("query", ["", "?w=20"])
def test_a_private_image_is_404_as_soon_as_the_session_has_ended_or_the_account_is_suspended(
    client: httpx2.Client, host: ImageHost, query: str
) -> None:
    account = host.accounts.get_or_create(f"leaving{query[3:]}")
    image = host.upload(make_image(), owner=account.name, is_public=False)
    session = host.sessions.create(account)

    def status(token: str) -> int:
        headers = {"Cookie": f"{SESSION_COOKIE}={token}", **SAME_ORIGIN}
        return client.get(f"/img/{image.id}{query}", headers=headers).status_code

    assert [status(session.token) for _ in range(2)] == [200, 200]
    host.sessions.delete(session, owner=account)
    assert status(session.token) == 404
    session = host.sessions.create(account)
    assert status(session.token) == 200
    host.accounts.update(account, suspended=True)
    assert status(session.token) == 404


def test_a_cookie_does_not_change_the_headers_of_a_public_image(
    client: httpx2.Client, host: ImageHost, cookie: dict[str, str]
) -> None:
    image = host.upload(make_image(), owner="admin")
    for _ in range(2):
        plain = client.get(f"/img/{image.id}")
        with_cookie = client.get(f"/img/{image.id}", headers={**cookie, **SAME_ORIGIN})
        different = {"x-request-id", "date"}
        assert with_cookie.content == plain.content
        assert {name: value for name, value in with_cookie.headers.items() if name not in different} == {
            name: value for name, value in plain.headers.items() if name not in different
        }


@given(
    st.lists(st.sampled_from(["same-origin", "same-site", "cross-site", "none"]) | st.text(max_size=9)),
    st.lists(st.sampled_from(["navigate", "cors", "no-cors"]) | st.text(max_size=9)),
)
@example(["same-origin"], ["cors"])
@example(["none"], ["navigate"])
def test_the_cookie_is_read_for_exactly_one_value_that_only_this_origin_or_the_user_causes(
    sites: list[str], modes: list[str]
) -> None:
    headers = [
        (b"cookie", f"{SESSION_COOKIE}=ihs_1".encode()),
        *((b"sec-fetch-site", site.encode()) for site in sites),
        *((b"sec-fetch-mode", mode.encode()) for mode in modes),
    ]
    is_own = sites == ["same-origin"] or (sites == ["none"] and modes == ["navigate"])
    assert same_origin_session_cookie(headers, "") == ("ihs_1" if is_own else None)
