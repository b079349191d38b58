"""Lsky Pro v2 compatibility: what requests and responses under `/api/v1` have in addition.

Programs for Lsky Pro v2 send `file` to `/api/v1/upload` and read `status`, `message`, `data.key` and
`data.links.url`. Under this prefix every envelope has the members `status` and `message`, the record of a
single upload has the names of Lsky beside ours, and the form field `permission` means `is_public`. Handlers
do not know of it: `LskyMiddleware` prepares the request and extends the response. `/v1` is unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from litestar.enums import ScopeType
from litestar.utils import normalize_path

from imagehost_core.services.delivery import Blob
from imagehost_server.http.response_body import WHOLE_BYTES, HeldBody, Spool

if TYPE_CHECKING:
    from collections.abc import Callable

    from litestar.types import ASGIApp, HTTPResponseStartEvent, Message, Receive, Scope, Send

PREFIX = "/api/v1/"
UPLOAD = ("POST", "/api/v1/upload")
PROFILE = ("GET", "/api/v1/profile")
ACCOUNT_PATH = "/api/v1/account"
"""The path of ours that `PROFILE` stands for."""

FIELD_ALIASES = {"permission": "is_public"}
"""Form fields of Lsky, with ours: 1 is public and 0 is private, as for `is_public`."""

SUCCESS = "OK"
"""The `message` of a success, which clients show."""

Json = dict[str, object]


class LskyMiddleware:
    """ASGI middleware around the whole application; requests outside `/api/v1` pass unchanged.

    Args:
        app: The application.
        spool: Where large bodies are kept for clients that read slowly.
    """

    def __init__(self, app: ASGIApp, spool: Spool | None = None) -> None:
        self._app = app
        self._spool = spool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        # Programs join a base URL that ends in a slash with a path that begins with one.
        path = normalize_path(scope["path"]) if scope["type"] == ScopeType.HTTP else ""
        if scope["type"] != ScopeType.HTTP or not f"{path}/".startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        route = (scope["method"], path)
        scope["path"], scope["raw_path"] = path, path.encode()
        scope.setdefault("state", {})["field_aliases"] = FIELD_ALIASES
        if route == PROFILE:
            scope["path"], scope["raw_path"] = ACCOUNT_PATH, ACCOUNT_PATH.encode()
        await self._app(scope, receive, _ExtendingSender(send, _EXTENSIONS.get(route), self._spool).send)


class _ExtendingSender:
    """The `send` callable of a request: holds a JSON response back until it is complete, and extends it."""

    def __init__(self, send: Send, extend_data: Callable[[Json], None] | None, spool: Spool | None) -> None:
        self._send = send
        self._spool = spool
        self._extend_data = extend_data
        self._start: HTTPResponseStartEvent | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_json(message):
            self._start = message
        elif message["type"] == "http.response.body" and self._start is not None:
            self._body += message["body"]
            if not message.get("more_body", False):
                await self._send_extended(self._start)
        else:
            await self._send(message)

    async def _send_extended(self, start: HTTPResponseStartEvent) -> None:
        body = extend_envelope(self._body, self._extend_data)
        self._body = b""
        headers = [(name, value) for name, value in start["headers"] if name.lower() != b"content-length"]
        if body:  # The response to HEAD has no body, so its length is not known here.
            headers.append((b"content-length", str(len(body)).encode()))
        await self._send({**start, "headers": headers})
        if len(body) <= WHOLE_BYTES:
            await self._send({"type": "http.response.body", "body": body, "more_body": False})
        else:
            held = HeldBody(Blob(body), self._spool)
            del body
            await held.send(self._send)


def _is_json(message: HTTPResponseStartEvent) -> bool:
    return any(
        name.lower() == b"content-type" and value == b"application/json" for name, value in message["headers"]
    )


def extend_envelope(body: bytes, extend_data: Callable[[Json], None] | None = None) -> bytes:
    """Return the body of a JSON response with the members `status` and `message`.

    A body that is not an envelope, such as the OpenAPI document, is returned unchanged.

    Args:
        body: The JSON.
        extend_data: Adds members to the `data` of a success.
    """
    envelope = msgspec.json.decode(body) if body else None
    if not isinstance(envelope, dict) or "success" not in envelope:
        return body
    if envelope["success"]:
        message = SUCCESS
        if extend_data is not None:
            extend_data(envelope["data"])
    else:
        error = envelope["error"]
        message = f"{error['message']}: {error['details']}"
    return msgspec.json.encode({**envelope, "status": envelope["success"], "message": message})


def add_image_members(data: Json) -> None:
    """Add the members of Lsky to the record of a single upload; the result of form 1 has none."""
    links = data.get("links")
    if not isinstance(links, dict):
        return
    url = str(data["url"])
    data.update(
        key=data["id"],
        name=data["filename"],
        origin_name=data["original_filename"],
        mimetype=data["mime_type"],
        extension=url.rpartition(".")[2],
    )
    links.update(thumbnail_url=data["thumb_url"], markdown_with_link=f"[{links['markdown']}]({url})")


def add_profile_members(data: Json) -> None:
    """Add the members of Lsky's profile to the record of an account: names, counts, and storage in KB."""
    account, usage, quota = (_members(data, name) for name in ("account", "usage", "quota"))
    data.update(
        name=account["name"],
        email="",
        url="",
        image_num=usage["images"],
        album_num=usage["albums"],
        used_capacity=_kilobytes(usage["bytes"]),
        capacity=_kilobytes(quota["bytes"]),
    )


def _members(data: Json, name: str) -> Json:
    value = data[name]
    assert isinstance(value, dict)
    return value


def _kilobytes(size: object) -> float | None:
    return round(size / 1024, 2) if isinstance(size, int) else None


_EXTENSIONS: dict[tuple[str, str], Callable[[Json], None]] = {
    UPLOAD: add_image_members,
    PROFILE: add_profile_members,
}
