"""Who is asking, and how much they may ask: settled for each request before its route is looked up.

It stands around the JSON interface, so that every answer of it, also to unknown addresses and wrong
methods, is counted and tells what is left. Contract 9: requests with a good token count for its account,
all others for the client's address; *the processing route does not count*, and neither does what tells
of the service itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen
from litestar.enums import ScopeType
from litestar.utils import normalize_path

from imagehost_core import ImageHost
from imagehost_core.errors import RateLimitError, UnauthorizedError
from imagehost_core.limits import Decision
from imagehost_core.models import Principal
from imagehost_server._executors import Executors
from imagehost_server.auth.bearer import bearer_token
from imagehost_server.auth.cookies import session_cookie
from imagehost_server.http.responses import failure

if TYPE_CHECKING:
    from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

PREFIX = "/v1/"
UPLOAD = ("POST", "/v1/upload")
UNCOUNTED = frozenset({"/v1/openapi.json", "/v1/docs"})


@frozen(repr=False)
class RequestIdentity:
    """Who is asking.

    Attributes:
        principal: Whom the token stands for, or `None`.
        refusal: Why there is none.
        by_cookie: Whether the token came in a cookie, which a browser sends unasked.
        token: The token itself, or "".
        address: The client's address.
    """

    principal: Principal | None
    auth_error: UnauthorizedError | None
    by_cookie: bool
    token: str
    ip_address: str


class IdentityMiddleware:
    """An ASGI application around the JSON interface.

    Args:
        app: The interface.
        host: Knows tokens and counts requests.
        executors: Where it is asked.
    """

    def __init__(self, app: ASGIApp, host: ImageHost, executors: Executors) -> None:
        self._app = app
        self._host = host
        self._executors = executors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 429, or pass the request on."""
        if scope["type"] == ScopeType.HTTP:
            # The framework finds `/v1//upload/` too: what is counted must be what is found.
            scope["path"] = normalize_path(scope["path"])
            if _is_counted(scope["path"]):
                await self._counted(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _counted(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        state = scope["state"]
        state["caller"], state["decision"] = await self._executors.database.run(self._identify, scope)
        telling = _RateLimitHeaders(send, scope)
        try:
            state["decision"].raise_if_refused(self._host.now())
        except RateLimitError as error:
            await failure(error, str(state["request_id"])).send(telling)
        else:
            await self._app(scope, receive, telling)

    def _identify(self, scope: HTTPScope) -> tuple[RequestIdentity, Decision]:
        """Find out who is asking, and count the request. Runs in a thread, in one go."""
        address = str(scope["state"]["address"])
        token, by_cookie, refusal, principal = "", False, None, None
        try:
            cookie = session_cookie(scope["headers"])
            by_cookie = cookie is not None and not _has_authorization(scope)
            token = cookie if by_cookie and cookie is not None else bearer_token(scope["headers"])
            principal = self._host.authenticate(token)
        except UnauthorizedError as error:
            refusal = error
        if principal is None:
            decision = self._host.rate_limiter.admit_address(address)
        else:
            upload = (scope["method"], scope["path"]) == UPLOAD
            decision = self._host.rate_limiter.admit(principal.account, upload=upload)
        return RequestIdentity(principal, refusal, by_cookie, token, address), decision


def _is_counted(path: str) -> bool:
    return f"{path}/".startswith(PREFIX) and path not in UNCOUNTED


def _has_authorization(scope: HTTPScope) -> bool:
    return any(name == b"authorization" for name, _ in scope["headers"])


class _RateLimitHeaders:
    """The sending side of a request: adds what is left in the window that will refuse first."""

    def __init__(self, send: Send, scope: HTTPScope) -> None:
        self._send = send
        self._scope = scope

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            # Looked up now: signing in has windows of its own, which may be the tighter ones.
            decision = self._scope["state"]["decision"]
            message["headers"] = [*message["headers"], *rate_limit_headers(decision)]
        await self._send(message)


def rate_limit_headers(decision: Decision) -> list[tuple[bytes, bytes]]:
    """Return the rate limit headers of SPEC 8; none where there is no limit."""
    if decision.window is None:
        return []
    return [
        (b"x-ratelimit-limit", str(decision.limit).encode()),
        (b"x-ratelimit-remaining", str(decision.remaining).encode()),
        (b"x-ratelimit-reset", str(decision.reset).encode()),
    ]
