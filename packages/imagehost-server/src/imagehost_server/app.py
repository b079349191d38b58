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
from imagehost_server._executors import Rooms
from imagehost_server.api.operation import Operation
from imagehost_server.api.request import ApiRequest, respond
from imagehost_server.auth.identity import Callers
from imagehost_server.auth.scopes import check_access
from imagehost_server.background import sending
from imagehost_server.background.cleanup import tidying
from imagehost_server.delivery.fast_path import FastLane
from imagehost_server.delivery.route import DeliveryRoute
from imagehost_server.http.responses import failure
from imagehost_server.middleware.security import Guard
from imagehost_server.openapi.html import describe
from imagehost_server.routes import ROUTES
from imagehost_server.routes.account import create_account
from imagehost_server.settings import ConnectionSettings, ServerSettings

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

    guard: Guard
    lane: FastLane
    connections: ConnectionSettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or go through a part of the server's life."""
        await self.guard(scope, receive, send)


def create_app(host: ImageHost, settings: ServerSettings) -> Application:
    """Return the ASGI application that serves a host; it closes the host when it ends.

    Args:
        host: An open host.
        settings: The settings that it was opened with.
    """
    rooms = Rooms(settings.workers)
    interface = create_interface(host, settings, rooms)
    prefixes = delivery_prefixes(settings.delivery_url)
    callers = Callers(interface, host, rooms)
    route = DeliveryRoute(host, rooms)
    switch = Switch(callers, route, prefixes)
    guard = Guard(
        switch,
        trusted_proxies=settings.trusted_proxies,
        log_access=settings.log.access,
        hsts_seconds=settings.server.hsts_seconds,
        requests_per_address=settings.connections.requests_per_address,
    )
    return Application(guard, FastLane(host, route, guard, switch.picture_of), settings.connections)


def create_interface(host: ImageHost, settings: ServerSettings, rooms: Rooms) -> Litestar:
    """Return the JSON interface alone."""
    routes = routes_of(settings)
    pages = describe(operations(routes), settings.base_url, settings.delivery_url)

    @asynccontextmanager
    async def lifespan(_app: Litestar) -> AsyncIterator[None]:
        try:
            async with sending(host) if settings.webhooks.sender else nullcontext(), tidying(host):
                yield
        finally:
            await rooms.catalog.run(host.close)

    return Litestar(
        routes,
        guards=[check_access],
        exception_handlers={Exception: _failed},
        lifespan=[lifespan],
        logging_config=None,
        openapi_config=None,
        request_class=ApiRequest,
        # Bodies are read by our own readers, which have limits of their own.
        request_max_body_size=None,
        state=State({"host": host, "settings": settings, "rooms": rooms, "pages": pages}),
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


def without_alias(path: str) -> str:
    """Return a path as the routes are written."""
    return BASE + path[len(ALIAS) :] if path.startswith(ALIAS) else path


class Switch:
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
        path = without_alias(scope["path"])
        if path != scope["path"]:
            scope["path"], scope["raw_path"] = path, path.encode()
        picture = self.picture_of(path)
        if picture is None:
            await self._interface(scope, receive, send)
        else:
            await self._delivery(picture, scope, send)

    def picture_of(self, path: str) -> str | None:
        """Return what a path asks of the processing route, or `None` for one of the JSON interface."""
        path = without_alias(path)
        for prefix in self._prefixes:
            if path.startswith(prefix):
                return path[len(prefix) :]
        return path[1:] if self._at_root and _AT_ROOT.fullmatch(path) else None


def _failed(request: Request[Account, Principal, State], error: Exception) -> Response[bytes]:
    return respond(failure(error, str(request.scope["state"]["request_id"])))
