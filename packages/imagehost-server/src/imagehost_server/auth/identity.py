"""The identity of a request: its token, the rate limits, and the scope that its route requires.

The middleware authenticates and counts every API request before routing. It wraps the JSON API, so that
unknown paths and wrong methods are counted too, and every response has rate limit headers, which
`RequestMiddleware` adds. Requests with a valid token count against its account, all others against the
client's IP address. The delivery route, probes and the API's own description are not counted.

No valid token is 401; a valid token without the required scope is 403. A request that changes something is
checked again by the core, in the transaction of the change: the token may have ended since.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from attrs import evolve, frozen
from litestar.enums import ScopeType
from litestar.utils import normalize_path

from imagehost_core import ImageHost
from imagehost_core.authorization import authorize, require_permission
from imagehost_core.errors import RateLimitError, UnauthorizedError
from imagehost_core.limits import Decision
from imagehost_core.models import Account, Principal
from imagehost_core.tokens import bearer_token
from imagehost_server._executors import Executors
from imagehost_server.auth.cookies import SAFE_METHODS, require_csrf_token, session_cookie
from imagehost_server.http.responses import error_response

if TYPE_CHECKING:
    from litestar import Request
    from litestar.datastructures import State
    from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send


PREFIXES = ("/v1/", "/integrations/")

UPLOAD = ("POST", "/v1/upload")

UNCOUNTED = frozenset({"/v1/openapi.json", "/v1/docs"})

PRINCIPAL = "principal"
"""The member of `scope["state"]` with the principal of the request's token, or `None`, for the access log."""

DOCS_ASSETS = "/v1/docs/assets/"
"""Prefix of the paths of the files that the page `/v1/docs` loads, which are not counted either."""


@frozen(repr=False)
class RequestIdentity:
    """The authenticated identity of a request.

    Attributes:
        principal: The account and scopes of the token; `None` without a valid token.
        auth_error: The reason why there is no principal.
        by_cookie: Whether the token came in a cookie, so that unsafe requests need a CSRF token.
        token: The token, or "".
        ip_address: The client's IP address.
    """

    principal: Principal | None
    auth_error: UnauthorizedError | None
    by_cookie: bool
    token: str
    ip_address: str

    def require_principal(self) -> Principal:
        """Return the principal.

        Raises:
            UnauthorizedError: There is no valid token.
        """
        if self.principal is None:
            assert self.auth_error is not None
            raise self.auth_error
        return self.principal


class IdentityMiddleware:
    """ASGI middleware that authenticates requests and applies the rate limits.

    It stores the `RequestIdentity` in `scope["state"]["identity"]` and the rate limit decision in
    `scope["state"]["decision"]`.

    Args:
        app: The JSON API.
        host: The host that authenticates tokens and counts requests.
        executors: Its `database` runs both.
    """

    def __init__(self, app: ASGIApp, host: ImageHost, executors: Executors) -> None:
        self._app = app
        self._host = host
        self._executors = executors
        self._root_path = host.settings.root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond with 429, or pass the request on."""
        if scope["type"] == ScopeType.HTTP:
            # Litestar routes `/v1//upload/` too: count the path that it routes by.
            if "//" in scope["path"] or scope["path"].endswith("/"):
                scope["path"] = normalize_path(scope["path"])
            if is_counted(scope["path"]):
                state = scope["state"]
                state["identity"], state["decision"] = identity, decision = await self._identify(scope)
                state[PRINCIPAL] = identity.principal
                if not decision.admitted:
                    try:
                        name = None if identity.principal is None else identity.principal.account.name
                        decision.raise_if_refused(self._host.now(), name)
                    except RateLimitError as error:
                        await error_response(error, state).send(send)
                        return
        await self._app(scope, receive, send)

    async def count_rejected(self, scope: HTTPScope, path: str) -> None:
        """Count a request that is rejected before authentication, of its client's IP address.

        Args:
            scope: The request.
            path: Its path without the alias of the prefix.
        """
        if is_counted(path):
            limiter, ip_address = self._host.rate_limiter, str(scope["state"]["ip_address"])
            decision = limiter.try_admit_unauthenticated(ip_address)
            if decision is None:
                decision = await self._executors.database.run(limiter.admit_unauthenticated, ip_address)
            scope["state"]["decision"] = decision

    async def _identify(self, scope: HTTPScope) -> tuple[RequestIdentity, Decision]:
        """Authenticate and count a request: on the event loop if neither has to wait, else in a thread."""
        identity = self.identify_cached(scope["headers"], str(scope["state"]["ip_address"]))
        if identity.principal is None and identity.auth_error is None:
            return await self._executors.database.run(self._authenticate, identity, scope)
        decision = self.try_admit(identity, upload=_is_upload(scope))
        if decision is None:
            decision = await self._executors.database.run(self._admit, identity, scope)
        return identity, decision

    def identify_cached(self, headers: Iterable[tuple[bytes, bytes]], ip_address: str) -> RequestIdentity:
        """Return the identity of a request by what is in memory, which never waits.

        Args:
            headers: Its headers.
            ip_address: The IP address of its client.

        Returns:
            One without a principal and an error if only `ImageHost.authenticate` can tell.
        """
        token, cookie, by_cookie, principal, error = "", None, False, None, None
        try:
            if b"authorization" not in dict(headers):
                cookie = session_cookie(headers, self._root_path)
            by_cookie = cookie is not None
            token = bearer_token(headers) if cookie is None else cookie
        except UnauthorizedError as no_token:
            error = no_token
        else:
            principal = self._host.keys.authenticate_cached(token)
        return RequestIdentity(principal, error, by_cookie, token, ip_address)

    def try_admit(self, identity: RequestIdentity, *, upload: bool = False) -> Decision | None:
        """Decide on a request and count it; `None`, and nothing is counted, if that would have to wait."""
        limiter = self._host.rate_limiter
        if identity.principal is None:
            return limiter.try_admit_unauthenticated(identity.ip_address)
        return limiter.try_admit(identity.principal.account, upload=upload)

    def _authenticate(self, identity: RequestIdentity, scope: HTTPScope) -> tuple[RequestIdentity, Decision]:
        """Authenticate and count a request; blocking, in one call so that it needs one thread switch.

        Args:
            identity: The token and the client of the request.
            scope: The request.
        """
        try:
            identity = evolve(identity, principal=self._host.authenticate(identity.token))
        except UnauthorizedError as error:
            identity = evolve(identity, auth_error=error)
        return identity, self._admit(identity, scope)

    def _admit(self, identity: RequestIdentity, scope: HTTPScope) -> Decision:
        limiter = self._host.rate_limiter
        if identity.principal is None:
            return limiter.admit_unauthenticated(identity.ip_address)
        return limiter.admit(identity.principal.account, upload=_is_upload(scope))


def _is_upload(scope: HTTPScope) -> bool:
    return (scope["method"], scope["path"]) == UPLOAD


def is_counted(path: str) -> bool:
    """Return whether requests with a path count against the rate limits."""
    return f"{path}/".startswith(PREFIXES) and path not in UNCOUNTED and not path.startswith(DOCS_ASSETS)


RATE_LIMIT_HEADERS = {
    "X-RateLimit-Limit": "The limit of the window that is closest to refusal.",
    "X-RateLimit-Remaining": "What remains in that window.",
    "X-RateLimit-Reset": "When that window ends, as a Unix timestamp.",
}
"""The headers of the rate limits, with their meanings."""

_LIMIT, _REMAINING, _RESET = (name.lower().encode() for name in RATE_LIMIT_HEADERS)


def rate_limit_headers(decision: Decision) -> list[tuple[bytes, bytes]]:
    """Return `RATE_LIMIT_HEADERS` with the values of a decision; none if there is no limit."""
    if decision.window is None:
        return []
    return [
        (_LIMIT, b"%d" % decision.limit),
        (_REMAINING, b"%d" % decision.remaining),
        (_RESET, b"%d" % decision.reset),
    ]


REGISTRATION = "POST /v1/accounts"
"""The route that requires no token where the setting `registration` is on."""


async def require_access(connection: Request[Account, Principal, State]) -> None:
    """Raise unless the request's token meets its route's requirement; set the connection's user and auth.

    It is called before any of the body is read. As a guard, Litestar would copy the route handler for it.

    Raises:
        UnauthorizedError: There is no valid token.
        ForbiddenError: The token lacks the scope, is not a session's, or a cookie came without CSRF token.
    """
    operation = connection.scope["route_handler"].opt.get("operation")
    if operation is None or operation.requirement is None:
        return
    identity = connection.scope["state"]["identity"]
    assert isinstance(identity, RequestIdentity)
    if (
        identity.principal is None
        and operation.route == REGISTRATION
        and connection.app.state["settings"].registration
    ):
        return
    principal = identity.require_principal()
    method = str(connection.scope.get("method"))
    if identity.by_cookie:
        root_path = connection.app.state["settings"].root_path
        require_csrf_token(method, connection.scope["headers"], identity.token, root_path)
    require_permission(principal, operation.requirement)
    is_safe = method in SAFE_METHODS
    connection.scope["auth"] = principal
    connection.scope["user"] = principal.account if is_safe else authorize(principal, operation.requirement)
