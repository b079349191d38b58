"""The delivery route: stored images and their variants.

It is raw ASGI without Litestar, because most requests are for images in memory, which need no thread and no
framework. Blocking work (database, files, rendering, authentication) runs in threads.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING

from imagehost_core import ImageHost
from imagehost_core.delivery_responses import (
    PRECONDITIONS,
    RELEVANT_HEADERS,
    ImageResponse,
    ImageResponses,
    relevant_headers,
)
from imagehost_core.errors import ImageHostError, UnauthorizedError
from imagehost_core.limits import account_key, ip_address_key
from imagehost_core.models import Account, Scope
from imagehost_core.services.delivery import ImageBlob, ResolvedImage
from imagehost_core.settings import FOLDER
from imagehost_core.steps import Finished, QueueSteps, advance
from imagehost_core.storage import MASTER
from imagehost_core.storage.layout import shard
from imagehost_core.tokens import bearer_token
from imagehost_server._executors import Executors
from imagehost_server.auth.cookies import same_origin_session_cookie
from imagehost_server.auth.identity import PRINCIPAL
from imagehost_server.http.response_body import pieces_of
from imagehost_server.http.responses import error_response
from imagehost_server.metrics import IMAGE_ROUTE, Recorder

if TYPE_CHECKING:
    from litestar.types import HTTPResponseBodyEvent, HTTPResponseStartEvent, HTTPScope, Receive, Send


PROXIED = b"x-forwarded-proto"
"""The header of requests that a proxy has sent."""

SENT_BY_SERVER = frozenset((b"range", *PRECONDITIONS))
"""Headers of requests that are not left to nginx, which would evaluate them differently."""

NO_BODY: HTTPResponseBodyEvent = {"type": "http.response.body", "body": b"", "more_body": False}


class DeliveryRoute:
    """The application that serves images.

    Args:
        host: The host.
        executors: Run blocking work.
        recorder: Counts where images came from; by default one of its own.
        listed: Whether search engines may list public images.

    Attributes:
        responses: Decides the responses.
    """

    def __init__(
        self, host: ImageHost, executors: Executors, recorder: Recorder | None = None, *, listed: bool = True
    ) -> None:
        self._host = host
        self.responses = ImageResponses(host.settings, listed=listed)
        self._recorder = recorder or Recorder()
        self._executors = executors
        is_folder = host.settings.storage.url == FOLDER
        self._accel_redirect = host.settings.delivery.accel_redirect if is_folder else None

    async def __call__(self, path: str, scope: HTTPScope, receive: Receive, send: Send) -> None:
        """Handle a request.

        Args:
            path: The path after the prefix: `<id>` or `<id>.<ext>`.
            scope: The request.
            receive: The ASGI callable.
            send: The ASGI callable.
        """
        scope["state"]["route"] = IMAGE_ROUTE
        try:
            if response := self.responses.without_image(scope["method"]):
                await _send_head(response, send)
            else:
                await self._deliver(path, scope, receive, send)
        except ImageHostError as error:
            await error_response(error, scope["state"]).send(send)

    async def _deliver(self, path: str, scope: HTTPScope, receive: Receive, send: Send) -> None:
        headers = relevant_headers(scope["headers"], RELEVANT_HEADERS | {PROXIED})
        query = scope["query_string"].decode("latin-1")
        accept = headers.get(b"accept", "")
        viewer: Account | None = None
        # Most requests are for images that need no credentials, so these are checked only if it is necessary.
        resolved = self._host.delivery.resolve_cached(path, query, accept=accept)
        if resolved is None:
            viewer = await self._viewer(scope)
            if viewer is not None:
                resolved = self._host.delivery.resolve_cached(path, query, accept=accept, viewer=viewer)
        if resolved is None:
            resolved = await self._executors.database.run(
                self._host.delivery.resolve, path, query, accept=accept, viewer=viewer
            )
        if response := self.responses.without_bytes(resolved, scope["method"], headers):
            self._recorder.lookup("client" if response.status == 304 else "memory")
            await _send_head(response, send)
            return
        if (
            self._accel_redirect is not None
            and (resolved.key, resolved.is_public, scope["method"]) == (None, True, "GET")
            and PROXIED in headers
            and headers.keys().isdisjoint(SENT_BY_SERVER)
            and await self._is_upright(resolved)
        ):
            self._recorder.lookup("master")
            await _send_head(self._redirect_of_nginx(resolved), send)
            return
        blob: ImageBlob | None
        if found := self._host.delivery.read_nowait(resolved):
            self._recorder.lookup(found[0])
            blob = ImageBlob(found[1], resolved)
        else:
            if resolved.key is None:
                self._recorder.lookup("master")
            ip_address = str(scope["state"].get("ip_address", ""))
            client = account_key(viewer.id) if viewer else ip_address_key(ip_address)
            steps = self._host.delivery.open_in_steps(resolved, client)
            is_master = resolved.key is None
            blob = await open_blob(steps, self._executors, receive, is_master=is_master)
        if blob is None:
            return
        try:
            await self._send(blob, headers, scope["method"], send)
        finally:
            blob.close()

    async def _is_upright(self, resolved: ResolvedImage) -> bool:
        """Return whether browsers show the master upright, so that nginx can send it."""
        delivery, image = self._host.delivery, resolved.image
        return delivery.is_known_upright(image) or await self._executors.masters.run(
            delivery.is_upright, image
        )

    async def _send(self, blob: ImageBlob, headers: dict[bytes, str], method: str, send: Send) -> None:
        response = self.responses.with_bytes(blob.resolved, method, headers, blob.size, blob.format)
        start, stop = response.part.start, response.part.stop
        await send(_start(response))
        if blob.data is not None:
            await send({"type": "http.response.body", "body": blob.data[start:stop], "more_body": False})
            return
        if start < stop:
            async for piece in pieces_of(blob, self._executors.files, start, stop):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send(NO_BODY)

    def _redirect_of_nginx(self, resolved: ResolvedImage) -> ImageResponse:
        """Return the 200 response for which nginx sends the master."""
        image_id = resolved.image.id
        path = f"{self._accel_redirect}{shard(image_id)}/{image_id}/{MASTER}"
        response = self.responses.with_bytes(resolved, "HEAD", {}, resolved.image.size, resolved.format)
        headers = [header for header in response.headers if header[0] != b"content-length"]
        return ImageResponse(200, [*headers, (b"content-length", b"0"), (b"x-accel-redirect", path.encode())])

    async def _viewer(self, scope: HTTPScope) -> Account | None:
        """Return the account of the request's token, or `None` without a valid token and scope.

        The session cookie counts as the token where a page of this origin made the request.
        """
        headers = scope["headers"]
        has_authorization = any(name == b"authorization" for name, _ in headers)
        root_path = self._host.settings.root_path
        cookie = None if has_authorization else same_origin_session_cookie(headers, root_path)
        try:
            token = cookie or bearer_token(headers)
            principal = await self._executors.database.run(self._host.authenticate, token)
        except UnauthorizedError:
            return None
        scope["state"][PRINCIPAL] = principal
        return principal.account if Scope.IMAGES_READ in principal.scopes else None


def _start(response: ImageResponse) -> HTTPResponseStartEvent:
    return {"type": "http.response.start", "status": response.status, "headers": response.headers}


async def _send_head(response: ImageResponse, send: Send) -> None:
    await send(_start(response))
    await send(NO_BODY)


async def open_blob(
    steps: QueueSteps[ImageBlob], executors: Executors, receive: Receive, *, is_master: bool = False
) -> ImageBlob | None:
    """Return the bytes that `steps` open.

    Args:
        steps: The work, from `host.delivery.open_in_steps`. When the client disconnects, or the request is
            cancelled, it leaves the queue.
        executors: Run blocking work: `files` looks on the disk and at errors, `variants` renders.
        receive: The ASGI callable of the request.
        is_master: Whether the image is the master, which `executors.masters` opens.

    Returns:
        `None` if the client has disconnected.

    Raises:
        ImageHostError: As for `host.delivery.open`.
    """
    limiter = executors.masters if is_master else executors.files
    disconnection: asyncio.Task[None] | None = None
    try:
        while not isinstance(step := await limiter.run(advance, steps), Finished):
            disconnection = disconnection or asyncio.create_task(_wait_for_disconnection(receive))
            if not await _wait(step, disconnection):
                return None
            has_worker = step.exception() is None and step.result() is not None
            limiter = executors.variants if has_worker else executors.files
        return step.result
    finally:
        if disconnection is not None:
            disconnection.cancel()
        steps.close()


async def _wait(future: Future[object], disconnection: asyncio.Task[None]) -> bool:
    """Wait for a future; return `False` if the client disconnects before."""
    waiting = asyncio.wrap_future(future)
    await asyncio.wait((waiting, disconnection), return_when=asyncio.FIRST_COMPLETED)
    if not waiting.done():
        waiting.cancel()
        return False
    with suppress(Exception):
        await waiting  # Its result is that of `future`.
    return True


async def _wait_for_disconnection(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
