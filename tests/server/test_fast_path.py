"""The fast path: its responses equal those of the slow path, and other requests take the slow path."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as PILImage
from tests.open_host import open_host
from tests.page_cache import require_nowait
from tests.server.fake_server import DATE, FakeServer, FakeTransport, ParsedResponse
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.errors import ImageHostError
from imagehost_core.models import Image
from imagehost_core.settings import DeliverySettings
from imagehost_core.testing import make_image
from imagehost_server.app import Application, create_app
from imagehost_server.delivery.fast_path import MAX_REQUEST_BYTES, MAX_UNSENT_BYTES, Peer
from imagehost_server.http.response_body import WHOLE_BYTES
from imagehost_server.settings import HttpSettings, ListenSettings, ServerSettings
from imagehost_server.testing import running

LOOPBACK = Peer("http", ("127.0.0.1", 9))
SIGNED = "?signed"
"""Stands for the query of a signed URL."""
QUERIES = ("", "?w=20", "?w=20&fm=jpg", "?w=20&fm=auto", "?h=9&fit=cover&w=9")


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with open_host(settings=ServerSettings(base_url="http://127.0.0.1:8000/v1")) as opened:
        yield opened


@pytest.fixture(scope="module")
def image(host: ImageHost) -> Image:
    """A public image, whose variants are in memory."""
    image = host.upload(make_image(64, 48), owner="admin")
    for query in QUERIES:
        for accept in ("", "image/avif"):
            host.delivery.open(host.delivery.resolve(image.id, query[1:], accept=accept)).close()
    return image


@pytest.fixture(scope="module")
def private(host: ImageHost) -> Image:
    """A private image, whose variants are in memory."""
    image = host.upload(make_image(64, 48), owner="admin", is_public=False)
    owner = host.accounts.get("admin")
    for query in QUERIES:
        host.delivery.open(host.delivery.resolve(image.id, query[1:], viewer=owner)).close()
    return image


@pytest.fixture(scope="module")
def session(host: ImageHost) -> str:
    """The token of a session of both images' owner."""
    return host.sessions.create(host.accounts.get("admin")).token


@pytest.fixture(scope="module")
def app(host: ImageHost) -> Application:
    return create_app(host, ServerSettings(trusted_proxies=("10.0.0.0/8",), registration=True))


def request_of(target: str, *lines: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", *(lines or ("Host: a",)), "", ""]).encode("latin-1")


def via_fast_path(app: Application, request: bytes, peer: Peer = LOOPBACK) -> ParsedResponse | None:
    assert app.fast_path is not None
    # A new list of default headers each time, as the server creates one each second.
    response = app.fast_path.respond(request, peer, [DATE])
    return None if response is None else ParsedResponse.parse(b"".join(response))


def via_connection(app: Application, *chunks: bytes, peer: Peer = LOOPBACK) -> ParsedResponse:
    transport = FakeTransport(peer.client or ("", 0), tls=peer.scheme == "https")
    return ParsedResponse.parse(asyncio.run(FakeServer(app).request(transport, chunks)))


def via_slow_path(app: Application, request: bytes, peer: Peer = LOOPBACK) -> ParsedResponse:
    """Send a request in two chunks: the fast path takes neither."""
    return via_connection(app, request[:1], request[1:], peer=peer)


def test_a_variant_in_memory_is_sent(app: Application, host: ImageHost, image: Image) -> None:
    for target in (f"/img/{image.id}", f"/v1/img/{image.id}", f"/api/v1/img/{image.id}.webp"):
        response = via_fast_path(app, request_of(f"{target}?w=20"))
        assert response is not None
        assert response.status == 200
        assert response.body == host.render(image.id, "w=20").data
        assert response.headers["content-length"] == str(len(response.body))
        assert response.headers["content-type"] == "image/webp"
        assert response.headers["date"] == DATE[1].decode()


def test_the_root_path_is_left_in_the_path_or_removed(caplog: pytest.LogCaptureFixture) -> None:
    settings = ServerSettings(base_url="https://a.example/photos/v1")
    with open_host(settings=settings) as host:
        app, image = create_app(host, settings), host.upload(make_image(64, 48), owner="admin")
        host.delivery.open(host.delivery.resolve(image.id, "w=20")).close()
        caplog.set_level(logging.INFO, "imagehost.access")
        for target in (f"/img/{image.id}", f"/photos/img/{image.id}", f"/photos/v1/img/{image.id}"):
            fast = via_fast_path(app, request := request_of(f"{target}?w=20"))
            assert fast is not None
            assert fast.body == via_slow_path(app, request).body == host.render(image.id, "w=20").data
        paths = [vars(record)["fields"]["path"] for record in caplog.records]
        assert paths[::2] == paths[1::2]
        assert via_fast_path(app, request_of(f"/photosx/img/{image.id}?w=20")) is None


def test_a_matching_validator_is_304_without_content(app: Application, image: Image) -> None:
    target = f"/img/{image.id}?w=20"
    ok = via_fast_path(app, request_of(target))
    assert ok is not None
    for line in (
        f"If-None-Match: {ok.headers['etag']}",
        f"If-Modified-Since: {ok.headers['last-modified']}",
    ):
        response = via_fast_path(app, request_of(target, "Host: a", line))
        assert response is not None
        assert (response.status, response.body) == (304, b"")
        assert response.headers["etag"] == ok.headers["etag"]


def test_head_is_get_without_content(app: Application, image: Image) -> None:
    target = f"/img/{image.id}?w=20"
    head = via_fast_path(app, request_of(target, method="HEAD"))
    get = via_fast_path(app, request_of(target))
    assert head is not None
    assert get is not None
    assert head.body == b""
    assert int(head.headers["content-length"]) == len(get.body)
    assert head.without_request_id().headers == get.without_request_id().headers


def test_a_variant_in_the_page_cache_is_sent_and_then_in_memory(tmp_path: Path) -> None:
    require_nowait(tmp_path)
    with open_host(tmp_path / "data") as host:
        image = host.upload(make_image(64, 48), owner="admin")
        data = host.render(image.id, "w=20").data
    with open_host(tmp_path / "data") as host:
        app = create_app(host, ServerSettings())
        request = request_of(f"/img/{image.id}?w=20")
        assert via_fast_path(app, request) is None  # the record is not in memory
        with host.delivery.open(host.delivery.resolve(image.id, "w=30")):
            response = via_fast_path(app, request)
        assert response is not None
        assert response.body == data
        host.images.delete(image.id)
        assert via_fast_path(app, request) is None


def test_each_response_has_its_own_request_id(app: Application, image: Image) -> None:
    responses = [via_fast_path(app, request_of(f"/img/{image.id}?w=20")) for _ in range(9)]
    assert len({response.headers["x-request-id"] for response in responses if response}) == 9


def test_the_default_headers_of_the_server_are_current(app: Application, image: Image) -> None:
    assert app.fast_path is not None
    request = request_of(f"/img/{image.id}?w=20")
    for date in (b"1", b"1", b"2"):
        head, _ = app.fast_path.respond(request, LOOPBACK, [(b"date", date)]) or (b"", b"")
        assert b"\r\ndate: " + date + b"\r\n" in head


SLOW_PATH_REQUESTS = {
    "another method": b"OPTIONS /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n",
    "another version": b"GET /img/{id}?w=20 HTTP/1.0\r\nHost: a\r\n\r\n",
    "no Host": b"GET /img/{id}?w=20 HTTP/1.1\r\nX: y\r\n\r\n",
    "an empty Host": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost:\r\n\r\n",
    "two Hosts": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "a token": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n",
    "a range": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n",
    "a body": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "a chunked body": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    "connection close": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "an upgrade": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n",
    "an expectation": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
    "a bare LF": b"GET /img/{id}?w=20 HTTP/1.1\nHost: a\r\n\r\n",
    "a folded line": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
    "a space before a colon": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost : a\r\n\r\n",
    "a bare CR": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
    "a NUL": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\0\r\n\r\n",
    "an unfinished head": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n",
    "two requests": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n" * 2,
    "data after the request": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\nX",
    "an escape in the path": b"GET /im%67/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an absolute URL": b"GET http://a/img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a fragment": b"GET /img/{id}?w=20#x HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long head": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nX: " + b"y" * MAX_REQUEST_BYTES + b"\r\n\r\n",
    "a variant that is not in memory": b"GET /img/{id}?w=21 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an invalid transform": b"GET /img/{id}?w=0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown image": b"GET /img/0000000000000000 HTTP/1.1\r\nHost: a\r\n\r\n",
    "the JSON API": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("request_", SLOW_PATH_REQUESTS.values(), ids=SLOW_PATH_REQUESTS)
def test_other_requests_take_the_slow_path(app: Application, image: Image, request_: bytes) -> None:
    assert via_fast_path(app, request_of(f"/img/{image.id}?w=20")) is not None
    assert via_fast_path(app, request_.replace(b"{id}", image.id.encode())) is None


def test_a_large_variant_over_tls_or_beside_many_slow_readers_takes_the_slow_path_which_sends_it_in_pieces(
    app: Application, host: ImageHost
) -> None:
    file = BytesIO()
    PILImage.effect_noise((320, 200), 90).save(file, "PNG")
    image = host.upload(file.getvalue(), owner="admin")
    query = "fm=png&w=319"
    with host.delivery.open(host.delivery.resolve(image.id, query)) as blob:
        assert blob.size > WHOLE_BYTES
    request = request_of(f"/img/{image.id}?{query}")
    assert via_fast_path(app, request, Peer("https", ("192.0.2.1", 9))) is None
    assert via_fast_path(app, request) is not None
    assert app.fast_path is not None
    app.fast_path.unsent_bytes = MAX_UNSENT_BYTES + 1
    assert via_fast_path(app, request) is None
    app.fast_path.unsent_bytes = 0


def test_a_private_image_takes_the_slow_path(app: Application, private: Image, session: str) -> None:
    cookie = (f"Cookie: __Host-imagehost-session={session}", "Sec-Fetch-Site: same-origin")
    for query in QUERIES:
        for lines in ((), cookie):
            assert via_fast_path(app, request_of(f"/img/{private.id}{query}", "Host: a", *lines)) is None


def test_a_signed_url_of_a_private_image_is_sent_with_the_headers_for_other_origins(
    app: Application, host: ImageHost, private: Image
) -> None:
    target = host.images.signed_url(private.id, "w=20").url.partition("/img/")[2]
    response = via_fast_path(app, request_of(f"/img/{target}"))
    assert response is not None
    assert response.headers["cache-control"] == "private, no-store"
    assert response.headers["cross-origin-resource-policy"] == "cross-origin"
    assert response.headers["access-control-allow-origin"] == "*"


def test_plain_http_from_another_machine_takes_the_slow_path(app: Application, image: Image) -> None:
    request = request_of(f"/img/{image.id}?w=20")
    assert via_fast_path(app, request, Peer("http", ("192.0.2.1", 9))) is None
    assert via_fast_path(app, request, Peer("https", ("192.0.2.1", 9))) is not None
    proxied = request_of(f"/img/{image.id}?w=20", "Host: a", "X-Forwarded-Proto: https")
    assert via_fast_path(app, proxied, Peer("http", ("192.0.2.1", 9))) is None
    assert via_fast_path(app, proxied, Peer("http", ("10.0.0.1", 9))) is not None


def test_cached_headers_are_not_used_for_another_peer(app: Application, image: Image) -> None:
    request = request_of(f"/img/{image.id}?w=20", "Host: same")
    for _ in range(2):
        assert via_fast_path(app, request) is not None
        assert via_fast_path(app, request, Peer("http", ("192.0.2.1", 9))) is None
        over_tls = via_fast_path(app, request, Peer("https", ("192.0.2.1", 9)))
        assert over_tls is not None
        assert "strict-transport-security" in over_tls.headers


@pytest.fixture(scope="module")
def owned() -> Iterator[tuple[ImageHost, str]]:
    """Another host, as a suspension ends what it has in memory, and an account."""
    with open_host() as opened:
        yield opened, opened.accounts.create("owner").name


@pytest.mark.parametrize(
    ("method", "line"),
    [("GET", "X: y"), ("HEAD", "X: y"), ("GET", "If-None-Match: *"), ("HEAD", "If-None-Match: *")],
)
def test_a_changed_or_deleted_image_is_not_sent_from_memory(
    owned: tuple[ImageHost, str], method: str, line: str
) -> None:
    """Whatever ends the right to it: neither its bytes, nor a 304, nor the head of a response."""
    host, name = owned
    app = create_app(host, ServerSettings())
    album = host.albums.create("A", owner=name)
    image = host.upload(make_image(64, 48), owner=name, album_id=album.id)
    request = request_of(f"/img/{image.id}?w=20", "Host: a", line, method=method)

    def is_sent() -> bool:
        return via_fast_path(app, request) is not None

    def load() -> None:
        """As the slow path does, whose next request finds the image in memory."""
        with suppress(ImageHostError):
            host.delivery.open(host.delivery.resolve(image.id, "w=20")).close()
        via_fast_path(app, request_of(f"/img/{image.id}?w=20"))

    changes: list[tuple[Callable[[], object], Callable[[], object]]] = [
        (
            lambda: host.images.update(image.id, is_public=False),
            lambda: host.images.update(image.id, is_public=True),
        ),
        (
            lambda: host.albums.update(album.id, owner=name, images_public=False),
            lambda: host.albums.update(album.id, owner=name, images_public=True),
        ),
        (
            lambda: host.accounts.update(name, suspended=True),
            lambda: host.accounts.update(name, suspended=False),
        ),
        (lambda: host.images.delete(image.id), lambda: None),
    ]
    for hide, show in changes:
        load()
        assert is_sent()
        hide()
        assert not is_sent()
        load()
        assert not is_sent()
        show()


def test_head_and_304_open_no_file(tmp_path: Path) -> None:
    require_nowait(tmp_path)
    settings = ServerSettings(delivery=DeliverySettings(memory_cache_bytes=1))
    with open_host(tmp_path / "data", settings=settings) as host:
        app, image = create_app(host, settings), host.upload(make_image(64, 48), owner="admin")
        target = f"/img/{image.id}?w=20"
        host.delivery.open(host.delivery.resolve(image.id, "w=20")).close()
        get = via_fast_path(app, request_of(target))
        assert get is not None
        opened: list[object] = []
        sys.addaudithook(lambda event, arguments: opened.append(arguments) if event == "open" else None)
        head = via_fast_path(app, request_of(target, method="HEAD"))
        not_modified = via_fast_path(app, request_of(target, "Host: a", "If-None-Match: *"))
        assert opened == []
        assert head is not None
        assert head.without_request_id().headers == get.without_request_id().headers
        assert not_modified is not None
        assert via_fast_path(app, request_of(target)) is not None
        assert len(opened) == 1


@pytest.mark.parametrize(
    "header", ["Forwarded: for=_x", "VIA: 1.1 a", "X-Forwarded-Host: a", "x-forwarded-for:"]
)
def test_a_loopback_request_with_a_header_of_proxies_takes_the_slow_path(
    app: Application, image: Image, header: str
) -> None:
    """The slow path rejects it with 403; over HTTPS the header says nothing."""
    request = request_of(f"/img/{image.id}?w=20", "Host: a", header)
    assert via_fast_path(app, request, Peer("http", ("127.0.0.1", 9))) is None
    assert via_fast_path(app, request, Peer("https", ("127.0.0.1", 9))) is not None


def test_a_request_is_logged_in_the_access_log(
    app: Application, image: Image, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ("Host: a", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https")
    request = request_of(f"/img/{image.id}?w=20&sig=secret", *lines)
    with caplog.at_level(logging.INFO, "imagehost.access"):
        response = via_fast_path(app, request, Peer("http", ("10.0.0.1", 9)))
    assert response is not None
    (record,) = caplog.records
    fields = record.__dict__["fields"]
    assert fields["path"] == f"/img/{image.id}"
    assert (fields["method"], fields["status"], fields["client"]) == ("GET", 200, "192.0.2.7")
    assert fields["request_id"] == response.headers["x-request-id"]


PREFIXES = ("/img/", "/v1/img/", "/api/v1/img/", "/v1/images/", "/img", "/")
HEADERS = (
    "Host: a",
    "host: b",
    "HOST:\t a \t",
    "Accept: image/avif,*/*",
    "Accept: image/webp",
    "accept: */*;q=0.1",
    "Accept-Encoding: gzip",
    "Cookie: a=b",
    "Cookie: __Host-imagehost-session={session}",
    "Sec-Fetch-Site: same-origin",
    "Sec-Fetch-Site: none",
    "Sec-Fetch-Mode: navigate",
    "sec-fetch-site: cross-site",
    "Origin: https://app.example.com",
    'If-None-Match: "other"',
    'If-None-Match: W/"x", {tag}',
    "If-None-Match: *",
    "if-none-match: {tag}",
    "If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT",
    "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
    "If-Modified-Since: never",
    "If-Match: {tag}",
    'if-match: W/"x"',
    "If-Unmodified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
    "Range: bytes=0-3",
    'If-Range: "other"',
    "Connection: keep-alive",
    "Connection: Keep-Alive",
    "Connection: close",
    "Authorization: Bearer unknown",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Proto: http",
    "X-Forwarded-For: 192.0.2.9, 10.0.0.3",
    "X-Forwarded-Host: a",
    "Forwarded: proto=https",
    "via: 1.1 proxy",
    "X-Empty:",
)


@given(
    st.sampled_from(["GET", "HEAD"]),
    st.booleans(),
    st.sampled_from(PREFIXES),
    st.sampled_from(["", ".webp", ".jpg", ".png", ".exe"]),
    st.sampled_from(
        [*QUERIES, "?", "?w=0", "?w=20&w=20", "?fm=bmp", "?w=20&sig=a&exp=1", "?w=2%30", "?x", SIGNED]
    ),
    st.lists(st.sampled_from(HEADERS), max_size=5),
    st.sampled_from([LOOPBACK, Peer("http", ("10.1.2.3", 9)), Peer("https", ("192.0.2.1", 9))]),
)
def test_responses_of_fast_and_slow_path_are_equal(
    app: Application,
    host: ImageHost,
    image: Image,
    private: Image,
    session: str,
    method: str,
    is_private: bool,
    prefix: str,
    extension: str,
    query: str,
    headers: list[str],
    peer: Peer,
) -> None:
    tag = host.delivery.resolve(image.id, "w=20").etag
    lines = ["Host: a", *(line.format(tag=tag, session=session) for line in headers)]
    requested = private if is_private else image
    if query == SIGNED:
        query = f"?{host.images.signed_url(requested.id, 'w=20').url.partition('?')[2]}"
    request = request_of(f"{prefix}{requested.id}{extension}{query}", *lines, method=method)
    fast = via_fast_path(app, request, peer)
    if fast is not None:
        assert fast.without_request_id() == via_slow_path(app, request, peer).without_request_id()


def test_hsts_has_the_configured_max_age(host: ImageHost, image: Image) -> None:
    app = create_app(host, ServerSettings(server=ListenSettings(hsts_seconds=7)))
    request = request_of(f"/img/{image.id}?w=20")
    response = via_fast_path(app, request, Peer("https", ("192.0.2.1", 9)))
    assert response is not None
    assert response.headers["strict-transport-security"] == "max-age=7"


@pytest.mark.parametrize("query", QUERIES)
def test_connections_send_equal_responses_with_the_fast_path_on_and_off(
    host: ImageHost, image: Image, query: str
) -> None:
    on, off = (create_app(host, ServerSettings(http=HttpSettings(fast_path=flag))) for flag in (True, False))
    assert (on.fast_path is None, off.fast_path is None) == (False, True)
    request = request_of(f"/img/{image.id}{query}")
    expected = via_connection(on, request).without_request_id()
    assert via_connection(off, request).without_request_id() == expected


@pytest.mark.slow
def test_a_server_sends_equal_responses_with_the_fast_path_on_and_off(tmp_path: Path) -> None:
    with open_host(tmp_path / "data") as opened:
        uploaded = opened.upload(make_image(64, 48), owner="admin")

    def responses(enabled: str) -> list[tuple[int, dict[str, str], bytes]]:
        variables = {"IMAGEHOST_HTTP_FAST_PATH": enabled}
        with (
            running(tmp_path / "data", variables=variables) as server,
            httpx2.Client(base_url=server.origin, timeout=PATIENCE) as client,
        ):
            received = []
            for headers in ({}, {"If-None-Match": "*"}, {"Range": "bytes=0-3"}):
                for _ in range(3):
                    response = client.get(f"/img/{uploaded.id}?w=20", headers=headers)
                    compared = {name: response.headers[name] for name in response.headers}
                    del compared["date"], compared["x-request-id"]
                    received.append((response.status_code, compared, response.content))
            return received

    on = responses("true")
    assert [status for status, _, _ in on] == [200] * 3 + [304] * 3 + [206] * 3
    assert responses("false") == on
