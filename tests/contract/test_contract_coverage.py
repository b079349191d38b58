"""The client has an operation for each endpoint that the server has, and so has the double."""

from __future__ import annotations

import inspect
import re
from typing import Any

from imagehost_client._calls import Call, access, albums, images, webhooks
from imagehost_client.testing._routes import PUBLIC_ROUTES, ROUTES
from imagehost_server.auth.scopes import ROUTE_SCOPES

OF_THE_SERVICE = {"GET /v1/openapi.json", "GET /v1/docs", "GET /healthz", "GET /readyz"}
"""What browsers and those who watch over a server ask; it tells of the service, and is no resource."""

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
"""Every operation with any arguments."""

PICTURE = "GET /img/{}"


def shape(route: str) -> str:
    """Return a route without the names of what stands in its path."""
    return re.sub(r"\{\w*\}|(?<=/)(?:x|1)(?=/|$)", "{}", route.replace(" /v1/", " /"))


def test_every_operation_of_the_client_is_looked_at() -> None:
    for room in (images, albums, access, webhooks):
        functions = {
            name
            for name, value in vars(room).items()
            if inspect.isfunction(value) and value.__module__ == room.__name__ and not name.startswith("_")
        }
        assert functions <= CALLS.keys()


def test_the_client_covers_every_endpoint_of_the_server_and_no_other() -> None:
    called = {shape(f"{call.method} {call.path}") for call in CALLS.values()}
    assert called == {shape(route) for route in ROUTE_SCOPES.keys() - OF_THE_SERVICE} | {PICTURE}


def test_the_double_covers_every_endpoint_of_the_server_and_no_other() -> None:
    routes = {f"{method} {path}" for method, path, *_ in (*ROUTES, *PUBLIC_ROUTES)}
    assert routes == {shape(route) for route in ROUTE_SCOPES.keys() - OF_THE_SERVICE}


def test_the_double_asks_for_the_scopes_that_the_server_asks_for() -> None:
    asked = {f"{method} {path}": scope for method, path, _, scope in ROUTES}
    for route, need in ROUTE_SCOPES.items():
        if route not in OF_THE_SERVICE and need is not None:
            scope = asked[shape(route)]
            assert need.value == (scope or "session"), route
