"""The client has all routes of the server."""

from __future__ import annotations

import inspect
import re
from typing import Any

from imagehost_client._calls import accounts, albums, downloads, images, uploads, webhooks
from imagehost_client._calls.call import Call
from imagehost_server.routes import ROUTE_SCOPES

SERVICE_ROUTES = {
    *("GET /v1/openapi.json", "GET /v1/docs", "GET /healthz", "GET /readyz", "GET /metrics"),
    *("GET /integrations/{name}", "POST /integrations/{name}"),
}
"""Routes for browsers and monitoring, which the client does not have."""

ALIASES = {"DELETE /images"}
"""Routes that the client does not use, because another one has the same effect."""

CALLS: dict[str, Call[Any]] = {
    "upload": uploads.upload(b""),
    "upload_batch": uploads.upload_batch([uploads.upload(b"")]),
    "list_images": images.list_images(),
    "gallery": images.gallery(),
    "get_image": images.get_image("x"),
    "update_image": images.update_image("x"),
    "delete_image": images.delete_image("x"),
    "render_image": downloads.render_image("x"),
    "stream_image": downloads.stream_image("x").call,
    "download_image": downloads.download_image("x", "x.png").call,
    "signed_url": images.signed_url("x"),
    "update_images": images.update_images("x")[0],
    "delete_images": images.delete_images("x")[0],
    "signed_urls": images.signed_urls(["x"])[0],
    "list_albums": albums.list_albums(),
    "create_album": albums.create_album("x"),
    "get_album": albums.get_album(1),
    "update_album": albums.update_album(1),
    "delete_album": albums.delete_album(1),
    "add_images": albums.add_images(1, ["x"]),
    "remove_images": albums.remove_images(1, ["x"]),
    "create_share": albums.create_share(1),
    "list_shares": albums.list_shares(1),
    "delete_share": albums.delete_share(1, "x"),
    "list_keys": accounts.list_keys(),
    "create_key": accounts.create_key("x"),
    "get_key": accounts.get_key("x"),
    "update_key": accounts.update_key("x"),
    "delete_key": accounts.delete_key("x"),
    "get_account": accounts.get_account(),
    "change_password": accounts.change_password("x", "y"),
    "renew_signing_secret": accounts.renew_signing_secret(),
    "list_sessions": accounts.list_sessions(),
    "delete_session_by_id": accounts.delete_session("x"),
    "list_accounts": accounts.list_accounts(),
    "create_account": accounts.create_account("x", "y"),
    "get_managed_account": accounts.get_managed_account(1),
    "update_account": accounts.update_account(1),
    "create_session": accounts.create_session("x", "y"),
    "delete_session": accounts.delete_session(),
    "list_webhooks": webhooks.list_webhooks(),
    "create_webhook": webhooks.create_webhook("https://example.com/"),
    "get_webhook": webhooks.get_webhook("x"),
    "update_webhook": webhooks.update_webhook("x"),
    "delete_webhook": webhooks.delete_webhook("x"),
    "test_webhook": webhooks.test_webhook("x"),
    "rotate_webhook_secret": webhooks.rotate_webhook_secret("x"),
    "list_deliveries": webhooks.list_deliveries("x"),
    "retry_delivery": webhooks.retry_delivery("x", "x"),
}
"""Every operation, with arbitrary arguments."""

MARKUP = {"signed_srcset", "signed_picture"}
"""Operations that send the request of `signed_urls`."""

DELIVERY_ROUTE = "GET /img/{}"


def shape(route: str) -> str:
    """Return a route with `{}` for the parameters in its path."""
    return re.sub(r"\{\w*\}|(?<=/)(?:x|1)(?=/|$)", "{}", route.replace(" /v1/", " /"))


def test_this_module_lists_every_operation_of_the_client() -> None:
    for module in (accounts, albums, images, uploads, webhooks):
        functions = {
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
        }
        assert functions <= CALLS.keys() | MARKUP


def routes_of_the_server() -> set[str]:
    """Return the routes of the API."""
    return {shape(route) for route in ROUTE_SCOPES.keys() - SERVICE_ROUTES if "/integrations" not in route}


def test_the_client_has_exactly_the_routes_of_the_server() -> None:
    client_routes = {shape(f"{call.method} {call.path}") for call in CALLS.values()} | ALIASES
    expected = routes_of_the_server() | {DELIVERY_ROUTE}
    assert client_routes == expected
