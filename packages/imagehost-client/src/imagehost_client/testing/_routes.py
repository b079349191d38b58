"""The routing table of the in-memory host."""

from __future__ import annotations

import re

from imagehost_client.errors import MethodNotAllowedError, NotFoundError
from imagehost_client.testing import (
    _accounts,
    _albums,
    _bulk,
    _delivery,
    _image_lists,
    _images,
    _keys,
    _sessions,
    _webhooks,
)
from imagehost_client.testing._request import OPERATOR, Route

ROUTES: tuple[tuple[str, str, Route, str | None], ...] = (
    ("POST", "/upload", _images.upload, "images:write"),
    ("GET", "/images", _image_lists.list_images, "images:read"),
    ("PATCH", "/images", _bulk.update_images, "images:write"),
    ("DELETE", "/images", _bulk.delete_images, "images:delete"),
    ("POST", "/images/delete", _bulk.delete_images, "images:delete"),
    ("POST", "/signed-urls", _bulk.sign_urls, "images:read"),
    ("GET", "/images/{}", _images.get_image, "images:read"),
    ("PATCH", "/images/{}", _images.update_image, "images:write"),
    ("DELETE", "/images/{}", _images.delete_image, "images:delete"),
    ("POST", "/images/{}/signed-url", _delivery.sign_url, "images:read"),
    ("GET", "/albums", _albums.list_albums, "albums:read"),
    ("POST", "/albums", _albums.create_album, "albums:write"),
    ("GET", "/albums/{}", _albums.get_album, "albums:read"),
    ("PATCH", "/albums/{}", _albums.update_album, "albums:write"),
    ("DELETE", "/albums/{}", _albums.delete_album, "albums:write"),
    ("PUT", "/albums/{}/images", _albums.add_images, "albums:write"),
    ("DELETE", "/albums/{}/images", _albums.remove_images, "albums:write"),
    ("GET", "/keys", _keys.list_keys, None),
    ("POST", "/keys", _keys.create_key, None),
    ("GET", "/keys/{}", _keys.get_key, None),
    ("PATCH", "/keys/{}", _keys.update_key, None),
    ("DELETE", "/keys/{}", _keys.delete_key, None),
    ("GET", "/webhooks", _webhooks.list_webhooks, "webhooks:manage"),
    ("POST", "/webhooks", _webhooks.create_webhook, "webhooks:manage"),
    ("GET", "/webhooks/{}", _webhooks.get_webhook, "webhooks:manage"),
    ("PATCH", "/webhooks/{}", _webhooks.update_webhook, "webhooks:manage"),
    ("DELETE", "/webhooks/{}", _webhooks.delete_webhook, "webhooks:manage"),
    ("POST", "/webhooks/{}/test", _webhooks.test_webhook, "webhooks:manage"),
    ("POST", "/webhooks/{}/rotate-secret", _webhooks.rotate_secret, "webhooks:manage"),
    ("GET", "/webhooks/{}/deliveries", _webhooks.list_deliveries, "webhooks:manage"),
    ("POST", "/webhooks/{}/deliveries/{}/retry", _webhooks.retry_delivery, "webhooks:manage"),
    ("GET", "/account", _accounts.get_account, "account:read"),
    ("POST", "/account/password", _sessions.change_password, None),
    ("POST", "/account/signing-secret", _sessions.renew_signing_secret, None),
    ("DELETE", "/session", _sessions.delete_current_session, None),
    ("GET", "/sessions", _sessions.list_sessions, None),
    ("DELETE", "/sessions/{}", _sessions.delete_session, None),
    ("GET", "/accounts", _accounts.list_accounts, OPERATOR),
    ("POST", "/accounts", _accounts.create_account, OPERATOR),
    ("GET", "/accounts/{}", _accounts.get_managed_account, OPERATOR),
    ("PATCH", "/accounts/{}", _accounts.update_account, OPERATOR),
)
"""Method, path, function, and the required scope.

`None` requires a session token, and `OPERATOR` that of an operator.
"""

PUBLIC_ROUTES: tuple[tuple[str, str, Route], ...] = (
    ("GET", "/gallery", _image_lists.gallery),
    ("POST", "/session", _sessions.create_session),
)
"""Routes that need no token."""

WITH_LOCATION = frozenset(
    {_accounts.create_account, _albums.create_album, _keys.create_key, _webhooks.create_webhook}
)
"""Routes whose responses have a `Location` header."""

STATUS_201 = WITH_LOCATION | {_sessions.create_session, _webhooks.test_webhook}
"""Routes whose responses have the status 201."""

IDEMPOTENT = frozenset({_images.upload, _albums.create_album})
"""Routes that accept an idempotency key."""


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.escape(path).replace(r"\{\}", "([^/]+)"))


_TABLE: list[tuple[str, re.Pattern[str], Route, tuple[str | None, ...]]] = [
    *((method, _pattern(path), route, (scope,)) for method, path, route, scope in ROUTES),
    *((method, _pattern(path), route, ()) for method, path, route in PUBLIC_ROUTES),
]


def find_route(method: str, path: str) -> tuple[Route, tuple[str, ...], tuple[str | None, ...]]:
    """Return the route of a request, the ids in its path, and its required scope (none for public routes).

    Raises:
        NotFoundError: No route has this path.
        MethodNotAllowedError: A route has this path, but not this method.
    """
    for route_method, pattern, route, scopes in _TABLE:
        match = pattern.fullmatch(path)
        if match and route_method == method:
            return route, match.groups(), scopes
    allowed = allowed_methods(path)
    if allowed:
        raise MethodNotAllowedError(f"expected one of {', '.join(allowed)} but received {method}")
    raise NotFoundError(f"expected a route of the API but received {path}")


def allowed_methods(path: str) -> list[str]:
    """Return the methods that a path has, sorted."""
    return sorted({method for method, pattern, _, _ in _TABLE if pattern.fullmatch(path)})
