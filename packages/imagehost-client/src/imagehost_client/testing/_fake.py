"""`FakeImageHost`: an in-memory host that is an httpx2 transport."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

import httpx2

from imagehost_client._doubles import activate, deactivate
from imagehost_client.aclient import AsyncClient
from imagehost_client.client import Client
from imagehost_client.errors import (
    BY_STATUS,
    BadRequestError,
    ConflictError,
    ImageHostError,
    MethodNotAllowedError,
    NotFoundError,
    RateLimitError,
    ServerError,
    UnauthorizedError,
    UnavailableError,
)
from imagehost_client.testing import _lsky
from imagehost_client.testing._accounts import create_account
from imagehost_client.testing._delivery import deliver, image_response
from imagehost_client.testing._errors import ErrorCollector
from imagehost_client.testing._request import FakeRequest, Route, require_scope
from imagehost_client.testing._responses import (
    PlannedFailure,
    envelope_response,
    error_response,
    rate_headers,
)
from imagehost_client.testing._routes import (
    IDEMPOTENT,
    STATUS_201,
    WITH_LOCATION,
    allowed_methods,
    find_route,
)
from imagehost_client.testing._state import HostState
from imagehost_client.testing._store import CLOCK, TokenGrant, now

if TYPE_CHECKING:
    from typing import Self

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
        limits: The rate limits of every account, such as `{"uploads_per_minute": 10}`, unless it has its own;
            none by default.
        quota_bytes: The quota of every account, unless it has its own; none by default.

    Attributes:
        requests: Method and path of every API request.
        events: The events of all changes, as webhooks would receive them.
        clock: The clock of the host and its clients; retries and pacing advance it instead of waiting.
        accounts: A session token for each account, by the names that `client` takes.
        passwords: Passwords by account, where they differ from `secret`.
    """

    def __init__(
        self,
        *,
        base_url: str = "https://imagehost.test/v1",
        cdn_url: str = "https://imagehost.test/img",
        registration: bool = False,
        limits: Mapping[str, int] | None = None,
        quota_bytes: int | None = None,
    ) -> None:
        super().__init__(
            base_url=base_url,
            cdn_url=cdn_url,
            registration=registration,
            limits=limits or {},
            quota_bytes=quota_bytes,
        )
        self.requests: list[tuple[str, str]] = []
        self._failures: list[PlannedFailure] = []
        self._fingerprints: dict[tuple[str, str], object] = {}
        self._responses: dict[tuple[str, str], httpx2.Response] = {}
        self._lock = threading.RLock()
        self.add_account("admin", role="operator")

    def client(self, account: str = "admin", *, max_retries: int = 3) -> Client:
        """Return a client of this host, authenticated as `account`."""
        token = self.accounts[account]
        with self.patch():
            return Client(token=token, max_retries=max_retries)

    def async_client(self, account: str = "admin", *, max_retries: int = 3) -> AsyncClient:
        """Return an async client of this host, authenticated as `account`."""
        token = self.accounts[account]
        with self.patch():
            return AsyncClient(token=token, max_retries=max_retries)

    @contextmanager
    def patch(self) -> Iterator[Self]:
        """Let all clients that are made in the block, in any module and thread, be clients of this host.

        Their `base_url`, `cdn_url` and `http_client` are replaced, as is a token that is not one of this
        host: by that of `admin`. A client with a `transport` is left alone.
        """
        activate(self)
        try:
            yield self
        finally:
            deactivate(self)

    def token_for(self, token: str | None) -> str:
        """Return the token of a client that a program has given another one, or none."""
        return token if token in self.tokens else self.accounts["admin"]

    def now(self) -> datetime:
        """Return the current time of the host's clock."""
        return self.clock.now()

    def monotonic(self) -> float:
        """Return the time of a clock that is not set, in seconds."""
        return self.clock.monotonic()

    def sleep(self, seconds: float) -> None:
        """Advance the host's clock."""
        self.clock.advance(seconds)

    def fail(
        self,
        status: int,
        *,
        times: int = 1,
        retry_after: int | None = None,
        method: str | None = None,
        path: str = "*",
    ) -> None:
        """Make the next requests fail with an error response.

        Args:
            status: The HTTP status.
            times: The number of requests.
            retry_after: Seconds for the `Retry-After` header; `None` sends none.
            method: The HTTP method of these requests; any by default.
            path: A pattern of their paths, such as `/upload`, `/images/*` or `/img/*`; any by default.
        """
        kind = BY_STATUS.get(status, ServerError)
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        response = error_response(kind("failure planned by the test"), status, headers)
        self._failures.append(PlannedFailure(times, method, path, response))

    def drop(self, *, times: int = 1, method: str | None = None, path: str = "*") -> None:
        """Make the next requests fail to connect.

        Args:
            times: The number of requests.
            method: The HTTP method of these requests; any by default.
            path: A pattern of their paths, as for `fail`.
        """
        self._failures.append(PlannedFailure(times, method, path))

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
        with self._lock, self._as_current_clock():
            url = str(request.url.copy_with(query=None))
            canonical_url = self._canonical_url(url)
            if canonical_url.startswith(f"{self.base_url}/") and canonical_url != url:
                response = self._respond(request, canonical_url, is_lsky=True)
                headers = {name: text for name, text in response.headers.items() if name != "content-length"}
                content = json.dumps(_lsky.extend_envelope(json.loads(response.content))).encode()
                return httpx2.Response(response.status_code, headers=headers, content=content)
            return self._respond(request, canonical_url)

    @contextmanager
    def _as_current_clock(self) -> Iterator[None]:
        previous = CLOCK.set(self.clock)
        try:
            yield
        finally:
            CLOCK.reset(previous)

    def _respond(self, request: httpx2.Request, url: str, *, is_lsky: bool = False) -> httpx2.Response:
        try:
            if url.startswith(f"{self.cdn_url}/"):
                return self._deliver_image(request, url.removeprefix(f"{self.cdn_url}/"))
            return self._handle_api(request, url, is_lsky=is_lsky)
        except MethodNotAllowedError as error:
            is_image = url.startswith(f"{self.cdn_url}/")
            allowed = (
                "GET, HEAD, OPTIONS"
                if is_image
                else ", ".join(allowed_methods(url.removeprefix(self.base_url)))
            )
            return error_response(error, 405, {"Allow": allowed})
        except RateLimitError as error:
            window = error.rate_limit
            assert window is not None
            headers = rate_headers(window.limit, window.remaining, window.reset)
            return error_response(error, 429, {"Retry-After": str(error.retry_after), **headers})
        except ImageHostError as error:
            return error_response(error, STATUSES.get(type(error), 500))

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
        if failure := self._next_planned_failure(request, path):
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
        if window := self.count_request(parsed.grant.account, upload=path == "/upload"):
            parsed.windows.append(window)
        key = request.headers.get("idempotency-key")
        if key is None or route not in IDEMPOTENT:
            response = _run_route(parsed, route)
        else:
            response = self._run_idempotent(parsed, route, key)
        window = min(parsed.windows, key=lambda window: window["remaining"], default=None)
        if window is not None:
            reset = datetime.fromisoformat(window["reset"])
            response.headers.update(rate_headers(window["limit"], window["remaining"], reset))
        return response

    def _next_planned_failure(self, request: httpx2.Request, path: str) -> httpx2.Response | None:
        """Return the error response that a test has planned for this request, or `None`.

        Raises:
            httpx2.ConnectError: The test has planned a connection failure.
        """
        failure = next((one for one in self._failures if one.matches(request.method, path)), None)
        if failure is None:
            return None
        failure.times -= 1
        if failure.response is None:
            raise httpx2.ConnectError("failure planned by the test", request=request)
        return failure.response

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
        if key["expires_at"] is not None and datetime.fromisoformat(key["expires_at"]) <= self.clock.now():
            return None
        key["last_used_at"] = now()
        return grant

    def _deliver_image(self, request: httpx2.Request, name: str) -> httpx2.Response:
        if failure := self._next_planned_failure(request, f"/img/{name}"):
            return failure
        errors = ErrorCollector()
        row = deliver(self, name, _query(request, errors), self._find_grant(request), errors)
        return image_response(request, row)


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
    return envelope_response(201 if route in STATUS_201 else 200, {"success": True, "data": data}, headers)
