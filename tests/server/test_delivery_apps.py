"""The ASGI and the WSGI application of a host respond to requests for images as the server does."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from email.utils import format_datetime
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import httpx2
import pytest
from attrs import frozen
from PIL import Image as PILImage
from tests.open_host import open_host

from imagehost_core import ImageHost, delivery_app, delivery_wsgi_app
from imagehost_core.delivery_responses import PIECE_BYTES
from imagehost_core.models import Image, Scope
from imagehost_core.testing import make_image
from imagehost_server.app import create_app
from imagehost_server.settings import ServerSettings

Answer = tuple[int, dict[str, str], bytes]
Ask = Callable[[str, str, str, Mapping[str, str]], Answer]

SERVER_ALONE = {"x-request-id"}
"""Headers that the server adds to every response."""


@pytest.fixture(scope="module")
def settings() -> ServerSettings:
    return ServerSettings(cdn_url="http://testserver/img")


@pytest.fixture(scope="module")
def host(settings: ServerSettings) -> Iterator[ImageHost]:
    with open_host(settings=settings) as opened:
        yield opened


def ask_asgi(app: Any, root_path: str) -> Ask:
    """Return a function that requests an ASGI application."""

    def ask(method: str, path: str, query: str, headers: Mapping[str, str]) -> Answer:
        async def request() -> Answer:
            transport = httpx2.ASGITransport(app, root_path=root_path)
            async with httpx2.AsyncClient(transport=transport, base_url="http://testserver") as client:
                response = await client.request(method, f"/img/{path}{query and '?'}{query}", headers=headers)
            return response.status_code, dict(response.headers), response.content

        return asyncio.run(request())

    return ask


def ask_wsgi(app: Any) -> Ask:
    """Return a function that requests a WSGI application, and checks that it keeps to the protocol."""

    def ask(method: str, path: str, query: str, headers: Mapping[str, str]) -> Answer:
        environ: dict[str, Any] = {
            "REQUEST_METHOD": method,
            "SCRIPT_NAME": "/img",
            "PATH_INFO": f"/{path}",
            "QUERY_STRING": query,
        }
        defaults = httpx2.Client().headers
        for name, value in {"accept": defaults["accept"], **headers}.items():
            environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
        setup_testing_defaults(environ)
        started: list[Any] = []
        checked: Any = validator(app)
        body = checked(environ, lambda status, headers, _=None: started.append((status, headers)))
        content = b"".join(body)
        body.close()
        ((status, received),) = started
        return int(status.split()[0]), dict(received), content

    return ask


@frozen
class Apps:
    """The server's application, and those that a program embeds."""

    server: Ask
    embedded: Mapping[str, Ask]


@pytest.fixture(scope="module")
def apps(host: ImageHost, settings: ServerSettings) -> Apps:
    return Apps(
        ask_asgi(create_app(host, settings), ""),
        {"asgi": ask_asgi(delivery_app(host), "/img"), "wsgi": ask_wsgi(delivery_wsgi_app(host))},
    )


@frozen
class Stored:
    """Images of a host, and credentials for the private one."""

    public: Image
    large: Image
    private: Image
    signed: str
    bearer: str
    narrow: str


@pytest.fixture(scope="module")
def stored(host: ImageHost) -> Stored:
    noise = io.BytesIO()
    PILImage.effect_noise((500, 400), 90).save(noise, "PNG")
    private = host.upload(make_image(60, 40), owner="admin", is_public=False)
    keys = [
        host.keys.create("k", scopes=[scope], owner="admin").token
        for scope in (Scope.IMAGES_READ, Scope.IMAGES_WRITE)
    ]
    return Stored(
        public=host.upload(make_image(64, 48), owner="admin", filename="Kätzchen.png"),
        large=host.upload(noise.getvalue(), owner="admin", convert_to_webp=False),
        private=private,
        signed=host.images.signed_url(private, w=30).url.partition("?")[2],
        bearer=f"Bearer {keys[0]}",
        narrow=f"Bearer {keys[1]}",
    )


CASES = [
    ("{public}", "", {}),
    ("{public}.webp", "w=30", {}),
    ("{public}", "w=30&fit=contain&h=30&fm=png", {}),
    ("{public}.auto", "w=20", {"accept": "image/avif,image/webp,*/*"}),
    ("{public}.auto", "w=20", {"accept": "image/png"}),
    ("{public}", "w=30", {"if-none-match": "{etag}"}),
    ("{public}", "w=30", {"if-none-match": '"other", W/{etag}'}),
    ("{public}", "w=30", {"if-none-match": '"other"'}),
    ("{public}", "w=30", {"if-modified-since": "{later}"}),
    ("{public}", "w=30", {"if-modified-since": "{earlier}"}),
    ("{public}", "w=30", {"if-match": '"other"'}),
    ("{public}", "w=30", {"if-match": "{etag}"}),
    ("{public}", "w=30", {"if-unmodified-since": "{earlier}"}),
    ("{large}.png", "", {}),
    ("{large}.png", "", {"range": "bytes=0-9"}),
    ("{large}.png", "", {"range": "bytes=40000-"}),
    ("{large}.png", "", {"range": "bytes=-7"}),
    ("{large}.png", "", {"range": "bytes=90000000-"}),
    ("{large}.png", "", {"range": "bytes=0-1,4-5"}),
    ("{public}", "w=30", {"range": "bytes=2-5", "if-range": "{etag}"}),
    ("{public}", "w=30", {"range": "bytes=2-5", "if-range": '"other"'}),
    ("{public}", "w=0300", {}),
    ("{public}", "w=30&w=30", {}),
    ("{public}", "w=30&unknown=1", {}),
    ("{public}.bmp", "", {}),
    ("0000000000000000", "", {}),
    ("nothing/here", "", {}),
    ("", "", {}),
    ("{private}", "", {}),
    ("{private}", "w=30", {"if-none-match": "*"}),
    ("{private}", "{signed}", {}),
    ("{private}", "{signed}&h=9", {}),
    ("{private}", "w=30", {"authorization": "{bearer}"}),
    ("{private}", "w=30", {"authorization": "{narrow}"}),
    ("{private}", "w=30", {"authorization": "Bearer ihk_nothing"}),
]


@pytest.mark.parametrize("app", ["asgi", "wsgi"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "DELETE"])
def test_an_embedded_application_responds_as_the_server_does(
    apps: Apps, stored: Stored, host: ImageHost, app: str, method: str
) -> None:
    rfc = {
        "later": format_datetime(stored.public.created_at + timedelta(days=1), usegmt=False),
        "earlier": format_datetime(stored.public.created_at - timedelta(days=1), usegmt=False),
    }
    values = {
        "public": stored.public.id,
        "large": stored.large.id,
        "private": stored.private.id,
        "signed": stored.signed,
        "bearer": stored.bearer,
        "narrow": stored.narrow,
        "etag": host.render(stored.public, w=30).etag,
        **rfc,
    }
    statuses = set()
    for case in CASES if method in {"GET", "HEAD"} else CASES[:1]:
        path, query = (part.format(**values) for part in case[:2])
        headers = {name: value.format(**values) for name, value in case[2].items()}
        expected = apps.server(method, path, query, headers)
        received = apps.embedded[app](method, path, query, headers)
        kept = {name: value for name, value in expected[1].items() if name not in SERVER_ALONE}
        body = b"" if method == "HEAD" else expected[2]
        assert received == (expected[0], kept, body), case
        statuses.add(expected[0])
    if method == "GET":
        assert statuses == {200, 206, 304, 400, 404, 412, 416}


@pytest.mark.parametrize("app", ["asgi", "wsgi"])
def test_a_deleted_or_hidden_image_is_not_sent_once_more(apps: Apps, host: ImageHost, app: str) -> None:
    ask = apps.embedded[app]
    deleted, hidden = (host.upload(make_image(64, 48), owner="admin") for _ in range(2))
    for image in (deleted, hidden):
        assert ask("GET", image.id, "w=20", {})[0] == 200
    host.images.delete(deleted)
    host.images.update(hidden, is_public=False)
    for image in (deleted, hidden):
        assert ask("GET", image.id, "w=20", {})[0] == 404
        assert ask("GET", image.id, "w=20", {"if-none-match": "*"})[0] == 404


def test_bodies_are_sent_in_small_pieces(host: ImageHost, stored: Stored) -> None:
    sent: list[int] = []

    async def send(message: Any) -> None:
        sent.append(len(message.get("body", b"")))

    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/{stored.large.id}.png",
        "query_string": b"",
        "headers": [],
    }
    asyncio.run(_call(delivery_app(host), scope, send))
    body: Any = delivery_wsgi_app(host)(
        {"REQUEST_METHOD": "GET", "PATH_INFO": f"/{stored.large.id}.png"}, lambda *_: None
    )
    wsgi = [len(piece) for piece in body]
    body.close()
    for sizes in (sent, wsgi):
        assert sum(sizes) == stored.large.size > 3 * PIECE_BYTES
        assert max(sizes) == PIECE_BYTES


async def _call(app: Any, scope: Any, send: Any) -> None:
    await app(scope, None, send)


def test_another_kind_of_connection_is_refused(host: ImageHost) -> None:
    with pytest.raises(ValueError, match="websocket"):
        asyncio.run(_call(delivery_app(host), {"type": "websocket"}, None))


def test_a_response_that_is_not_read_is_closed(host: ImageHost, stored: Stored) -> None:
    body: Any = delivery_wsgi_app(host)(
        {"REQUEST_METHOD": "GET", "PATH_INFO": f"/{stored.large.id}"}, lambda *_: None
    )
    body.close()
    assert body.response.blob._file.closed
