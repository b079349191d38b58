"""`FakeImageHost`: an in-memory host that is an httpx2 transport."""

from __future__ import annotations

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
    ImageHostError,
    MethodNotAllowedError,
    NotFoundError,
    ServerError,
    UnauthorizedError,
    UnavailableError,
)
from imagehost_client.testing import _lsky
from imagehost_client.testing._accounts import create_account
from imagehost_client.testing._delivery import deliver
from imagehost_client.testing._errors import ErrorCollector
from imagehost_client.testing._request import FakeRequest, Route, require_scope
from imagehost_client.testing._routes import (
    IDEMPOTENT,
    STATUS_201,
    WITH_LOCATION,
    allowed_methods,
    find_route,
)
from imagehost_client.testing._state import HostState
from imagehost_client.testing._store import Record, TokenGrant, now

STATUSES: dict[type[ImageHostError], int] = {kind: status for status, kind in BY_STATUS.items()} | {
    UnavailableError: 503
}


class FakeImageHost(HostState, httpx2.BaseTransport, httpx2.AsyncBaseTransport):
    """An in-memory image host, for the tests of programs that use this client.

    It keeps images, albums, keys and webhooks, validates requests as the real host does, and returns
    the same records and errors. It decodes no images: widths and heights are read from file headers, and
    bytes are stored as sent, also where the record names another requested format.

    ```python
    host = FakeImageHost()
    with host.client() as client:
        image = client.upload(make_png())
    assert host.requests == [("POST", "/upload")]
    ```

    Args:
        base_url: The base URL of the API.
        cdn_url: The base URL of image delivery.
        registration: Whether `accounts.create` requires no token; only operators may call it by default.

    Attributes:
        requests: Method and path of every API request.
        events: The events of all changes, as webhooks would receive them.
        accounts: A session token for each account, by the names that `client` takes.
        passwords: Passwords by account, where they differ from `secret`.
    """

    def __init__(
        self,
        *,
        base_url: str = "https://imagehost.test/v1",
        cdn_url: str = "https://imagehost.test/img",
        registration: bool = False,
    ) -> None:
        super().__init__(base_url=base_url, cdn_url=cdn_url, registration=registration)
        self.requests: list[tuple[str, str]] = []
        self._failures: deque[httpx2.Response | None] = deque()
        self._fingerprints: dict[tuple[str, str], object] = {}
        self._responses: dict[tuple[str, str], httpx2.Response] = {}
        self._lock = threading.RLock()
        self.add_account("admin", role="operator")

    def client(self, account: str = "admin", *, max_retries: int = 3) -> Client:
        """Return a client of this host, authenticated as `account`."""
        token = self.accounts[account]
        return Client(self.base_url, token, cdn_url=self.cdn_url, max_retries=max_retries, transport=self)

    def async_client(self, account: str = "admin", *, max_retries: int = 3) -> AsyncClient:
        """Return an async client of this host, authenticated as `account`."""
        token = self.accounts[account]
        return AsyncClient(
            self.base_url, token, cdn_url=self.cdn_url, max_retries=max_retries, transport=self
        )

    def fail(self, status: int, *, times: int = 1, retry_after: int | None = None) -> None:
        """Make the next requests fail with an error response.

        Args:
            status: The HTTP status.
            times: The number of requests.
            retry_after: Seconds for the `Retry-After` header; `None` sends none.
        """
        kind = BY_STATUS.get(status, ServerError)
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        for _ in range(times):
            self._failures.append(_error_response(kind("failure planned by the test"), status, headers))

    def drop(self, *, times: int = 1) -> None:
        """Make the next requests fail to connect.

        Args:
            times: The number of requests.
        """
        self._failures.extend([None] * times)

    def content(self, image_id: str) -> bytes:
        """Return the stored bytes of an image."""
        return self.tables["images"].rows[image_id].content

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Handle a request of a sync client."""
        request.read()
        return self._handle(request)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Handle a request of an async client."""
        await request.aread()
        return self._handle(request)

    def _handle(self, request: httpx2.Request) -> httpx2.Response:
        with self._lock:
            url = str(request.url.copy_with(query=None))
            canonical_url = self._canonical_url(url)
            if canonical_url.startswith(f"{self.base_url}/") and canonical_url != url:
                response = self._respond(request, canonical_url, is_lsky=True)
                headers = {name: text for name, text in response.headers.items() if name != "content-length"}
                content = json.dumps(_lsky.extend_envelope(json.loads(response.content))).encode()
                return httpx2.Response(response.status_code, headers=headers, content=content)
            return self._respond(request, canonical_url)

    def _respond(self, request: httpx2.Request, url: str, *, is_lsky: bool = False) -> httpx2.Response:
        try:
            if url.startswith(f"{self.cdn_url}/"):
                return self._deliver_image(request, url.removeprefix(f"{self.cdn_url}/"))
            return self._handle_api(request, url, is_lsky=is_lsky)
        except MethodNotAllowedError as error:
            allowed = ", ".join(allowed_methods(url.removeprefix(self.base_url)))
            return _error_response(error, 405, {"Allow": allowed})
        except ImageHostError as error:
            return _error_response(error, STATUSES.get(type(error), 500))

    def _canonical_url(self, url: str) -> str:
        """Return the URL behind an alias: `/api/v1` means `/v1`, and `/v1/img` means the `cdn_url`."""
        origin = self.base_url.removesuffix("/v1")
        if url.startswith(f"{origin}/api/v1/"):
            url = f"{origin}/v1/{url.removeprefix(f'{origin}/api/v1/')}"
        if url.startswith(f"{self.base_url}/img/"):
            url = f"{self.cdn_url}/{url.removeprefix(f'{self.base_url}/img/')}"
        return url

    def _handle_api(self, request: httpx2.Request, url: str, *, is_lsky: bool) -> httpx2.Response:
        if not url.startswith(f"{self.base_url}/"):
            raise NotFoundError(f"expected a URL below {self.base_url} but received {url}")
        path = url.removeprefix(self.base_url)
        self.requests.append((request.method, path))
        if failure := self._next_planned_failure(request):
            return failure
        route, ids, scopes = find_route(request.method, path)
        errors = ErrorCollector()
        parsed = FakeRequest(
            host=self,
            grant=self._authorize(
                request, scopes, is_registration=self.registration and route is create_account
            ),
            path=path,
            ids=ids,
            query=_query(request, errors),
            content_type=request.headers.get("content-type", ""),
            body=request.content,
            errors=errors,
            user_agent=request.headers.get("user-agent", ""),
            is_lsky=is_lsky,
        )
        key = request.headers.get("idempotency-key")
        if key is None or route not in IDEMPOTENT:
            return _run_route(parsed, route)
        return self._run_idempotent(parsed, route, key)

    def _next_planned_failure(self, request: httpx2.Request) -> httpx2.Response | None:
        """Return the error response that a test has planned for this request, or `None`.

        Raises:
            httpx2.ConnectError: The test has planned a connection failure.
        """
        if not self._failures:
            return None
        failure = self._failures.popleft()
        if failure is None:
            raise httpx2.ConnectError("failure planned by the test", request=request)
        return failure

    def _run_idempotent(self, request: FakeRequest, route: Route, key: str) -> httpx2.Response:
        """Run a route once for an idempotency key, and replay its response to repetitions.

        An error response is not stored, because the request has had no effect.

        Raises:
            BadRequestError: The key is malformed.
            ConflictError: The key was used for a different request.
        """
        if not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
            raise BadRequestError(
                f"expected 1 to 255 printable characters for Idempotency-Key but received {len(key)}"
            )
        slot = request.grant.account, key
        fingerprint = request.idempotency_fingerprint()
        if self._fingerprints.setdefault(slot, fingerprint) != fingerprint:
            raise ConflictError(
                f"expected a new key for another request for Idempotency-Key but received {key!r}"
            )
        first = self._responses.get(slot)
        if first is None:
            self._responses[slot] = response = _run_route(request, route)
            return response
        headers = {**first.headers, "Idempotent-Replayed": "true"}
        return httpx2.Response(first.status_code, headers=headers, content=first.content)

    def _authorize(
        self, request: httpx2.Request, scopes: tuple[str | None, ...], *, is_registration: bool
    ) -> TokenGrant:
        """Return the grant of the request's token; registration and public routes require none.

        Raises:
            UnauthorizedError: The route needs a token, and there is no valid one.
            ForbiddenError: The token lacks the route's scope.
        """
        grant = self._find_grant(request)
        if not scopes or (grant is None and is_registration):
            return grant or TokenGrant("")
        if grant is None:
            raise UnauthorizedError("expected a known token for Authorization but received none")
        require_scope(self, grant, scopes[0])
        return grant

    def _find_grant(self, request: httpx2.Request) -> TokenGrant | None:
        grant = self.tokens.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if grant is None or not self.is_active(grant.account):
            return None
        if grant.session is not None:
            self.tables["sessions"].rows[grant.session].record["last_used_at"] = now()
        if grant.key is None:
            return grant
        key = self.tables["keys"].rows[grant.key].record
        if key["expires_at"] is not None and datetime.fromisoformat(key["expires_at"]) <= datetime.now(UTC):
            return None
        key["last_used_at"] = now()
        return grant

    def _deliver_image(self, request: httpx2.Request, name: str) -> httpx2.Response:
        if failure := self._next_planned_failure(request):
            return failure
        errors = ErrorCollector()
        row = deliver(self, name, _query(request, errors), self._find_grant(request), errors)
        headers = {"Content-Type": row.record["mime_type"], "ETag": f'"{row.record["sha256"][:32]}"'}
        return httpx2.Response(200, headers=headers, content=row.content)


def _query(request: httpx2.Request, errors: ErrorCollector) -> dict[str, str]:
    """Return the parameters of a request's query; repeated ones are collected as errors."""
    pairs = parse_qsl(request.url.query.decode(), keep_blank_values=True)
    names = [name for name, _ in pairs]
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            errors.add(BadRequestError(f"expected one value for {name} but received several"))
    return dict(pairs)


def _run_route(request: FakeRequest, route: Route) -> httpx2.Response:
    data = route(request)
    request.errors.raise_all()
    headers = {}
    if route in WITH_LOCATION and isinstance(data, dict):
        headers["Location"] = f"{request.host.base_url}{request.path}/{data['id']}"
    return _response(201 if route in STATUS_201 else 200, {"success": True, "data": data}, headers)


def _error_response(
    error: ImageHostError, status: int, headers: Mapping[str, str] | None = None
) -> httpx2.Response:
    body = {"code": error.code, "message": error.message, "details": error.details}
    challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    return _response(status, {"success": False, "error": body}, {**challenge, **(headers or {})})


def _response(status: int, envelope: Record, headers: Mapping[str, str] | None = None) -> httpx2.Response:
    all_headers = {
        "Content-Type": "application/json",
        "X-Request-Id": f"fake-{secrets.token_hex(4)}",
        "X-RateLimit-Limit": "60",
        "X-RateLimit-Remaining": "59",
        "X-RateLimit-Reset": str(int(time.time()) // 60 * 60 + 60),
        **(headers or {}),
    }
    return httpx2.Response(status, headers=all_headers, content=json.dumps(envelope).encode())
