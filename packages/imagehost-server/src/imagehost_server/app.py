"""The application: the guard, the processing route and the JSON interface, put together."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from attrs import frozen
from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.enums import ScopeType
from litestar.handlers import HTTPRouteHandler

from imagehost_core import ImageHost
from imagehost_core.models import Account, Principal
from imagehost_server._executors import Executors
from imagehost_server.api.operation import Operation
from imagehost_server.api.request import ApiRequest, to_litestar
from imagehost_server.auth.identity import IdentityMiddleware
from imagehost_server.auth.scopes import require_access
from imagehost_server.background import running_sender
from imagehost_server.background.cleanup import periodic_cleanup
from imagehost_server.delivery.fast_path import FastPath
from imagehost_server.delivery.route import DeliveryRoute
from imagehost_server.http.responses import failure
from imagehost_server.middleware.security import SecurityMiddleware
from imagehost_server.openapi.html import build_description
from imagehost_server.routes import ROUTES
from imagehost_server.routes.account import create_account
from imagehost_server.settings import HttpSettings, ServerSettings

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

ALIAS, BASE = "/api/v1/", "/v1/"
"""Contract 1: *the same routes answer under `/api/v1`*."""

DELIVERY_PREFIXES = ("/img/", "/v1/img/")
"""Contract 1: *the spec's `/v1/img/{path}` is the same handler*."""

_AT_ROOT = re.compile(r"/[0-9A-Za-z]{16}(\.[a-z]+)?", re.ASCII)


@frozen
class Application:
    """The ASGI application that serves a host.

    Attributes:
        guard: What answers every request.
        lane: What answers some of them without ASGI, for servers that ask it first.
        connections: How much one client may hold on to.
    """

    security: SecurityMiddleware
    fast_path: FastPath
    connections: HttpSettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or go through a part of the server's life."""
        await self.security(scope, receive, send)


def create_app(host: ImageHost, settings: ServerSettings) -> Application:
    """Return the ASGI application that serves a host; it closes the host when it ends.

    Args:
        host: An open host.
        settings: The settings that it was opened with.
    """
    executors = Executors(settings.rendering)
    interface = create_api(host, settings, executors)
    prefixes = delivery_prefixes(settings.delivery_url)
    callers = IdentityMiddleware(interface, host, executors)
    route = DeliveryRoute(host, executors)
    switch = Dispatcher(callers, route, prefixes)
    guard = SecurityMiddleware(
        switch,
        trusted_proxies=settings.trusted_proxies,
        log_access=settings.log.access,
        hsts_seconds=settings.server.hsts_seconds,
        requests_per_address=settings.http.max_concurrent_requests_per_client,
    )
    return Application(guard, FastPath(host, route, guard, switch.delivery_path), settings.http)


def create_api(host: ImageHost, settings: ServerSettings, executors: Executors) -> Litestar:
    """Return the JSON interface alone."""
    routes = routes_of(settings)
    pages = build_description(operations(routes), settings.base_url, settings.delivery_url)

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        try:
            async with (
                running_sender(host) if settings.webhooks.send_in_server else nullcontext(),
                periodic_cleanup(host),
            ):
                yield
        finally:
            await executors.database.run(host.close)

    return Litestar(
        routes,
        guards=[require_access],
        exception_handlers={Exception: handle_exception},
        lifespan=[lifespan],
        logging_config=None,
        openapi_config=None,
        request_class=ApiRequest,
        # Bodies are read by our own readers, which have limits of their own.
        request_max_body_size=None,
        state=State({"host": host, "settings": settings, "executors": executors, "api_description": pages}),
        debug=False,
    )


def routes_of(settings: ServerSettings) -> tuple[HTTPRouteHandler, ...]:
    """Return the routes that there are. Contract 8: *registration by HTTP is a setting, default off*."""
    return tuple(route for route in ROUTES if settings.registration or route is not create_account)


def operations(routes: tuple[HTTPRouteHandler, ...] = ROUTES) -> list[Operation]:
    """Return what is told of each route."""
    return [route.opt["operation"] for route in routes]


def delivery_prefixes(delivery_url: str) -> tuple[str, ...]:
    """Return the paths under which pictures are served: the two of the contract, and that of `cdn_url`."""
    own = urlsplit(delivery_url).path + "/"
    return tuple(dict.fromkeys((*DELIVERY_PREFIXES, own)))


def canonical_path(path: str) -> str:
    """Return a path as the routes are written."""
    return BASE + path[len(ALIAS) :] if path.startswith(ALIAS) else path


class Dispatcher:
    """Sends a request to the processing route or to the JSON interface, by its path.

    Args:
        interface: The JSON interface.
        delivery: The processing route.
        prefixes: Where it is; `/` stands for `cdn_url` without a path, and takes what looks like an image's
            address.
    """

    def __init__(self, interface: ASGIApp, delivery: DeliveryRoute, prefixes: tuple[str, ...]) -> None:
        self._interface = interface
        self._delivery = delivery
        self._prefixes = tuple(prefix for prefix in prefixes if prefix != "/")
        self._at_root = "/" in prefixes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != ScopeType.HTTP:
            await self._interface(scope, receive, send)
            return
        path = canonical_path(scope["path"])
        if path != scope["path"]:
            scope["path"], scope["raw_path"] = path, path.encode()
        picture = self.delivery_path(path)
        if picture is None:
            await self._interface(scope, receive, send)
        else:
            await self._delivery(picture, scope, send)

    def delivery_path(self, path: str) -> str | None:
        """Return what a path asks of the processing route, or `None` for one of the JSON interface."""
        path = canonical_path(path)
        for prefix in self._prefixes:
            if path.startswith(prefix):
                return path[len(prefix) :]
        return path[1:] if self._at_root and _AT_ROOT.fullmatch(path) else None


def handle_exception(request: Request[Account, Principal, State], error: Exception) -> Response[bytes]:
    """Return the error envelope of an exception that a handler raised."""
    return to_litestar(failure(error, str(request.scope["state"]["request_id"])))
