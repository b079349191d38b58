"""The fast lane: whatever it answers, the long way answers too; and what it must leave alone, it leaves."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tests.server.wire import DATE, Answer, Server, Wire

from imagehost_core import ImageHost
from imagehost_core.models import Image
from imagehost_core.testing import make_image
from imagehost_server.app import Application, create_app
from imagehost_server.delivery.fast_path import MAX_BYTES, Peer
from imagehost_server.settings import ListenSettings, ServerSettings

HERE = Peer("http", ("127.0.0.1", 9))
QUERIES = ("", "?w=20", "?w=20&fm=jpg", "?w=20&fm=auto", "?h=9&fit=cover&w=9")


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with ImageHost.open() as opened:
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
    return host.upload(make_image(64, 48), owner="admin", is_public=False)


@pytest.fixture(scope="module")
def app(host: ImageHost) -> Application:
    return create_app(host, ServerSettings(trusted_proxies=("10.0.0.0/8",), registration=True))


def request_of(target: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", *(lines or ("Host: a",)), "", ""]).encode("latin-1")


def by_lane(app: Application, request: bytes, peer: Peer = HERE) -> Answer | None:
    # Each call has a list of its own, as the server makes one each second.
    sent = app.fast_path.answer(request, peer, [DATE])
    return None if sent is None else Answer.of(b"".join(sent))


def by_long_way(app: Application, request: bytes, peer: Peer = HERE) -> Answer:
    """Send a request in two pieces, of which the lane takes neither."""
    wire = Wire(peer.client or ("", 0), tls=peer.scheme == "https")
    return Answer.of(asyncio.run(Server(app).ask(wire, (request[:1], request[1:]))))


def test_a_variant_in_memory_is_answered_whole(app: Application, host: ImageHost, image: Image) -> None:
    for target in (f"/img/{image.id}", f"/v1/img/{image.id}", f"/api/v1/img/{image.id}.webp"):
        answer = by_lane(app, request_of(f"{target}?w=20"))
        assert answer is not None
        assert answer.status == 200
        assert answer.body == host.render(image.id, "w=20").data
        assert answer.headers["content-length"] == str(len(answer.body))
        assert answer.headers["content-type"] == "image/webp"
        assert answer.headers["date"] == DATE[1].decode()


def test_whoever_has_the_bytes_gets_none(app: Application, image: Image) -> None:
    target = f"/img/{image.id}?w=20"
    whole = by_lane(app, request_of(target))
    assert whole is not None
    for line in (
        f"If-None-Match: {whole.headers['etag']}",
        f"If-Modified-Since: {whole.headers['last-modified']}",
    ):
        answer = by_lane(app, request_of(target, "Host: a", line))
        assert answer is not None
        assert (answer.status, answer.body) == (304, b"")
        assert answer.headers["etag"] == whole.headers["etag"]


def test_each_answer_has_an_id_of_its_own(app: Application, image: Image) -> None:
    answers = [by_lane(app, request_of(f"/img/{image.id}?w=20")) for _ in range(9)]
    assert len({answer.headers["x-request-id"] for answer in answers if answer}) == 9


def test_the_headers_of_the_server_are_the_ones_of_this_moment(app: Application, image: Image) -> None:
    request = request_of(f"/img/{image.id}?w=20")
    for second in (b"1", b"1", b"2"):
        head, _ = app.fast_path.answer(request, HERE, [(b"date", second)]) or (b"", b"")
        assert b"\r\ndate: " + second + b"\r\n" in head


LEFT = {
    "another method": b"HEAD /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n",
    "another version": b"GET /img/{id}?w=20 HTTP/1.0\r\nHost: a\r\n\r\n",
    "no Host": b"GET /img/{id}?w=20 HTTP/1.1\r\nX: y\r\n\r\n",
    "an empty Host": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost:\r\n\r\n",
    "two Hosts": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "a token": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n",
    "a part": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n",
    "a body": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
    "chunks": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    "the last of its connection": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "an upgrade": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\n\r\n",
    "an expectation": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
    "a bare LF": b"GET /img/{id}?w=20 HTTP/1.1\nHost: a\r\n\r\n",
    "a folded line": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n b\r\n\r\n",
    "a space before a colon": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost : a\r\n\r\n",
    "a bare CR": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\rX: y\r\n\r\n",
    "a NUL": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\0\r\n\r\n",
    "an unfinished head": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n",
    "two requests": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n" * 2,
    "something behind": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\nX",
    "an escape": b"GET /im%67/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a whole address": b"GET http://a/img/{id}?w=20 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a fragment": b"GET /img/{id}?w=20#x HTTP/1.1\r\nHost: a\r\n\r\n",
    "a long head": b"GET /img/{id}?w=20 HTTP/1.1\r\nHost: a\r\nX: " + b"y" * MAX_BYTES + b"\r\n\r\n",
    "a variant that nobody has made": b"GET /img/{id}?w=21 HTTP/1.1\r\nHost: a\r\n\r\n",
    "a variant that cannot be": b"GET /img/{id}?w=0 HTTP/1.1\r\nHost: a\r\n\r\n",
    "an image that there is not": b"GET /img/0000000000000000 HTTP/1.1\r\nHost: a\r\n\r\n",
    "the interface": b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("request_", LEFT.values(), ids=LEFT)
def test_what_is_more_than_a_plain_get_goes_the_long_way(
    app: Application, image: Image, request_: bytes
) -> None:
    assert by_lane(app, request_of(f"/img/{image.id}?w=20")) is not None
    assert by_lane(app, request_.replace(b"{id}", image.id.encode())) is None


def test_a_picture_that_is_private_goes_the_long_way(app: Application, private: Image) -> None:
    assert by_lane(app, request_of(f"/img/{private.id}")) is None


def test_what_comes_in_the_open_from_another_machine_goes_the_long_way(
    app: Application, image: Image
) -> None:
    request = request_of(f"/img/{image.id}?w=20")
    assert by_lane(app, request, Peer("http", ("192.0.2.1", 9))) is None
    assert by_lane(app, request, Peer("https", ("192.0.2.1", 9))) is not None
    proxied = request_of(f"/img/{image.id}?w=20", "Host: a", "X-Forwarded-Proto: https")
    assert by_lane(app, proxied, Peer("http", ("192.0.2.1", 9))) is None
    assert by_lane(app, proxied, Peer("http", ("10.0.0.1", 9))) is not None


def test_what_is_remembered_of_one_client_is_not_taken_for_another_s(app: Application, image: Image) -> None:
    request = request_of(f"/img/{image.id}?w=20", "Host: same")
    for _ in range(2):
        assert by_lane(app, request) is not None
        assert by_lane(app, request, Peer("http", ("192.0.2.1", 9))) is None
        over_tls = by_lane(app, request, Peer("https", ("192.0.2.1", 9)))
        assert over_tls is not None
        assert "strict-transport-security" in over_tls.headers


def test_after_a_change_nothing_old_is_answered(app: Application, host: ImageHost) -> None:
    image = host.upload(make_image(64, 48), owner="admin")
    request = request_of(f"/img/{image.id}?w=20")
    host.delivery.open(host.delivery.resolve(image.id, "w=20")).close()
    assert by_lane(app, request) is not None
    host.images.update(image.id, is_public=False)
    assert by_lane(app, request) is None
    host.images.update(image.id, is_public=True)
    host.delivery.open(host.delivery.resolve(image.id, "w=20")).close()
    assert by_lane(app, request) is not None
    host.images.delete(image.id)
    assert by_lane(app, request) is None


def test_an_answer_has_its_line_in_the_access_log(
    app: Application, image: Image, caplog: pytest.LogCaptureFixture
) -> None:
    lines = ("Host: a", "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: https")
    request = request_of(f"/img/{image.id}?w=20&sig=secret", *lines)
    with caplog.at_level(logging.INFO, "imagehost.access"):
        answer = by_lane(app, request, Peer("http", ("10.0.0.1", 9)))
    assert answer is not None
    (record,) = caplog.records
    fields = record.__dict__["fields"]
    assert fields["path"] == f"/img/{image.id}"
    assert (fields["method"], fields["status"], fields["client"]) == ("GET", 200, "192.0.2.7")
    assert fields["request_id"] == answer.headers["x-request-id"]


NAMES = ("/img/", "/v1/img/", "/api/v1/img/", "/v1/images/", "/img", "/")
FIELDS = (
    "Host: a",
    "host: b",
    "HOST:\t a \t",
    "Accept: image/avif,*/*",
    "Accept: image/webp",
    "accept: */*;q=0.1",
    "Accept-Encoding: gzip",
    "Cookie: a=b",
    'If-None-Match: "other"',
    'If-None-Match: W/"x", {tag}',
    "If-None-Match: *",
    "if-none-match: {tag}",
    "If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT",
    "If-Modified-Since: Thu, 01 Jan 1970 00:00:00 GMT",
    "If-Modified-Since: never",
    "Range: bytes=0-3",
    'If-Range: "other"',
    "Connection: keep-alive",
    "Connection: Keep-Alive",
    "Connection: close",
    "Authorization: Bearer nobody",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Proto: http",
    "X-Forwarded-For: 192.0.2.9, 10.0.0.3",
    "X-Empty:",
)


@given(
    st.sampled_from(NAMES),
    st.sampled_from(["", ".webp", ".jpg", ".png", ".exe"]),
    st.sampled_from([*QUERIES, "?", "?w=0", "?w=20&w=20", "?fm=bmp", "?w=20&sig=a&exp=1", "?w=2%30", "?x"]),
    st.lists(st.sampled_from(FIELDS), max_size=5),
    st.sampled_from([HERE, Peer("http", ("10.1.2.3", 9)), Peer("https", ("192.0.2.1", 9))]),
)
def test_what_the_lane_answers_the_long_way_answers_too(
    app: Application,
    host: ImageHost,
    image: Image,
    name: str,
    extension: str,
    query: str,
    fields: list[str],
    peer: Peer,
) -> None:
    tag = host.delivery.resolve(image.id, "w=20").etag
    lines = ["Host: a", *(line.replace("{tag}", tag) for line in fields)]
    request = request_of(f"{name}{image.id}{extension}{query}", *lines)
    short = by_lane(app, request, peer)
    if short is not None:
        assert short.without_id() == by_long_way(app, request, peer).without_id()


def test_a_host_that_is_no_loopback_still_tells_browsers_to_stay_with_https(
    host: ImageHost, image: Image
) -> None:
    """The seconds are those of the settings."""
    settings = ServerSettings()
    app = create_app(host, evolve(settings, server=ListenSettings(hsts_seconds=7)))
    answer = by_lane(app, request_of(f"/img/{image.id}?w=20"), Peer("https", ("192.0.2.1", 9)))
    assert answer is not None
    assert answer.headers["strict-transport-security"] == "max-age=7"
