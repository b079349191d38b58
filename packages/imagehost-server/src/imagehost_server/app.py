"""The ASGI application: security middleware, delivery route and JSON API, put together."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from attrs import frozen
from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler

from imagehost_core import ImageHost
from imagehost_core.delivery_responses import SHARED_HEADERS
from imagehost_core.models import Account, Principal
from imagehost_core.settings import SQLITE
from imagehost_server._executors import Executors
from imagehost_server.auth.identity import PREFIXES, IdentityMiddleware, require_access
from imagehost_server.background import running_sender
from imagehost_server.background.load_monitor import monitored_load
from imagehost_server.background.periodic import periodic_cleanup, periodic_log
from imagehost_server.background.purge_sender import running_purge_sender
from imagehost_server.background.webhook_sender import IDLE_POLL_SECONDS
from imagehost_server.delivery.fast_path import FastPath
from imagehost_server.delivery.route import DeliveryRoute
from imagehost_server.http.client_address import without_root
from imagehost_server.http.response_body import Spool
from imagehost_server.http.responses import RawResponse, error_response, routing_error, to_litestar
from imagehost_server.metrics import Recorder
from imagehost_server.middleware.connections import ConnectionTable
from imagehost_server.middleware.cors import (
    CorsPolicy,
    RawHeaders,
    is_preflight,
)
from imagehost_server.middleware.header_checks import PROBE_PATHS
from imagehost_server.middleware.lsky import LskyMiddleware
from imagehost_server.middleware.requests import RequestMiddleware
from imagehost_server.openapi.docs_page import ApiDescription, docs_asset
from imagehost_server.routes import ROUTES
from imagehost_server.routes.handler import ApiRequest, RouteHandler
from imagehost_server.routes.reads import Read, Reads
from imagehost_server.routes.service import ReadinessMonitor
from imagehost_server.settings import HttpSettings, ServerSettings
from imagehost_server.tracing import instrument
from imagehost_server.web.page import MissingPage, accepts_html
from imagehost_server.web.router import HANDLERS, template_config

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

API_ALIAS, API_PREFIX = "/api/v1/", "/v1/"
"""Both prefixes serve the same routes."""

DELIVERY_PREFIXES = ("/img/", "/v1/img/")
"""Both prefixes serve the same images, beside the path of `cdn_url`."""

_IMAGE_AT_ROOT = re.compile(r"/[0-9A-Za-z]{16}(\.[a-z]+)?", re.ASCII)


@frozen
class Application:
    """The ASGI application that serves a host.

    Attributes:
        middleware: The outermost middleware.
        security: The security middleware, with the access log, for `HttpProtocol`.
        fast_path: Responds to some requests without ASGI, for `HttpProtocol`; `None` where it is off.
        root_path: The path below which the site is, which a proxy may leave in the path of a request.
        connections: The open connections, for `HttpProtocol`.
        http: Limits of connections, for `HttpProtocol`.
        readiness: The checks of `/readyz`.
    """

    middleware: ASGIApp
    security: RequestMiddleware
    fast_path: FastPath[Read] | None
    root_path: str
    connections: ConnectionTable
    http: HttpSettings
    readiness: ReadinessMonitor

    def drain(self) -> None:
        """Tell load balancers that this process is about to stop, and close connections after responses."""
        self.readiness.is_draining = self.connections.is_draining = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request or the lifespan."""
        if self.root_path and scope["type"] == ScopeType.HTTP:
            scope["path"] = without_root(scope["path"], self.root_path)
            scope["raw_path"] = scope["path"].encode()
        await self.middleware(scope, receive, send)


def create_app(host: ImageHost, settings: ServerSettings, recorder: Recorder | None = None) -> Application:
    """Return the ASGI application that serves a host; it closes the host when its lifespan ends.

    Args:
        host: An open host.
        settings: The settings that it was opened with.
        recorder: Counts requests, and the measurements of a host that was opened with its `observe`. By
            default the application has its own, and no measurements are counted.
    """
    recorder = recorder or Recorder()
    executors = Executors(settings.rendering, is_database_local=settings.database == SQLITE)
    cors_policy = CorsPolicy(settings.cors_origins)
    json_api = create_api(host, settings, executors, recorder)
    identity = IdentityMiddleware(json_api, host, executors)
    delivery = DeliveryRoute(host, executors, recorder, listed=settings.web.listed)
    root_path = settings.root_path
    prefixes = delivery_prefixes(settings.delivery_url, root_path)
    dispatcher = Dispatcher(identity, delivery, prefixes, cors_policy)

    def cors_headers(status: int, path: str, headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
        """Return the CORS headers of a response; the delivery route sets those of images itself."""
        if dispatcher.delivery_path(path) is None:
            return cors_policy.response_headers(path, headers)
        return SHARED_HEADERS if status >= 400 else []

    spool = Spool(host.uploads.stage, executors)
    security = RequestMiddleware(
        dispatcher,
        cors_headers=cors_headers,
        trusted_proxies=settings.trusted_proxies,
        log_access=settings.log.access,
        hsts_seconds=settings.server.hsts_seconds,
        max_concurrent_requests_per_client=settings.http.max_concurrent_requests_per_client,
        count_rejected=lambda scope: identity.count_rejected(scope, canonical_path(scope["path"])),
        recorder=recorder,
        spool=spool,
    )
    reads = Reads(host, settings, executors, identity)
    fast_path = FastPath(host, delivery.responses, security, dispatcher.delivery_path, reads)
    untraced = LskyMiddleware(security, spool)
    middleware = instrument(untraced)
    http = settings.http
    connections = ConnectionTable(
        http.max_connections, http.max_connections_per_client, security.trusted, recorder.connections
    )
    return Application(
        middleware=middleware,
        security=security,
        # The fast path makes no spans.
        fast_path=fast_path if http.fast_path and middleware is untraced else None,
        root_path=root_path,
        connections=connections,
        http=http,
        readiness=json_api.state["readiness"],
    )


def create_api(
    host: ImageHost, settings: ServerSettings, executors: Executors, recorder: Recorder | None = None
) -> Litestar:
    """Return the JSON API alone."""
    counted = recorder or Recorder()
    pages = ApiDescription(
        ROUTES, settings.base_url, settings.delivery_url, registration=settings.registration
    )

    # Each server process has senders; together they poll as often as one.
    poll_seconds = IDLE_POLL_SECONDS * settings.server.workers

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        try:
            async with (
                running_sender(host, poll_seconds) if settings.webhooks.send_in_server else nullcontext(),
                running_purge_sender(host, poll_seconds),
                periodic_cleanup(host, on_removed=counted.orphans_removed),
                periodic_log(host.path),
                monitored_load(executors, counted),
            ):
                yield
        finally:
            # Not in a thread of `executors`: all of them may be waiting for a database.
            await asyncio.to_thread(host.close)
            counted.fold()

    handlers = [*ROUTES, docs_asset, *(HANDLERS if settings.web.enabled else ())]
    return Litestar(
        # Before the others: Litestar adds handlers of its own to paths without one.
        [*options_handlers(handlers), *handlers],
        before_request=require_access,
        exception_handlers={Exception: handle_exception},
        lifespan=[lifespan],
        logging_config=None,
        openapi_config=None,
        request_class=ApiRequest,
        # `http.body` and `http.multipart` limit the size of bodies.
        request_max_body_size=None,
        state=State(
            {
                "host": host,
                "settings": settings,
                "executors": executors,
                "recorder": counted,
                "readiness": ReadinessMonitor(host, executors.probes),
                "api_description": pages,
            }
        ),
        template_config=template_config(),
        debug=False,
    )


def options_handlers(handlers: Iterable[HTTPRouteHandler]) -> list[HTTPRouteHandler]:
    """Return the handlers of OPTIONS, which name every method of a path, as the error 405 does.

    Litestar's own name those of the first handler of a path.
    """
    methods: dict[str, set[str]] = {}
    for handler in handlers:
        for path in handler.paths:
            methods.setdefault(path, {"OPTIONS"}).update(handler.http_methods)
    return [_options_handler(path, ", ".join(sorted(names))) for path, names in methods.items()]


def _options_handler(path: str, allowed: str) -> HTTPRouteHandler:
    response = RawResponse(204, b"", (("allow", allowed), ("cache-control", "no-store")))

    async def options() -> Response[Any]:
        return to_litestar(response)

    handler = RouteHandler(path, http_method="OPTIONS", name=f"options {path}", include_in_schema=False)
    return handler(options)


def delivery_prefixes(delivery_url: str, root_path: str) -> tuple[str, ...]:
    """Return the path prefixes under which images are served: `DELIVERY_PREFIXES`, and that of `cdn_url`."""
    configured = without_root(urlsplit(delivery_url).path + "/", root_path)
    return tuple(dict.fromkeys((*DELIVERY_PREFIXES, configured)))


def canonical_path(path: str) -> str:
    """Return a path with the prefix of the API in place of its alias."""
    return API_PREFIX + path[len(API_ALIAS) :] if path.startswith(API_ALIAS) else path


class Dispatcher:
    """An ASGI application that passes a request to the delivery route or to the JSON API, by its path.

    It responds to CORS preflight requests for any other path, which are neither authenticated nor counted.

    Args:
        api: The JSON API.
        delivery: The delivery route.
        prefixes: Path prefixes of the delivery route. `/` stands for a `cdn_url` without a path: then a path
            that looks like an image's belongs to the delivery route.
        cors_policy: The policy of the JSON API.
    """

    def __init__(
        self, api: ASGIApp, delivery: DeliveryRoute, prefixes: tuple[str, ...], cors_policy: CorsPolicy
    ) -> None:
        self._api = api
        self._cors_policy = cors_policy
        self._delivery = delivery
        self._prefixes = tuple(prefix for prefix in prefixes if prefix != "/")
        self._serves_root = "/" in prefixes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != ScopeType.HTTP:
            await self._api(scope, receive, send)
            return
        path = canonical_path(scope["path"])
        if path != scope["path"]:
            scope["path"], scope["raw_path"] = path, path.encode()
        image_path = self.delivery_path(path)
        if image_path is not None:
            await self._delivery(image_path, scope, receive, send)
        elif is_preflight(scope):
            await self._cors_policy.preflight_response(path).send(send)
        else:
            await self._api(scope, receive, send)

    def delivery_path(self, path: str) -> str | None:
        """Return what follows the prefix of the delivery route, or `None` for a path of the JSON API."""
        path = canonical_path(path)
        if path.startswith(self._prefixes):
            return next(path[len(prefix) :] for prefix in self._prefixes if path.startswith(prefix))
        return path[1:] if self._serves_root and _IMAGE_AT_ROOT.fullmatch(path) else None


def is_page(request: Request[Account, Principal, State]) -> bool:
    """Return whether a request without a route is a browser's for a page, which gets an error as a page."""
    is_api = f"{request.scope['path']}/".startswith(PREFIXES) or request.scope["path"] in PROBE_PATHS
    return request.app.state["settings"].web.enabled and not is_api and accepts_html(request)


def handle_exception(request: Request[Account, Principal, State], error: Exception) -> Response[Any]:
    """Return the error response for an exception that a handler raised, or for a path without a route."""
    error = routing_error(error, request.method, request.scope["path"])
    if is_page(request):
        return MissingPage(error)
    return to_litestar(error_response(error, request.scope["state"]))
