"""The double itself: a host that is an httpx2 transport."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import parse_qsl

import httpx2

from imagehost_client.aclient import AsyncClient
from imagehost_client.client import Client
from imagehost_client.errors import (
    BY_STATUS,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    ImageHostError,
    MethodNotAllowedError,
    NotFoundError,
    ServerError,
    UnauthorizedError,
    UnavailableError,
)
from imagehost_client.testing._hooks import deliver_event
from imagehost_client.testing._images import deliver
from imagehost_client.testing._request import FakeRequest, Route
from imagehost_client.testing._routes import IDEMPOTENT, STATUS_201, WITH_LOCATION, find, methods
from imagehost_client.testing._store import Record, Table, TokenGrant, now

STATUSES: dict[type[ImageHostError], int] = {kind: status for status, kind in BY_STATUS.items()} | {
    UnavailableError: 503
}


class FakeImageHost(httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """An image host in memory, to test programs with that use this client.

    It keeps images, albums, keys and webhooks, checks requests as the real host does, and answers with
    the same records and errors. It decodes no picture: widths and heights are read from headers, and the
    bytes stay as they came, also where the record names the format that was asked for.

    ```python
    host = FakeImageHost()
    with host.client() as client:
        image = client.upload(make_png())
    assert host.requests == [("POST", "/upload")]
    ```

    Args:
        base_url: The address of the interface.
        cdn_url: Where images are served.
        registration: Whether anybody may make an account; as at a host, not by default.

    Attributes:
        requests: Method and path of every request to the interface.
        events: The events of all changes, as webhooks would bring them.
        accounts: A token for each account, by name; `client` takes one of the names.
        passwords: What accounts are signed in to with, where that is not `secret`.
    """

    def __init__(
        self,
        *,
        base_url: str = "https://imagehost.test/v1",
        cdn_url: str = "https://imagehost.test/img",
        registration: bool = False,
    ) -> None:
        self.base_url = base_url
        self.cdn_url = cdn_url
        self.registration = registration
        self.passwords: dict[str, str] = {}
        self.started: str = now()
        self.requests: list[tuple[str, str]] = []
        self.events: list[Record] = []
        self.accounts: dict[str, str] = {}
        self.tokens: dict[str, TokenGrant] = {}
        self.tables: dict[str, Table] = {
            name: Table(name) for name in ("images", "albums", "keys", "webhooks", "deliveries")
        }
        self._failures: deque[httpx2.Response | None] = deque()
        self._claimed: dict[tuple[str, str], object] = {}
        self._answered: dict[tuple[str, str], httpx2.Response] = {}
        self._secret = secrets.token_bytes(32)
        self._lock = threading.RLock()
        self.add_account("admin")

    def add_account(self, name: str) -> str:
        """Make an account, and return a token that may do everything in its name."""
        token = "ihs_" + secrets.token_hex(16)
        self.accounts[name] = token
        self.tokens[token] = TokenGrant(name)
        return token

    def client(self, account: str = "admin", *, max_retries: int = 3) -> Client:
        """Return a client of this host."""
        token = self.accounts[account]
        return Client(self.base_url, token, cdn_url=self.cdn_url, max_retries=max_retries, transport=self)

    def async_client(self, account: str = "admin", *, max_retries: int = 3) -> AsyncClient:
        """Return an async client of this host."""
        token = self.accounts[account]
        return AsyncClient(
            self.base_url, token, cdn_url=self.cdn_url, max_retries=max_retries, transport=self
        )

    def fail(self, status: int, *, times: int = 1, retry_after: int | None = None) -> None:
        """Let the next requests fail.

        Args:
            status: The status that they are answered with.
            times: How many.
            retry_after: The seconds in `Retry-After`, if there is to be one.
        """
        kind = BY_STATUS.get(status, ServerError)
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        for _ in range(times):
            self._failures.append(_refused(kind("the test asked for it"), status, headers))

    def drop(self, *, times: int = 1) -> None:
        """Let the next requests find no connection."""
        self._failures.extend([None] * times)

    def content(self, image_id: str) -> bytes:
        """Return the bytes of an image."""
        return self.tables["images"].rows[image_id].content

    def emit(self, kind: str, data: Record, owner: str) -> None:
        """Note an event, and its deliveries to its owner's destinations."""
        self.events.append({"type": str(kind), "timestamp": now(), "data": dict(data)})
        deliver_event(self, owner, kind)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request."""
        request.read()
        return self._handle(request)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request."""
        await request.aread()
        return self._handle(request)

    def signature(self, text: str) -> str:
        """Return what signs a delivery address."""
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        with self._lock:
            url = self._canonical_url(str(request.url.copy_with(query=None)))
            try:
                if url.startswith(f"{self.cdn_url}/"):
                    return self._image(request, url.removeprefix(f"{self.cdn_url}/"))
                return self._answer(request, url)
            except MethodNotAllowedError as error:
                allowed = ", ".join(methods(url.removeprefix(self.base_url)))
                return _refused(error, 405, {"Allow": allowed})
            except ImageHostError as error:
                return _refused(error, STATUSES.get(type(error), 500))

    def _canonical_url(self, url: str) -> str:
        """Return the address that an alias stands for: `/api/v1` for `/v1`, `/v1/img` for the `cdn_url`."""
        origin = self.base_url.removesuffix("/v1")
        if url.startswith(f"{origin}/api/v1/"):
            url = f"{origin}/v1/{url.removeprefix(f'{origin}/api/v1/')}"
        if url.startswith(f"{self.base_url}/img/"):
            url = f"{self.cdn_url}/{url.removeprefix(f'{self.base_url}/img/')}"
        return url

    def _answer(self, request: httpx2.Request, url: str) -> httpx2.Response:
        if not url.startswith(f"{self.base_url}/"):
            raise NotFoundError(f"expected an address below {self.base_url} but received {url}")
        path = url.removeprefix(self.base_url)
        self.requests.append((request.method, path))
        if planned := self._next_planned_failure(request):
            return planned
        route, ids, needs = find(request.method, path)
        asked = FakeRequest(
            host=self,
            grant=self._granted(request, needs),
            path=path,
            ids=ids,
            query=_query(request),
            content_type=request.headers.get("content-type", ""),
            body=request.content,
        )
        key = request.headers.get("idempotency-key")
        return (
            _done(asked, route) if key is None or route not in IDEMPOTENT else self._once(asked, route, key)
        )

    def _next_planned_failure(self, request: httpx2.Request) -> httpx2.Response | None:
        """Return what a test wants in the place of the next answer, or `None`: it wants none.

        Raises:
            httpx2.ConnectError: It wants the connection to fail.
        """
        if not self._failures:
            return None
        planned = self._failures.popleft()
        if planned is None:
            raise httpx2.ConnectError("the test asked for it", request=request)
        return planned

    def _once(self, asked: FakeRequest, route: Route, key: str) -> httpx2.Response:
        """Answer a repeated key as the first time (contract 2); another request under it is refused.

        What was refused is not kept: it has done nothing, and is tried again.
        """
        if not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
            raise BadRequestError(
                f"expected 1 to 255 printable characters for Idempotency-Key but received {len(key)}"
            )
        mark = asked.idempotency_fingerprint()
        if self._claimed.setdefault((asked.grant.account, key), mark) != mark:
            raise ConflictError(
                f"expected a new key for another request for Idempotency-Key but received {key!r}"
            )
        first = self._answered.get((asked.grant.account, key))
        if first is None:
            self._answered[asked.grant.account, key] = response = _done(asked, route)
            return response
        headers = {**first.headers, "Idempotent-Replayed": "true"}
        return httpx2.Response(first.status_code, headers=headers, content=first.content)

    def _granted(self, request: httpx2.Request, needs: tuple[str | None, ...]) -> TokenGrant:
        """Return who asks, if they may (contract 2: 401 without a good token, 403 without the scope)."""
        grant = self._grant(request)
        if not needs:
            return grant or TokenGrant("")
        if grant is None:
            raise UnauthorizedError("expected a known token for Authorization but received none")
        if grant.scopes is not None and needs[0] not in grant.scopes:
            raise ForbiddenError(
                f"expected the scope {needs[0] or 'of a session'} but received a token without it"
            )
        return grant

    def _grant(self, request: httpx2.Request) -> TokenGrant | None:
        grant = self.tokens.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if grant is None or grant.key is None:
            return grant
        key = self.tables["keys"].rows[grant.key].record
        if key["expires_at"] is not None and datetime.fromisoformat(key["expires_at"]) <= datetime.now(UTC):
            return None
        key["last_used_at"] = now()
        return grant

    def _image(self, request: httpx2.Request, name: str) -> httpx2.Response:
        if planned := self._next_planned_failure(request):
            return planned
        row = deliver(self, name, _query(request), self._grant(request))
        headers = {"Content-Type": row.record["mime_type"], "ETag": f'"{row.record["sha256"][:32]}"'}
        return httpx2.Response(200, headers=headers, content=row.content)


def _query(request: httpx2.Request) -> dict[str, str]:
    pairs = parse_qsl(request.url.query.decode(), keep_blank_values=True)
    query = dict(pairs)
    if len(query) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise BadRequestError(f"expected one value for {repeated} but received several")
    return query


def _done(asked: FakeRequest, route: Route) -> httpx2.Response:
    data = route(asked)
    headers = {}
    if route in WITH_LOCATION and isinstance(data, dict):
        headers["Location"] = f"{asked.host.base_url}{asked.path}/{data['id']}"
    return _response(201 if route in STATUS_201 else 200, {"success": True, "data": data}, headers)


def _refused(error: ImageHostError, status: int, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    shown = {"code": error.code, "message": error.message, "details": error.details}
    extra = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return _response(status, {"success": False, "error": shown}, {**extra, **(headers or {})})


def _response(status: int, envelope: Record, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    shown = {
        "Content-Type": "application/json",
        "X-Request-Id": f"fake-{secrets.token_hex(4)}",
        "X-RateLimit-Limit": "60",
        "X-RateLimit-Remaining": "59",
        "X-RateLimit-Reset": str(int(time.time()) // 60 * 60 + 60),
        **(headers or {}),
    }
    return httpx2.Response(status, headers=shown, content=json.dumps(envelope).encode())
