"""Reads of the JSON API on the fast path: every route responds as on the way through Litestar."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attrs import evolve, frozen
from hypothesis import given
from hypothesis import strategies as st
from tests.open_host import open_host
from tests.server.fake_server import ParsedResponse
from tests.server.test_fast_path import LOOPBACK, request_of, via_fast_path, via_slow_path

from imagehost_core import ImageHost
from imagehost_core.errors import UnauthorizedError
from imagehost_core.models import ALL_SCOPES, Scope
from imagehost_core.settings import LimitSettings
from imagehost_core.testing import make_image
from imagehost_server.app import Application, create_app
from imagehost_server.delivery.fast_path import Peer
from imagehost_server.routes import ROUTES
from imagehost_server.settings import GallerySettings, HttpSettings, ServerSettings

FAST = {"/v1/images", "/v1/images/{image_id}", "/v1/gallery", "/v1/account"}
"""The routes that the fast path answers."""
ROUTE_PATHS = sorted(
    {route.opt["operation"].route.split(" ")[1] for route in ROUTES if "GET" in route.http_methods}
)
MISSING = "0" * 16
NOW = datetime(2026, 11, 28, 12, 0, 30, tzinfo=UTC)


@frozen
class Service:
    host: ImageHost
    app: Application
    tokens: dict[str, str | None]
    ids: dict[str, str]


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    many = LimitSettings(api_per_minute=10**6, api_per_hour=10**6, unauthenticated_per_minute=10**6)
    settings = ServerSettings(base_url="http://127.0.0.1:8000/v1", limits=many)
    with open_host(settings=settings, clock=lambda: NOW) as host:
        for name in ("suspended", "limited"):
            host.accounts.create(name)
        host.accounts.update("limited", api_per_minute=1)

        def key(owner: str, scopes: frozenset[Scope] = ALL_SCOPES) -> str:
            return host.keys.create(owner=owner, scopes=scopes).token

        tokens: dict[str, str | None] = {
            "all scopes": key("admin"),
            "another scope": key("admin", frozenset({Scope.WEBHOOKS_MANAGE})),
            "over the limit": key("limited"),
            "of a suspended account": key("suspended"),
            "revoked": key("admin"),
            "unknown": "ihk_unknown",
            "none": None,
        }
        for token in filter(None, tokens.values()):
            with suppress(UnauthorizedError):
                host.authenticate(token)
        host.accounts.update("suspended", suspended=True)
        [revoked] = [each for each in host.keys.list(owner="admin") if each.prefix in str(tokens["revoked"])]
        host.keys.delete(revoked, owner="admin")
        album = host.albums.create("A", owner="admin")
        image = host.upload(make_image(64, 48), owner="admin", filename="ä.png", album_id=album.id)
        host.upload(make_image(63, 48), owner="admin", is_public=False)
        ids = {"image_id": image.id, "album_id": str(album.id), "name": "sharex.sxcu"}
        # The changes have ended what was in memory.
        for token in filter(None, tokens.values()):
            with suppress(UnauthorizedError):
                host.authenticate(token)
        yield Service(host, create_app(host, settings), tokens, ids)


def comparable(response: ParsedResponse | None) -> ParsedResponse:
    """Return a response without what differs between two that count: the id, and what remains."""
    assert response is not None
    same = response.without_request_id()
    headers = {name: value for name, value in same.headers.items() if name != "x-ratelimit-remaining"}
    body = re.sub(rb'("remaining":)\d+', rb"\1N", same.body)
    if body != same.body:
        headers["content-length"] = str(int(headers["content-length"]) - len(same.body) + len(body))
    return evolve(same, headers=headers, body=body)


def lines_of(token: str | None, *further: str) -> tuple[str, ...]:
    return ("Host: a", *(() if token is None else (f"Authorization: Bearer {token}",)), *further)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ROUTE_PATHS)
def test_each_route_responds_alike_to_each_kind_of_token(
    service: Service, path: str, method: str, known: bool
) -> None:
    target = re.sub(r"\{(\w+)\}", lambda name: service.ids.get(name[1], "") if known else "", path)
    if target.endswith("/") or "//" in target:
        target = re.sub(r"\{\w+\}", MISSING, path)
    taken = set()
    for kind, token in service.tokens.items():
        request = request_of(target, *lines_of(token), method=method)
        if kind == "over the limit":
            via_slow_path(service.app, request_of("/v1/account", *lines_of(token)))
        fast = via_fast_path(service.app, request)
        if fast is not None:
            taken.add(kind)
            assert comparable(fast) == comparable(via_slow_path(service.app, request)), kind
    if path not in FAST:
        assert taken == set()
    elif path == "/v1/gallery":
        assert taken == {"all scopes", "another scope", "over the limit", "none"}
    else:
        assert taken == {"all scopes", "over the limit"}


@given(
    st.sampled_from(["GET", "HEAD"]),
    st.sampled_from(["/v1/images", "/v1/images/{image_id}", "/v1/gallery", "/v1/account", "/api/v1/images"]),
    st.sampled_from(["", "/", "//"]),
    st.lists(
        st.sampled_from(
            [
                *(
                    "page",
                    "page=1",
                    "page=2",
                    "page=0",
                    "page=%31",
                    "page=1;per_page=2",
                    "per_page=1",
                    "per_page=101",
                ),
                *(
                    "cursor=x",
                    "q",
                    "q=",
                    "q=a",
                    "q=a+b",
                    "x=y",
                    "sort=oldest",
                    "album_id=1",
                    "is_public=true",
                ),
            ]
        ),
        max_size=3,
    ),
    st.lists(
        st.sampled_from(
            [
                "Origin: https://a.example",
                "Accept: text/html",
                "If-None-Match: *",
                "Range: bytes=0-3",
                "Cookie: __Host-imagehost-session=x",
                "X-Forwarded-For: 192.0.2.1",
                "Authorization: Basic x",
                "Connection: close",
                "Content-Length: 0",
                "User-Agent: Mozilla/5.0",
                "Sec-Fetch-Site: none",
            ]
        ),
        max_size=3,
    ),
    st.sampled_from(["all scopes", "another scope", "none"]),
    st.sampled_from([LOOPBACK, Peer("http", ("192.0.2.1", 9)), Peer("https", ("192.0.2.1", 9))]),
)
def test_requests_of_every_form_are_answered_alike(
    service: Service,
    method: str,
    path: str,
    slash: str,
    query: list[str],
    headers: list[str],
    kind: str,
    peer: Peer,
) -> None:
    target = path.format(**service.ids) + slash + ("?" if query else "") + "&".join(query)
    request = request_of(target, *lines_of(service.tokens[kind], *headers), method=method)
    fast = via_fast_path(service.app, request, peer)
    if fast is not None:
        assert comparable(fast) == comparable(via_slow_path(service.app, request, peer))


def test_a_request_is_counted_once_on_either_path(service: Service) -> None:
    request = request_of("/v1/images", *lines_of(service.tokens["all scopes"]))
    remaining = []
    for via in (via_fast_path, via_slow_path, via_fast_path):
        response = via(service.app, request)
        assert response is not None
        remaining.append(int(response.headers["x-ratelimit-remaining"]))
    assert remaining == [remaining[0], remaining[0] - 1, remaining[0] - 2]


def test_a_line_of_the_access_log_has_the_same_fields_on_both_paths(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "imagehost.access")
    for path in (f"/v1/images/{service.ids['image_id']}", f"/v1/images/{MISSING}", "/v1/images?page=0"):
        caplog.clear()
        request = request_of(path, *lines_of(service.tokens["all scopes"]))
        for via in (via_fast_path, via_slow_path):
            assert via(service.app, request) is not None
        first, second = (
            {
                name: value
                for name, value in vars(record)["fields"].items()
                if name not in ("ms", "request_id")
            }
            for record in caplog.records
        )
        assert first == second


def test_a_list_over_tls_takes_the_slow_path_which_sends_it_in_pieces(service: Service) -> None:
    peer = Peer("https", ("192.0.2.1", 9))
    lines = lines_of(service.tokens["all scopes"])
    assert via_fast_path(service.app, request_of("/v1/images", *lines), peer) is None
    assert via_fast_path(service.app, request_of("/v1/account", *lines), peer) is not None


def test_more_concurrent_requests_than_a_client_may_have_take_the_slow_path(service: Service) -> None:
    settings = ServerSettings(http=HttpSettings(max_concurrent_requests_per_client=1))
    app = create_app(service.host, settings)
    request = request_of("/v1/account", *lines_of(service.tokens["all scopes"]))
    assert via_fast_path(app, request) is not None
    key = app.security.in_progress.acquire("127.0.0.1")
    assert via_fast_path(app, request) is None
    app.security.in_progress.release(key)
    assert via_fast_path(app, request) is not None


def test_the_gallery_of_a_host_that_requires_a_token_is_refused_alike(service: Service) -> None:
    app = create_app(service.host, ServerSettings(gallery=GallerySettings(require_sign_in=True)))
    fast = via_fast_path(app, request_of("/v1/gallery"))
    assert fast is not None
    assert fast.status == 401
    assert comparable(fast) == comparable(via_slow_path(app, request_of("/v1/gallery")))


def test_a_read_has_what_another_process_has_committed(tmp_path: Path) -> None:
    with open_host(tmp_path / "data") as host, open_host(tmp_path / "data") as other:
        app, token = create_app(host, ServerSettings()), host.keys.create(owner="admin", scopes=ALL_SCOPES)
        host.authenticate(token.token)
        lines = lines_of(token.token)

        def read(path: str) -> bytes:
            response = via_fast_path(app, request_of(path, *lines))
            return b"" if response is None else response.body

        image = other.upload(make_image(64, 48), owner="admin", description="before")
        targets = (f"/v1/images/{image.id}", "/v1/images", "/v1/gallery")
        assert [b'"before"' in read(target) for target in targets] == [True] * 3
        other.images.update(image.id, description="after")
        assert [b'"after"' in read(target) for target in targets] == [True] * 3
        other.images.update(image.id, is_public=False)
        assert [image.id.encode() in read(target) for target in targets] == [True, True, False]
        other.images.delete(image.id)
        assert [b'"after"' in read(target) for target in targets] == [False] * 3
        assert b'"image_count":0' in read("/v1/account") or b'"images":0' in read("/v1/account")
        other.accounts.create("operator", role="operator")
        other.accounts.update("admin", suspended=True)
        assert [read(target) for target in ("/v1/images", "/v1/account")] == [b"", b""]
