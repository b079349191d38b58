"""Authorization: the table of routes and the scope that each requires, and the early check.

No valid token is 401; a valid token without the required scope is 403. The OpenAPI document takes its
security requirements from the same table. A request that changes something is checked again by the core, in
the transaction of the change: the token may have ended since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from imagehost_core.authorization import Requirement, SessionRequirement, authorize, require_permission
from imagehost_core.models import Account, Principal, Scope
from imagehost_server.auth.cookies import SAFE_METHODS, require_csrf_token
from imagehost_server.auth.identity import RequestIdentity

if TYPE_CHECKING:
    from litestar import Request
    from litestar.datastructures import State


ROUTE_SCOPES: dict[str, Requirement | None] = {
    "POST /v1/upload": Scope.IMAGES_WRITE,
    "GET /v1/images": Scope.IMAGES_READ,
    "PATCH /v1/images": Scope.IMAGES_WRITE,
    "DELETE /v1/images": Scope.IMAGES_DELETE,
    "POST /v1/images/delete": Scope.IMAGES_DELETE,
    "POST /v1/signed-urls": Scope.IMAGES_READ,
    "GET /v1/images/{image_id}": Scope.IMAGES_READ,
    "PATCH /v1/images/{image_id}": Scope.IMAGES_WRITE,
    "DELETE /v1/images/{image_id}": Scope.IMAGES_DELETE,
    "POST /v1/images/{image_id}/signed-url": Scope.IMAGES_READ,
    "GET /v1/gallery": None,
    "POST /v1/albums": Scope.ALBUMS_WRITE,
    "GET /v1/albums": Scope.ALBUMS_READ,
    "GET /v1/albums/{album_id}": Scope.ALBUMS_READ,
    "PATCH /v1/albums/{album_id}": Scope.ALBUMS_WRITE,
    "DELETE /v1/albums/{album_id}": Scope.ALBUMS_WRITE,
    "PUT /v1/albums/{album_id}/images": Scope.ALBUMS_WRITE,
    "DELETE /v1/albums/{album_id}/images": Scope.ALBUMS_WRITE,
    "POST /v1/session": None,
    "DELETE /v1/session": SessionRequirement.ONLY,
    "GET /v1/sessions": SessionRequirement.ONLY,
    "DELETE /v1/sessions/{session_id}": SessionRequirement.ONLY,
    "GET /v1/account": Scope.ACCOUNT_READ,
    "POST /v1/account/password": SessionRequirement.ONLY,
    "POST /v1/account/signing-secret": SessionRequirement.ONLY,
    "GET /v1/accounts": SessionRequirement.OPERATOR,
    "POST /v1/accounts": SessionRequirement.OPERATOR,
    "GET /v1/accounts/{account_id}": SessionRequirement.OPERATOR,
    "PATCH /v1/accounts/{account_id}": SessionRequirement.OPERATOR,
    "GET /v1/keys": SessionRequirement.ONLY,
    "POST /v1/keys": SessionRequirement.ONLY,
    "GET /v1/keys/{key_id}": SessionRequirement.ONLY,
    "PATCH /v1/keys/{key_id}": SessionRequirement.ONLY,
    "DELETE /v1/keys/{key_id}": SessionRequirement.ONLY,
    "GET /v1/webhooks": Scope.WEBHOOKS_MANAGE,
    "POST /v1/webhooks": Scope.WEBHOOKS_MANAGE,
    "GET /v1/webhooks/{webhook_id}": Scope.WEBHOOKS_MANAGE,
    "PATCH /v1/webhooks/{webhook_id}": Scope.WEBHOOKS_MANAGE,
    "DELETE /v1/webhooks/{webhook_id}": Scope.WEBHOOKS_MANAGE,
    "POST /v1/webhooks/{webhook_id}/test": Scope.WEBHOOKS_MANAGE,
    "POST /v1/webhooks/{webhook_id}/rotate-secret": Scope.WEBHOOKS_MANAGE,
    "GET /v1/webhooks/{webhook_id}/deliveries": Scope.WEBHOOKS_MANAGE,
    "POST /v1/webhooks/{webhook_id}/deliveries/{delivery_id}/retry": Scope.WEBHOOKS_MANAGE,
    "GET /v1/openapi.json": None,
    "GET /v1/docs": None,
    "GET /integrations/{name}": None,
    "POST /integrations/{name}": SessionRequirement.ONLY,
    "GET /healthz": None,
    "GET /readyz": None,
    "GET /metrics": None,
}
"""The requirement of each route, by method and path; `None`: no token is required."""
REGISTRATION = "POST /v1/accounts"
"""The route that requires no token where the setting `registration` is on."""


async def require_access(connection: Request[Account, Principal, State]) -> None:
    """Raise unless the request's token meets its route's requirement; set the connection's user and auth.

    It is called before any of the body is read. As a guard, Litestar would copy the route handler for it.

    Raises:
        UnauthorizedError: There is no valid token.
        ForbiddenError: The token lacks the scope, is not a session's, or a cookie came without CSRF token.
    """
    route = connection.scope["route_handler"].opt.get("route")
    requirement = ROUTE_SCOPES[route] if route else None
    if requirement is None:
        return
    identity = connection.scope["state"]["identity"]
    assert isinstance(identity, RequestIdentity)
    if identity.principal is None and route == REGISTRATION and connection.app.state["settings"].registration:
        return
    principal = identity.require_principal()
    method = str(connection.scope.get("method"))
    if identity.by_cookie:
        require_csrf_token(method, connection.scope["headers"], identity.token)
    require_permission(principal, requirement)
    is_safe = method in SAFE_METHODS
    connection.scope["auth"] = principal
    connection.scope["user"] = principal.account if is_safe else authorize(principal, requirement)
