"""The HTTP fast path: what it responds equals the response of the slow path to the same bytes.

An input is a byte that chooses the peer, and a request, in which words in braces stand for ids and the like.
"""

from __future__ import annotations

import asyncio
import atexit
from functools import cache

from attrs import frozen
from tests.server.fake_server import DATE, FakeServer, FakeTransport, ParsedResponse

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.app import Application, create_app
from imagehost_server.delivery.fast_path import Peer
from imagehost_server.settings import ServerSettings

PEERS = (
    Peer("http", ("127.0.0.1", 9)),
    Peer("http", ("10.1.2.3", 9)),
    Peer("https", ("192.0.2.1", 9)),
    Peer("http", ("192.0.2.1", 9)),
    Peer("https", ("2001:db8::1", 9)),
)
QUERIES = ("", "w=20", "w=20&fm=jpg", "w=20&fm=auto", "h=9&fit=cover&w=9")
HEADERS = (
    *("Host: a", "HOST:\t a \t", "Accept: image/avif,*/*", "accept: image/webp;q=0", "Accept-Encoding: gzip"),
    *("Cookie: a=b", "Cookie: __Host-imagehost-session={session}", "Sec-Fetch-Site: same-origin"),
    *("If-None-Match: {tag}", 'If-None-Match: W/"x", {tag}', "If-None-Match: *", 'If-None-Match: "a"'),
    *("If-Modified-Since: Thu, 01 Jan 2099 00:00:00 GMT", "If-Modified-Since: never", "Range: bytes=0-3"),
    *(
        'If-Range: "a"',
        "Connection: keep-alive",
        "Connection: close",
        "Authorization: Bearer x",
        "Origin: null",
    ),
    *(
        "X-Forwarded-Proto: https",
        "X-Forwarded-Proto: http",
        "X-Forwarded-For: 192.0.2.9, 10.0.0.3",
        "Via: 1.1 a",
    ),
    *("Forwarded: proto=https", "X-Forwarded-Host: a", "Content-Length: 0", "Transfer-Encoding: chunked"),
    *(
        "Expect: 100-continue",
        "Upgrade: h2c",
        "TE: trailers",
        "X-Empty:",
        "Access-Control-Request-Method: GET",
    ),
)
DICTIONARY = (
    *(f"{line}\r\n".encode() for line in HEADERS),
    *(f"?{query}".encode() for query in QUERIES),
    *(
        b"{id}",
        b"{private}",
        b"{signed}",
        b"{tag}",
        b"/img/",
        b"/v1/img/",
        b"/api/v1/img/",
        b".webp",
        b".jpg",
    ),
    *(
        b"HTTP/1.0",
        b"HTTP/1.1",
        b"GET ",
        b"HEAD ",
        b"OPTIONS ",
        b"\r\n\r\n",
        b"\n",
        b" ",
        b"\t",
        b"%2e",
        b"/../",
    ),
    *(b"//", b"?", b"#", b"http://a", b"fm=auto", b"w=%32%30", b"&x=y", b"\0", b"\x80", b",", b"*"),
)
FINDINGS = ()


@frozen
class Fixture:
    """A host whose images are in memory, its application, and an event loop.

    Attributes:
        words: What the words in braces stand for.
    """

    app: Application
    server: FakeServer
    runner: asyncio.Runner
    words: tuple[tuple[bytes, bytes], ...]


@cache
def fixture() -> Fixture:
    """Return a host with a public and a private image."""
    settings = ServerSettings(base_url="http://127.0.0.1:8000/v1", trusted_proxies=("10.0.0.0/8",))
    host = ImageHost.open(":memory:", settings=settings)
    atexit.register(host.close)
    owner = host.accounts.get("admin")
    public, private = (
        host.upload(make_image(64, 48), owner=owner, is_public=is_public) for is_public in (True, False)
    )
    for image in (public, private):
        for query in QUERIES:
            for accept in ("", "image/avif", "image/webp"):
                host.delivery.open(
                    host.delivery.resolve(image.id, query, accept=accept, viewer=owner)
                ).close()
    words = {
        "id": public.id,
        "private": private.id,
        "signed": host.images.signed_url(private.id, "w=20").url.partition("/img/")[2],
        "tag": host.delivery.resolve(public.id, "w=20").etag,
        "session": host.sessions.create(owner).token,
    }
    app = create_app(host, settings)
    runner = asyncio.Runner()
    atexit.register(runner.close)
    pairs = tuple((f"{{{name}}}".encode(), value.encode()) for name, value in words.items())
    return Fixture(app, FakeServer(app), runner, pairs)


def seeds() -> list[bytes]:
    return [
        bytes((number % len(PEERS),))
        + f"GET {path}{query and '?'}{query} HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n".encode()
        for number, line in enumerate(HEADERS)
        for path, query in (("/img/{id}", QUERIES[number % len(QUERIES)]), ("/v1/img/{signed}", ""))
    ]


def check(data: bytes) -> None:
    known = fixture()
    peer, request = PEERS[(data[0] if data else 0) % len(PEERS)], data[1:]
    for word, value in known.words:
        request = request.replace(word, value)
    assert known.app.fast_path is not None
    response = known.app.fast_path.respond(request, peer, [DATE])
    if response is None:
        return
    fast = ParsedResponse.parse(b"".join(response))
    transport = FakeTransport(peer.client or ("", 0), tls=peer.scheme == "https")
    # In two chunks: the fast path takes neither.
    sent = known.runner.run(known.server.request(transport, (request[:1], request[1:])))
    slow = ParsedResponse.parse(sent)
    assert fast.without_request_id() == slow.without_request_id(), f"{fast} differs from {slow}"
