"""Handlers of pages: identity, limits, templates, headers, forms and error pages."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from datetime import datetime, tzinfo
from functools import wraps
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs, quote, urlsplit

from litestar import Request, Response
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.response import Redirect, Template

from imagehost_core.authorization import SessionRequirement, authorize
from imagehost_core.errors import (
    BadRequestError,
    ForbiddenError,
    ImageHostError,
    MethodNotAllowedError,
    RateLimitError,
    UnauthorizedError,
    UnavailableError,
)
from imagehost_core.models import Account, Principal, Role
from imagehost_core.uploads import MAX_DESCRIPTION
from imagehost_server.auth.cookies import cookie_value, csrf_token, session_cookie
from imagehost_server.auth.identity import PRINCIPAL, RequestIdentity
from imagehost_server.http.body import read_body, unsupported_media_type
from imagehost_server.http.conditional import http_date, is_not_modified
from imagehost_server.http.responses import (
    RawResponse,
    error_response,
    refuse,
    to_litestar,
)
from imagehost_server.routes.handler import ApiRequest
from imagehost_server.web.assets import asset_path, logo
from imagehost_server.web.catalog import Texts, choose_language, texts_of
from imagehost_server.web.failures import describe_failure
from imagehost_server.web.local_time import ZONE_COOKIE, LocalTime, find_zone

if TYPE_CHECKING:
    from litestar import Litestar
    from litestar.response.base import ASGIResponse
    from litestar.types import Receive, Scope, Send

HTML = "text/html"
"""The content type of pages."""

OUTCOME_PARAMETER = "done"
"""The query parameter of a page that a form leads to: what was done, one of `OUTCOMES`."""

OUTCOMES = ("saved", "deleted", "password_changed", "event_sent", "signing_secret_renewed")
"""The messages that a page shows after a form."""

Handler = Callable[..., Awaitable[Response[Any]]]


class WebRequest(ApiRequest):
    """A request for a page."""

    @property
    def viewer(self) -> Account | None:
        """The account of the session, or `None`."""
        principal = self.identity.principal
        return None if principal is None else principal.account

    @property
    def identity(self) -> RequestIdentity:
        """The identity of the session; without one, that of the IP address."""
        state = self.scope["state"]
        fallback = RequestIdentity(None, None, by_cookie=False, token="", ip_address=str(state["ip_address"]))
        identity = state.setdefault("identity", fallback)
        assert isinstance(identity, RequestIdentity)
        return identity

    @property
    def is_public(self) -> bool:
        """Whether the page shows what is public."""
        return self.scope["state"].get("is_public") is True

    @property
    def texts(self) -> Texts:
        """The texts in the language that the client prefers."""
        return texts_of(choose_language(self.headers.get("accept-language", "")))

    @property
    def zone(self) -> tzinfo:
        """The time zone of the browser, or UTC if it has named none."""
        return find_zone(cookie_value(self.scope["headers"], ZONE_COOKIE))

    @property
    def field_lists(self) -> dict[str, list[str]]:
        """All values of each field of the form that was sent, in requests of the method POST."""
        return cast("dict[str, list[str]]", self.scope["state"]["form"])

    @property
    def fields(self) -> dict[str, str]:
        """The fields of the form that was sent; of a repeated one, the last value."""
        return {name: values[-1] for name, values in self.field_lists.items()}

    def render(
        self,
        template: str,
        /,
        *,
        status: int = 200,
        failure: ImageHostError | None = None,
        **values: object,
    ) -> Template:
        """Return a page.

        Args:
            template: The name of its template.
            status: The HTTP status, unless there is a failure.
            failure: The error of a form, which the page shows; its status is that of the page.
            values: The values that the template uses, beside those of every page.
        """
        status = failure.status if failure else status
        web = self.settings.web
        return Template(
            template,
            context={**self._common_values(status, failure), **values},
            status_code=status,
            media_type=HTML,
            headers=page_headers(
                self.settings.delivery_url, self.viewer, public=self.is_public, listed=web.listed
            ),
        )

    def render_text(self, template: str, /, **values: object) -> str:
        """Return the text of a template, with the values of every page."""
        engine = self.app.template_engine
        assert engine is not None
        return str(engine.get_template(template).render(**self._common_values(200, None), **values))

    def _common_values(self, status: int, failure: ImageHostError | None) -> dict[str, object]:
        web, identity, viewer = self.settings.web, self.identity, self.viewer
        root = self.settings.root_path
        outcome = self.query_params.get(OUTCOME_PARAMETER, "")
        return {
            "address": root + reopened_path(self.scope["path"]) if self.method == "POST" else "",
            "api": urlsplit(self.settings.base_url).path,
            "asset": lambda name: root + asset_path(name, web),
            "csrf": csrf_token(identity.token) if identity.by_cookie else "",
            "failure": describe_failure(failure.code, failure.details, self.texts) if failure else "",
            "max_description": MAX_DESCRIPTION,
            "local": LocalTime(self.zone, self.texts),
            "logo": root + logo(web).path,
            "navigation": navigation(viewer),
            "outcome": outcome if outcome in OUTCOMES else "",
            "path": self.scope["path"],
            "root": root,
            "site": web.site_name,
            "status": status,
            "t": self.texts,
            "viewer": viewer,
        }


def render_for_programs(
    request: WebRequest, template: str, media_type: str, last_modified: datetime, **values: object
) -> Response[Any]:
    """Return what `for_programs` does, of a template."""
    body = request.render_text(template, **values).encode()
    return for_programs(request, body, media_type, last_modified)


def for_programs(request: WebRequest, body: bytes, media_type: str, last_modified: datetime) -> Response[Any]:
    """Return what a program polls, such as a feed, or 304 if the program has it.

    Only `If-None-Match` is evaluated: an image that was deleted changes the body, but no time in it.

    Args:
        request: The request.
        body: The representation; the entity tag is its hash.
        media_type: Its media type.
        last_modified: The last change of what it shows.
    """
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    web = request.settings.web
    headers = page_headers(
        request.settings.delivery_url, request.viewer, public=request.is_public, listed=web.listed
    )
    fields = {"etag": etag, "last-modified": http_date(last_modified), **headers}
    if is_not_modified(etag, last_modified, request.headers.get("if-none-match"), None):
        return to_litestar(RawResponse(304, b"", tuple(fields.items())))
    return to_litestar(RawResponse(200, body, (("content-type", media_type), *fields.items())))


def page(
    path: str,
    *,
    method: str = "GET",
    sign_in: bool = False,
    public: bool = False,
    json: bool = False,
    is_multipart: bool = False,
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
    """
    if method == "GET":
        _opened.append(re.compile(re.sub(r"\{\w+:\w+\}", "[^/]+", path)))

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
                    request.scope["state"]["form"] = await read_form(request)
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


_opened: list[re.Pattern[str]] = []
"""The paths of the pages that GET returns."""


def reopened_path(path: str) -> str:
    """Return the path of the page that shows what a form has changed: its own, or the nearest above it."""
    while path and not any(pattern.fullmatch(path) for pattern in _opened):
        path = path.rpartition("/")[0]
    return path or "/"


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


def navigation(viewer: Account | None) -> tuple[tuple[str, str], ...]:
    """Return the names and paths of the pages that the header of every page links to."""
    if viewer is None:
        return _PUBLIC_PAGES
    operator = _OPERATOR_PAGES if viewer.role is Role.OPERATOR else ()
    return (*_PUBLIC_PAGES, *_ACCOUNT_PAGES, *operator)


_PUBLIC_PAGES = (("gallery", "/"),)

_ACCOUNT_PAGES = tuple((name, f"/{name}") for name in ("upload", "images", "albums", "settings"))

_OPERATOR_PAGES = (("admin", "/admin"),)


def origin_of(url: str) -> str:
    """Return the scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def page_headers(
    delivery_url: str, viewer: Account | None, *, public: bool = False, listed: bool = False
) -> dict[str, str]:
    """Return the headers of every page.

    Args:
        delivery_url: The base URL of images, which may have another origin.
        viewer: The account that is signed in, whose pages no cache may store.
        public: Whether it is a public page; no cache may store the others.
        listed: Whether search engines may list it if it is public.
    """
    images = origin_of(delivery_url)
    policy = (
        f"default-src 'none'; img-src 'self' {images} data: blob:; script-src 'self'; style-src 'self'; "
        f"connect-src 'self' {images}; manifest-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    headers = {
        "content-security-policy": policy,
        "cache-control": "no-cache" if public and viewer is None else "no-store",
        "vary": "Accept-Language, Cookie",
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
        "cross-origin-opener-policy": "same-origin",
    }
    return headers if public and listed else {**headers, "x-robots-tag": "noindex"}


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


def require_same_origin(request: WebRequest) -> None:
    """Raise ForbiddenError if another site has caused an unsafe request, by `Sec-Fetch-Site` or `Origin`.

    It protects the forms that need no session, such as that of signing in; the others have a CSRF token too.
    """
    origin = origin_of(request.settings.base_url)
    site = request.headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none") or request.headers.get("origin", origin) != origin:
        raise ForbiddenError("expected a form of this site but another site has sent the request")


def sign_in_redirect(request: WebRequest) -> Response[Any]:
    """Return the redirect to the sign-in page, which leads back.

    A browser does not send the session cookie, which is `SameSite=Strict`, with a navigation from another
    site. So such a request is repeated by a page of this site first.
    """
    if request.headers.get("sec-fetch-site") == "cross-site" and request.method == "GET":
        return request.render("reload.html")
    path = quote(request.scope["path"])
    query = request.scope["query_string"].decode("latin-1")
    target = f"{path}?{query}" if query else path
    if request.method != "GET":
        target = _path_of_form(request) or path
    return see_other(request, f"/login?next={quote(target, safe='/')}")


def _path_of_form(request: WebRequest) -> str:
    """Return the path of the page that has sent a form, whose script restores the text, or ""."""
    page, site = request.headers.get("referer", ""), request.settings.site_url
    return safe_path(page.removeprefix(site)) if page.startswith(f"{site}/") else ""


def see_other(request: WebRequest, path: str, outcome: str = "") -> Response[Any]:
    """Return a redirect to a page of this site, to be requested with GET (RFC 9110, section 15.4.4).

    Args:
        request: The request.
        path: The path of the page below the root path, without a query if there is an outcome.
        outcome: The message that the page shows: one of `OUTCOMES`, or "".
    """
    target = request.settings.root_path + (f"{path}?{OUTCOME_PARAMETER}={outcome}" if outcome else path)
    return cast("Response[Any]", Redirect(target, status_code=303, headers={"cache-control": "no-store"}))


FORM = "application/x-www-form-urlencoded"

MAX_FORM_BYTES = 64 * 2**10

MAX_FIELDS = 200

CSRF_FIELD = "csrf_token"


async def read_form(request: WebRequest) -> dict[str, list[str]]:
    """Return all values of each field of a form.

    Raises:
        UnsupportedMediaTypeError: The body is no URL-encoded form.
        PayloadTooLargeError: It has more than 64 KiB.
        BadRequestError: It is malformed.
        ForbiddenError: The client is signed in, and the form lacks the CSRF token of the session.
        UnauthorizedError: The session has ended meanwhile.
    """
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != FORM:
        raise unsupported_media_type(FORM, content_type)
    declared = request.headers.get("content-length")
    body = await read_body(request.receive, MAX_FORM_BYTES, request.settings.http, declared)
    try:
        fields = parse_qs(
            body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError as error:
        raise BadRequestError("expected a URL-encoded form in UTF-8 but received another body") from error
    require_form_token(request, fields[CSRF_FIELD][-1] if CSRF_FIELD in fields else None)
    await request.require_valid_token()
    return fields


def require_form_token(request: WebRequest, received: str | None) -> None:
    """Raise ForbiddenError unless a form has the CSRF token of the session; without a session it needs none.

    Args:
        request: The request.
        received: The value of the form's field, or `None`.
    """
    if not request.identity.by_cookie:
        return
    expected = csrf_token(request.identity.token)
    if received is None or not compare_digest(received.encode(), expected.encode()):
        raise ForbiddenError("expected the token of this session in the form but received another")


def safe_path(path: str | None) -> str:
    """Return the path to continue at after signing in: a path of this site, or `/`.

    After the first slash, a second one or a backslash would make it another site.
    """
    is_safe = path is not None and path.startswith("/") and path.isascii() and path.isprintable()
    return path if path and is_safe and path[1:2] not in ("/", "\\") else "/"
