"""The client and the fake have all routes of the server."""

from __future__ import annotations

import inspect
import re
from typing import Any

from imagehost_client._calls import Call, access, albums, images, webhooks
from imagehost_client.testing._routes import PUBLIC_ROUTES, ROUTES
from imagehost_server.auth.scopes import ROUTE_SCOPES

SERVICE_ROUTES = {"GET /v1/openapi.json", "GET /v1/docs", "GET /healthz", "GET /readyz"}
"""Routes for browsers and monitoring, which neither the client nor the fake has."""

CALLS: dict[str, Call[Any]] = {
    "upload": images.upload(b""),
    "list_images": images.list_images(),
    "gallery": images.gallery(),
    "get_image": images.get_image("x"),
    "update_image": images.update_image("x"),
    "delete_image": images.delete_image("x"),
    "render_image": images.render_image("x"),
    "signed_url": images.signed_url("x"),
    "list_albums": albums.list_albums(),
    "create_album": albums.create_album("x"),
    "get_album": albums.get_album(1),
    "update_album": albums.update_album(1),
    "delete_album": albums.delete_album(1),
    "add_images": albums.add_images(1, []),
    "remove_images": albums.remove_images(1, []),
    "list_keys": access.list_keys(),
    "create_key": access.create_key("x"),
    "get_key": access.get_key("x"),
    "update_key": access.update_key("x"),
    "delete_key": access.delete_key("x"),
    "get_account": access.get_account(),
    "create_account": access.create_account("x", "y"),
    "create_session": access.create_session("x", "y"),
    "delete_session": access.delete_session(),
    "list_webhooks": webhooks.list_webhooks(),
    "create_webhook": webhooks.create_webhook("x"),
    "get_webhook": webhooks.get_webhook("x"),
    "update_webhook": webhooks.update_webhook("x"),
    "delete_webhook": webhooks.delete_webhook("x"),
    "test_webhook": webhooks.test_webhook("x"),
    "rotate_webhook_secret": webhooks.rotate_webhook_secret("x"),
    "list_deliveries": webhooks.list_deliveries("x"),
    "retry_delivery": webhooks.retry_delivery("x", "x"),
}
"""Every operation, with arbitrary arguments."""

DELIVERY_ROUTE = "GET /img/{}"


def shape(route: str) -> str:
    """Return a route with `{}` for the parameters in its path."""
    return re.sub(r"\{\w*\}|(?<=/)(?:x|1)(?=/|$)", "{}", route.replace(" /v1/", " /"))


def test_this_module_lists_every_operation_of_the_client() -> None:
    for module in (images, albums, access, webhooks):
        functions = {
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        }
        assert functions <= CALLS.keys()


def test_the_client_has_exactly_the_routes_of_the_server() -> None:
    client_routes = {shape(f"{call.method} {call.path}") for call in CALLS.values()}
    assert client_routes == {shape(route) for route in ROUTE_SCOPES.keys() - SERVICE_ROUTES} | {
        DELIVERY_ROUTE
    }


def test_the_fake_has_exactly_the_routes_of_the_server() -> None:
    routes = {f"{method} {path}" for method, path, *_ in (*ROUTES, *PUBLIC_ROUTES)}
    assert routes == {shape(route) for route in ROUTE_SCOPES.keys() - SERVICE_ROUTES}


def test_the_fake_requires_the_scopes_of_the_server() -> None:
    scopes = {f"{method} {path}": scope for method, path, _, scope in ROUTES}
    for route, need in ROUTE_SCOPES.items():
        if route not in SERVICE_ROUTES and need is not None:
            scope = scopes[shape(route)]
            assert need.value == (scope or "session"), route
