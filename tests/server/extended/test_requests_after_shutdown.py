"""Connections may be open when the host is closed: requests that they send then get 503, never 500."""

from __future__ import annotations

import asyncio
from asyncio import Queue
from pathlib import Path
from typing import Any

import pytest
from tests.server.fake_server import FakeServer, FakeTransport, ParsedResponse

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.app import Application, create_app
from imagehost_server.settings import ServerSettings


async def run_lifespan(app: Application) -> None:
    """Start the application and stop it, which closes the host."""
    received = Queue[Any]()
    for kind in ("startup", "shutdown"):
        received.put_nowait({"type": f"lifespan.{kind}"})
    sent = []

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope: Any = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    await app(scope, received.get, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("path", ["/v1/images", "/v1/images/{id}", "/v1/gallery", "/img/{id}?w=20", "/"])
def test_a_request_after_the_host_was_closed_is_503(path: str, tmp_path: Path) -> None:
    settings = ServerSettings(base_url="http://127.0.0.1:8000/v1")
    host = ImageHost.open(tmp_path / "data", settings=settings)
    image = host.upload(make_image(), owner="admin")
    token = host.keys.create(owner="admin").token
    host.render(image.id, "w=20")
    app = create_app(host, settings)
    target = path.format(id=image.id)
    request = f"GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"

    async def run() -> ParsedResponse:
        server = FakeServer(app)
        before = await server.request(FakeTransport(("127.0.0.1", 1)), [request.encode()])
        assert ParsedResponse.parse(before).status == 200
        await run_lifespan(app)
        return ParsedResponse.parse(await server.request(FakeTransport(("127.0.0.1", 1)), [request.encode()]))

    response = asyncio.run(run())
    assert response.status == 503
    assert b"the server is stopping" in response.body
