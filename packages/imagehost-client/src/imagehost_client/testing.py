"""An image host in memory, for the tests of programs that use this client: the server, without a network.

`FakeImageHost` needs the extra `imagehost-client[testing]`.
"""

from __future__ import annotations

import asyncio
import json
import struct
import threading
import time
import weakref
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

import httpx2
from anyio.to_thread import run_sync  # comes with httpx2
from attrs import define, fields, frozen

from imagehost_client import webhooks
from imagehost_client._doubles import START, HostClock, activate, deactivate
from imagehost_client.aclient import AsyncClient
from imagehost_client.client import Client
from imagehost_client.errors import BY_STATUS, ServerError

if TYPE_CHECKING:
    from typing import Self

    from imagehost_core import ImageHost

__all__ = ["FakeImageHost", "HostClock", "PlannedFailure", "SignedEvent", "make_png"]

PASSWORD_HASH = "$argon2id$v=19$m=8,t=1,p=1$a2i9Vz8slFo$D4Xbdg9XhTzjNM/cybyf8A"  # noqa: S105 - of `secret`
"""The hash of every account's password, with the least effort."""

PUBLIC_ADDRESS = "1.1.1.1"
"""The IP address of the host of every webhook: nothing is looked up or sent."""

PLANNED = "failure planned by the test"


@frozen
class SignedEvent:
    """The request that delivers an event to a webhook.

    Attributes:
        webhook_id: The id of the webhook.
        body: The body.
        headers: The headers, with the signature; names are in lower case.
    """

    webhook_id: str
    body: bytes
    headers: dict[str, str]


@define
class PlannedFailure:
    """What a test has planned for requests.

    Attributes:
        times: The number of requests that it still happens to.
        method: Their HTTP method, or `None` for any.
        path: A pattern of their paths.
        response: The status, headers and body of the response, in place of the host's.
        error: The error of the connection: `ConnectError` before the host gets the request, others after it.
        delay: The duration of the request, in seconds of the host's clock.
    """

    times: int
    method: str | None
    path: str
    response: tuple[int, Mapping[str, str], bytes] | None = None
    error: type[httpx2.TransportError] | None = None
    delay: float = 0.0

    def matches(self, method: str, path: str) -> bool:
        """Return whether this happens to a request."""
        return self.times > 0 and self.method in {None, method} and fnmatchcase(path, self.path)


class FakeImageHost(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """An image host in memory: the application of `imagehost-server`, which clients call without a network.

    ```python
    host = FakeImageHost()
    with host.client() as client:
        image = client.upload(make_png())
    assert host.requests == [("POST", "/upload")]
    ```

    All hosts of a process share one worker process for images, which starts with the first upload. The files
    of a host are in a temporary directory, which is removed with the object.

    Args:
        base_url: The base URL of the API.
        cdn_url: The base URL of image delivery.
        registration: Whether `accounts.create` requires no token; only operators may call it by default.
        limits: The rate limits of every account, such as `{"uploads_per_minute": 10}`, unless it has its own;
            none by default.
        quota_bytes: The quota of every account, unless it has its own; none by default.
        now: The time at which the clock stands; by default the start of 2026.

    Attributes:
        core: The `ImageHost` of `imagehost_core` behind the application, to see what the interface hides.
        requests: Method and path of every API request.
        events: The events of all changes, as webhooks would receive them.
        clock: The clock of the host and its clients; retries and pacing advance it instead of waiting.
        accounts: A session token for each account, by the names that `client` takes.

    Raises:
        ImportError: The extra `imagehost-client[testing]` is not installed.
    """

    def __init__(
        self,
        *,
        base_url: str = "https://imagehost.test/v1",
        cdn_url: str = "https://imagehost.test/img",
        registration: bool = False,
        limits: Mapping[str, int] | None = None,
        quota_bytes: int | None = None,
        now: datetime = START,
    ) -> None:
        self.base_url: str = base_url
        self.cdn_url: str = cdn_url
        self.requests: list[tuple[str, str]] = []
        self.events: list[dict[str, Any]] = []
        self.clock: HostClock = HostClock(now)
        self.accounts: dict[str, str] = {}
        self._deliveries: list[SignedEvent] = []
        self._failures: list[PlannedFailure] = []
        self.core: ImageHost
        self.core, self._app = _open_host(
            {"base_url": base_url, "cdn_url": cdn_url, "registration": registration},
            {**(limits or {}), "quota_bytes": quota_bytes or 0},
            self.clock,
            self.events,
        )
        weakref.finalize(self, self.core.close)
        self.core.accounts.set_password_hash("admin", PASSWORD_HASH)
        self.accounts["admin"] = self._new_session("admin")

    def add_account(self, name: str, *, role: Literal["user", "operator"] = "user") -> str:
        """Create an account with the password `secret`, and return the token of a session.

        Args:
            name: The name.
            role: `user`, or `operator` for an account that manages others.
        """
        self.core.accounts.create(name, password_hash=PASSWORD_HASH, role=role)
        self.accounts[name] = self._new_session(name)
        return self.accounts[name]

    def _new_session(self, name: str) -> str:
        return self.core.sessions.create(self.core.accounts.get(name)).token

    def client(self, account: str = "admin", *, max_retries: int = 3) -> Client:
        """Return a client of this host, authenticated as `account`."""
        with self.patch():
            return Client(token=self.accounts[account], max_retries=max_retries)

    def async_client(self, account: str = "admin", *, max_retries: int = 3) -> AsyncClient:
        """Return an async client of this host, authenticated as `account`."""
        with self.patch():
            return AsyncClient(token=self.accounts[account], max_retries=max_retries)

    @contextmanager
    def patch(self) -> Iterator[Self]:
        """Let all clients that are made in the block, in any module and thread, be clients of this host.

        Their `base_url`, `cdn_url` and `http_client` are replaced, as is a token that is not valid on this
        host: by that of `admin`. A client with a `transport` is left alone.
        """
        activate(self)
        try:
            yield self
        finally:
            deactivate(self)

    def token_for(self, token: str | None) -> str:
        """Return the token of a client that a program has given another one, or none."""
        from imagehost_core.errors import UnauthorizedError

        try:
            self.core.authenticate(token or "")
        except UnauthorizedError:
            return self.accounts["admin"]
        return token or ""

    def fail(
        self,
        status: int,
        *,
        times: int = 1,
        retry_after: int | None = None,
        body: bytes | None = None,
        method: str | None = None,
        path: str = "*",
    ) -> None:
        """Let the next requests get another response, without reaching the host.

        Args:
            status: The HTTP status.
            times: The number of requests.
            retry_after: Seconds for the `Retry-After` header; `None` sends none.
            body: The body, such as the HTML of a proxy; by default the error of the status.
            method: The HTTP method of these requests; any by default.
            path: A pattern of their paths, such as `/upload`, `/images/*` or `/img/*`; any by default.
        """
        error = BY_STATUS.get(status, ServerError)(PLANNED)
        members = {"code": error.code, "message": error.message, "details": error.details}
        envelope = json.dumps({"success": False, "error": members}).encode()
        media_type = "application/json" if body is None else "text/html"
        headers = {"Content-Type": media_type, "X-Request-Id": "planned"}
        if retry_after is not None:
            headers["Retry-After"] = str(retry_after)
        response = status, headers, envelope if body is None else body
        self._failures.append(PlannedFailure(times, method, path, response))

    def drop(
        self, *, times: int = 1, handled: bool = False, method: str | None = None, path: str = "*"
    ) -> None:
        """Let the connections of the next requests fail.

        Args:
            times: The number of requests.
            handled: Whether the connection breaks only when the host has handled the request, before the
                response; by default no connection is made.
            method: The HTTP method of these requests; any by default.
            path: A pattern of their paths, as for `fail`.
        """
        error = httpx2.ReadError if handled else httpx2.ConnectError
        self._failures.append(PlannedFailure(times, method, path, error=error))

    def delay(self, seconds: float, *, times: int = 1, method: str | None = None, path: str = "*") -> None:
        """Let the next requests take some time of the host's clock: a client with a shorter timeout gives up.

        Args:
            seconds: The time until the response.
            times: The number of requests.
            method: The HTTP method of these requests; any by default.
            path: A pattern of their paths, as for `fail`.
        """
        self._failures.append(PlannedFailure(times, method, path, delay=seconds))

    def content(self, image_id: str) -> bytes:
        """Return the stored bytes of an image."""
        return self.core.render(image_id).data

    def signed_events(self, webhook: str | None = None) -> list[SignedEvent]:
        """Return the requests that webhooks would have got, for tests of receivers, and record their success.

        Args:
            webhook: The id of a webhook; by default the requests to all webhooks are returned.
        """
        from imagehost_core.webhooks import Attempt

        while leased := self.core.webhooks.lease(100):
            success = Attempt(at=self.clock.now(), status=200, duration_ms=0, response="")
            self.core.webhooks.report((delivery, success) for delivery in leased)
            for one in sorted(leased, key=lambda one: one.delivery.created_at):
                # Receivers compare the time with their own clock.
                event, timestamp = one.delivery.event_id, str(int(time.time()))
                content = f"{event}.{timestamp}.".encode() + one.body
                headers = {
                    "content-type": "application/json",
                    webhooks.ID: event,
                    webhooks.TIME: timestamp,
                    webhooks.SIGNATURE: " ".join(webhooks.sign(content, secret) for secret in one.secrets),
                }
                self._deliveries.append(SignedEvent(one.webhook.id, one.body, headers))
        return [one for one in self._deliveries if webhook in {None, one.webhook_id}]

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Handle a request of a sync client."""
        request.read()
        return self._run(request)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Handle a request of an async client, on any event loop."""
        await request.aread()
        return await run_sync(self._run, request)

    def _run(self, request: httpx2.Request) -> httpx2.Response:
        return asyncio.run_coroutine_threadsafe(self._respond(request), _event_loop()).result()

    async def _respond(self, request: httpx2.Request) -> httpx2.Response:
        failure = self._record(request)
        if failure.error is httpx2.ConnectError:
            raise failure.error(PLANNED, request=request)
        if failure.response is not None:
            status, headers, content = failure.response
            return httpx2.Response(status, headers=headers, content=content)
        response = await self._app.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        body = b"".join([chunk async for chunk in response.stream])
        timeout = request.extensions.get("timeout", {}).get("read")
        self.clock.advance(failure.delay if timeout is None else min(timeout, failure.delay))
        if timeout is not None and timeout < failure.delay:
            raise httpx2.ReadTimeout(PLANNED, request=request)
        if failure.error is not None:
            raise failure.error(PLANNED, request=request)
        return httpx2.Response(response.status_code, headers=response.headers, content=body)

    def _record(self, request: httpx2.Request) -> PlannedFailure:
        """Record a request of the API, and return what is planned for this request."""
        url = str(request.url.copy_with(query=None)).replace("/api/v1/", "/v1/", 1)
        path = f"/img/{url.rpartition('/')[2]}"
        if url.startswith(f"{self.base_url}/") and not url.startswith(f"{self.base_url}/img/"):
            path = url.removeprefix(self.base_url)
            self.requests.append((request.method, path))
        for failure in self._failures:
            if failure.matches(request.method, path):
                failure.times -= 1
                return failure
        return PlannedFailure(0, None, path)


def _open_host(
    settings: Mapping[str, Any], limits: Mapping[str, int], clock: HostClock, events: list[dict[str, Any]]
) -> tuple[ImageHost, httpx2.ASGITransport]:
    """Return a new host, and the transport to its application.

    Args:
        settings: The settings of the server that do not belong to a section.
        limits: The limits that are not off.
        clock: The clock of the host.
        events: Receives the events of the host.

    Raises:
        ImportError: The server is not installed.
    """
    try:
        from imagehost_core import ImageHost
        from imagehost_core.events import serialize_event
        from imagehost_core.settings import LimitSettings, WebhookSettings
        from imagehost_core.testing import shared_executor
        from imagehost_server.app import create_app
        from imagehost_server.settings import LogSettings, ServerSettings, WebSettings
    except ImportError as error:
        raise ImportError(
            f"expected the package imagehost-server for FakeImageHost but {error.name} is not installed: "
            "pip install ./packages/imagehost-core ./packages/imagehost-server in a clone",
            name=error.name,
        ) from error
    unlimited = dict.fromkeys((limit.name for limit in fields(LimitSettings)), 0)
    all_settings = ServerSettings(
        **settings,
        limits=LimitSettings(**{**unlimited, **limits}),
        webhooks=WebhookSettings(send_in_server=False, allow_loopback=True),
        web=WebSettings(enabled=False),
        log=LogSettings(access=False),
    )
    host = ImageHost.open(
        ":memory:",
        settings=all_settings,
        clock=clock.now,
        resolve=lambda _host, _port: (PUBLIC_ADDRESS,),
        executor=shared_executor(),
    )
    host.subscribe(lambda event: events.append(json.loads(serialize_event(event))))
    # Litestar's types of ASGI are narrower than httpx2's.
    return host, httpx2.ASGITransport(cast("Any", create_app(host, all_settings)))


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop on which the applications of all hosts run, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="FakeImageHost", daemon=True).start()
    return loop


def make_png(width: int = 2, height: int = 2, colour: tuple[int, int, int] = (200, 80, 40)) -> bytes:
    """Return a PNG filled with one colour.

    Args:
        width: Pixels.
        height: Pixels.
        colour: Red, green and blue, 0–255.
    """
    rows = (b"\x00" + bytes(colour) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (b"IHDR" + header, b"IDAT" + zlib.compress(rows), b"IEND")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks
    )
