"""Requests to the application without a server, and what it sends: to the server, and its routes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from attrs import field, mutable

from imagehost_server.app import Application
from imagehost_server.metrics import IMAGE_ROUTE

Message = dict[str, Any]


@mutable
class Response:
    """A response.

    Attributes:
        route: The path of its route, with parameters.
        status: Its status; 0 = it has not begun.
        headers: Its headers.
        pieces: The parts of its body, as the server got them.
        parts: The same, as the application sent them.
        is_complete: Whether its last part was sent.
    """

    route: str = ""
    status: int = 0
    headers: dict[str, str] = field(factory=dict)
    pieces: list[bytes] = field(factory=list)
    parts: list[Message] = field(factory=list)
    is_complete: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def is_stream(self) -> bool:
        return any(part["more_body"] for part in self.parts)


async def get(
    app: Application,
    url: str,
    headers: dict[str, str],
    *,
    method: str = "GET",
    on_piece: Callable[[Response], object] = lambda _: None,
) -> Response:
    """Return the response to a request.

    Args:
        app: The application; one request at a time.
        url: The path and the query.
        headers: Headers beside `Host`.
        method: The HTTP method.
        on_piece: Is called when the server gets a part of the body that is not empty.
    """
    response, routes = Response(), app.security.app
    has_body, ended = asyncio.Event(), asyncio.Event()
    path, _, query = url.partition("?")
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"testserver"), *encoded],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 8000),
        "state": {},
    }

    async def receive() -> Message:
        if has_body.is_set():
            await ended.wait()
            return {"type": "http.disconnect"}
        has_body.set()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            response.status = message["status"]
            response.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            if not message.get("more_body", False):
                response.is_complete = True
                ended.set()
            if message["body"]:
                response.pieces.append(message["body"])
                on_piece(response)

    async def recorded(scope: Any, receive: Any, send: Any) -> None:
        async def record(message: Any) -> None:
            if message["type"] == "http.response.body":
                response.parts.append({"more_body": False, **message})
            await send(message)

        await routes(scope, receive, record)

    app.security.app = cast("Any", recorded)
    try:
        await app(cast("Any", scope), cast("Any", receive), cast("Any", send))
    finally:
        app.security.app = routes
    is_image = scope["state"].get("route") == IMAGE_ROUTE
    response.route = IMAGE_ROUTE if is_image else str(scope.get("path_template", ""))
    return response
