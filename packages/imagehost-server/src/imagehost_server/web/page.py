"""Handlers of pages: what comes before each, its identity and its limit, and error pages after it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

from litestar import Request, Response
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler

from imagehost_core.authorization import SessionRequirement, authorize
from imagehost_core.errors import (
    ImageHostError,
    MethodNotAllowedError,
    RateLimitError,
    UnauthorizedError,
    UnavailableError,
)
from imagehost_core.models import Account, Principal
from imagehost_server.auth.cookies import session_cookie
from imagehost_server.auth.identity import PRINCIPAL, RequestIdentity
from imagehost_server.http.responses import error_response, refuse, to_litestar
from imagehost_server.web.failures import describe_failure
from imagehost_server.web.forms import MAX_FORM_BYTES, read_form, require_same_origin
from imagehost_server.web.redirects import see_other, sign_in_redirect
from imagehost_server.web.request import HTML, WebRequest, opened_paths, reopened_path

if TYPE_CHECKING:
    from litestar import Litestar
    from litestar.response.base import ASGIResponse
    from litestar.types import Receive, Scope, Send


Handler = Callable[..., Awaitable[Response[Any]]]


def page(
    path: str,
    *,
    method: str = "GET",
    sign_in: bool = False,
    public: bool = False,
    json: bool = False,
    is_multipart: bool = False,
    max_form_bytes: int = MAX_FORM_BYTES,
) -> Callable[[Handler], HTTPRouteHandler]:
    """Return a decorator that turns a function into the handler of a page.

    Requests count against the limit of pages of their IP address. An error becomes a page. The form of a POST
    has been read and its token verified when the function runs.

    Args:
        path: The path, with parameters as Litestar has them.
        method: `GET`, which includes HEAD, or `POST`.
        sign_in: Whether the page requires a session; without one, the client is sent to `/login`.
        public: Whether it shows what is public, so that search engines may list it. It requires a session
            where the gallery does.
        json: Whether programs read it, so that errors are those of the JSON API.
        is_multipart: Whether the function reads the form itself, and verifies its origin and its token.
        max_form_bytes: The most bytes of the form of a POST.
    """
    if method == "GET":
        opened_paths.append(re.compile(re.sub(r"\{\w+:\w+\}", "[^/]+", path)))

    def decorate(function: Handler) -> HTTPRouteHandler:
        @wraps(function)
        async def handle(request: WebRequest, **parameters: Any) -> Response[Any]:
            request.scope["state"]["is_public"] = public
            try:
                await _count(request)
                await _identify(request)
                if method != "GET" and not is_multipart:
                    require_same_origin(request)
                is_closed = sign_in or (public and request.settings.gallery.require_sign_in)
                if is_closed and request.viewer is None:
                    if json:
                        raise UnauthorizedError("expected a session but received none")
                    return sign_in_redirect(request)
                if method == "POST" and not is_multipart:
                    request.scope["state"]["form"] = await read_form(request, max_form_bytes)
                return await function(request, **parameters)
            except Exception as error:
                if json:
                    return to_litestar(error_response(error, request.scope["state"]))
                return error_page(request, error)

        return HTTPRouteHandler(
            path,
            http_method=["GET", "HEAD"] if method == "GET" else [method],  # type: ignore[list-item]
            status_code=200,
            name=f"page {function.__name__}",
            request_class=WebRequest,
            include_in_schema=False,
            media_type=HTML,
            opt={"page": True},
        )(handle)

    return decorate


class MissingPage(Response[Any]):
    """The page for a path or a method without a handler, with the session of the client.

    GET of the path of a form leads to the page with the form: browsers without scripts show that path.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(None)
        self._error = error

    def to_asgi_response(
        self, app: Litestar | None, request: Request[Any, Any, Any], **_options: Any
    ) -> ASGIResponse:
        """Return the page as an application, which identifies the client first."""

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            web = WebRequest(request.scope, receive, send)
            page = await self._respond(web)
            await page.to_asgi_response(app=app, request=web)(scope, receive, send)

        return cast("ASGIResponse", respond)

    async def _respond(self, request: WebRequest) -> Response[Any]:
        try:
            await _count(request)
            await _identify(request)
        except ImageHostError as error:
            return error_page(request, error)
        if isinstance(self._error, MethodNotAllowedError) and request.method == "GET":
            return see_other(request, reopened_path(request.scope["path"]))
        return error_page(request, self._error)


def error_page(request: WebRequest, error: Exception) -> Response[Any]:
    """Return the page for an exception, with the status that the JSON API would give."""
    api_error = refuse(error, request.scope["state"])
    response = request.render(
        "error.html",
        status=api_error.status,
        code=api_error.code,
        explanation=describe_failure(api_error.code, api_error.details, request.texts),
        request_id=request.id,
    )
    response.headers["cache-control"] = "no-store"
    if isinstance(api_error, RateLimitError | UnavailableError) and api_error.retry_after:
        response.headers["retry-after"] = str(api_error.retry_after)
    if isinstance(api_error, MethodNotAllowedError):
        response.headers["allow"] = api_error.allowed
    return response


def accepts_html(request: Request[Account, Principal, State]) -> bool:
    """Return whether a client prefers HTML, as browsers do when they navigate."""
    return "text/html" in request.headers.get("accept", "")


async def _identify(request: WebRequest) -> None:
    token = session_cookie(request.scope["headers"], request.settings.root_path)
    principal, error = None, None
    if token is not None:
        principal = request.host.keys.authenticate_cached(token)
        if principal is None:
            try:
                principal = await request.executors.database.run(request.host.authenticate, token)
            except UnauthorizedError as invalid:
                error = invalid
        if principal is not None and not principal.is_session:
            principal = None
    state = request.scope["state"]
    state[PRINCIPAL] = principal
    is_valid = principal is not None
    state["identity"] = RequestIdentity(
        principal, error, is_valid, token or "" if is_valid else "", str(state["ip_address"])
    )
    if principal is not None:
        request.scope["auth"] = principal
        request.scope["user"] = authorize(principal, SessionRequirement.ONLY)


async def _count(request: WebRequest) -> None:
    """Count a page of the client's IP address, or raise RateLimitError."""
    limiter, ip_address = request.host.rate_limiter, request.identity.ip_address
    decision = limiter.try_admit_page(ip_address)
    if decision is None:
        decision = await request.executors.database.run(limiter.admit_page, ip_address)
    decision.raise_if_refused(request.host.now(), None)
