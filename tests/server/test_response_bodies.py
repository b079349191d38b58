"""The bodies of all responses: small pieces, and what a client that does not read keeps in memory."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from io import BytesIO
from random import Random
from typing import Any, cast

import anyio
import pytest
from PIL import Image as PILImage
from tests.open_host import open_host
from tests.server.asgi_responses import get
from tests.server.test_every_route import PAGES, ROUTES
from tests.server.test_security_middleware import HOST, BodyChunks, scope_of

from imagehost_core import ImageHost
from imagehost_core.delivery_responses import PIECE_BYTES
from imagehost_core.errors import InsufficientStorageError
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.storage.staging import StagedFile
from imagehost_core.testing import make_image
from imagehost_server._executors import Executors
from imagehost_server.app import Application, create_app
from imagehost_server.auth.cookies import SESSION_COOKIE
from imagehost_server.http import response_body
from imagehost_server.http.response_body import WHOLE_BYTES, Spool
from imagehost_server.metrics import IMAGE_ROUTE
from imagehost_server.middleware.requests import RequestMiddleware
from imagehost_server.settings import ServerSettings

SETTINGS = ServerSettings(
    limits=LimitSettings(pages_per_minute=0, api_per_minute=0, api_per_hour=0, api_per_day=0),
    rendering=RenderingSettings(processes=1),
)
LARGE = "é世" * 1_000
"""The largest description."""
STREAMS = frozenset(
    {
        IMAGE_ROUTE,
        "/a/{album_id}/images.zip",
        "/albums/{album_id}/images.zip",
        "/images/ids",
        "/s/{token}/images.zip",
    }
)
"""The routes of responses that are sent while they are made. `test_archive_rights` has each but that of one
image: where the client's right to such a response can end meanwhile, it must end too."""


_PATHS = {*PAGES, *(path for method, path in ROUTES if method == "GET"), "/img/{image_id}"}
READ_PATHS = sorted(
    _PATHS | {path.replace("/v1/", "/api/v1/", 1) for path in _PATHS if path.startswith("/v1/")}
)
"""The paths of all routes that respond to GET."""


def concrete(path: str, values: Mapping[str, str]) -> str:
    """Return the path of a route with values of its parameters."""
    return re.sub(r"\{(\w+?)(?::\w+)?\}", lambda match: values.get(match[1], "0" * 16), path)


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with open_host(settings=SETTINGS) as opened:
        yield opened


@pytest.fixture(scope="module")
def app(host: ImageHost) -> Application:
    return create_app(host, SETTINGS)


@pytest.mark.anyio
async def test_every_response_of_every_route_is_sent_in_small_pieces(
    app: Application, host: ImageHost
) -> None:
    noise = BytesIO()
    PILImage.frombytes("RGB", (640, 640), Random(0).randbytes(3 * 640 * 640)).save(noise, "PNG")
    album = host.albums.create("Harbour", owner="admin", description=LARGE)
    for number in range(10):
        data = make_image(8, 8, seed=number)
        host.upload(data, owner="admin", album_id=album.id, description=LARGE)
    large = host.upload(noise.getvalue(), owner="admin", album_id=album.id, convert_to_webp=False)
    assert large.size > 2**20
    token = host.albums.create_share(album, owner="admin").token
    session = host.sessions.create(host.accounts.get("admin")).token
    values = {"image_id": large.id, "album_id": str(album.id), "account_id": "1", "token": str(token)}
    large_paths, streams = set(), set()
    for path in READ_PATHS:
        response = await get(app, concrete(path, values), {"Cookie": f"{SESSION_COOKIE}={session}"})
        assert response.is_complete, path
        assert max(map(len, response.pieces), default=0) <= WHOLE_BYTES, path
        if len(response.body) > WHOLE_BYTES and response.status == 200:
            large_paths.add(path)
        if response.is_stream:
            # What the route itself keeps in memory is small as well.
            assert max(len(part["body"]) for part in response.parts) <= PIECE_BYTES, path
            streams.add(response.route)
    assert streams == STREAMS
    assert large_paths >= {"/v1/images", "/api/v1/images", "/feed.xml", "/img/{image_id}"}


class Body(bytes):
    """A body that tells when nothing refers to it any more."""

    set_freed: Callable[[], object]

    def __del__(self) -> None:
        self.set_freed()


def middleware(set_freed: Callable[[], object], spool: Spool, size: int) -> RequestMiddleware:
    """Return the middleware around an application with a large body."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        body = Body(Random(size).randbytes(size))
        body.set_freed = set_freed
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    return RequestMiddleware(app, spool=spool)


@pytest.mark.anyio
@pytest.mark.parametrize("size", [WHOLE_BYTES + 1, 5 * PIECE_BYTES, 5 * PIECE_BYTES + 1])
async def test_a_large_body_leaves_the_memory_while_its_client_lets_it_wait(
    host: ImageHost, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(response_body, "SPOOL_SECONDS", 0.001)
    freed, read, received = asyncio.Event(), asyncio.Event(), bytearray()
    staged: list[StagedFile] = []

    def stage() -> StagedFile:
        staged.append(host.uploads.stage())
        return staged[-1]

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await read.wait()
            received.extend(message["body"])

    # The last reference may be that of another thread.
    set_freed = partial(asyncio.get_running_loop().call_soon_threadsafe, freed.set)
    app = middleware(set_freed, Spool(stage, Executors(SETTINGS.rendering)), size)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(cast("Any", app), scope_of(HOST), BodyChunks(), send)
        await freed.wait()
        # The file has no name any more, so that nothing is left of it whatever happens.
        assert [each.path.exists() for each in staged] == [False]
        assert not received
        read.set()
    assert bytes(received) == Random(size).randbytes(size)


@pytest.mark.anyio
async def test_a_large_body_is_sent_from_memory_where_a_file_has_no_space(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(response_body, "SPOOL_SECONDS", 0.001)
    refused, checksum = asyncio.Event(), 0

    def stage() -> StagedFile:
        loop.call_soon_threadsafe(refused.set)
        raise InsufficientStorageError

    async def send(message: Any) -> None:
        nonlocal checksum
        if message["type"] == "http.response.body":
            await refused.wait()
            checksum = zlib.crc32(message["body"], checksum)

    loop = asyncio.get_running_loop()
    app = middleware(lambda: None, Spool(stage, Executors(SETTINGS.rendering)), 2**18)
    await app(scope_of(HOST), BodyChunks(), send)  # type: ignore[arg-type]
    assert checksum == zlib.crc32(Random(2**18).randbytes(2**18))
