"""Who may do what: the one table from route to what it needs, and the check that goes by it.

Contract 2: *401 for a missing, malformed, unknown, expired or revoked token; 403 when the token is good
but lacks the scope.* The table is also where the OpenAPI document has its security from.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from imagehost_core import ImageHost
from imagehost_core.errors import ForbiddenError
from imagehost_core.models import Principal, Scope
from imagehost_core.tokens import require_scope
from imagehost_server._executors import Executors
from imagehost_server.auth.bearer import bearer_token
from imagehost_server.auth.cookies import require_csrf_token
from imagehost_server.auth.identity import RequestIdentity

if TYPE_CHECKING:
    from litestar.connection import ASGIConnection
    from litestar.handlers import BaseRouteHandler


class SessionRequirement(Enum):
    """What manages keys: *a session token acts with all scopes and alone manages keys* (contract 8)."""

    ONLY = "session"


Requirement = Scope | SessionRequirement

ROUTE_SCOPES: dict[str, Requirement | None] = {
    "POST /v1/upload": Scope.IMAGES_WRITE,
    "GET /v1/images": Scope.IMAGES_READ,
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
    "POST /v1/accounts": None,
    "GET /v1/account": Scope.ACCOUNT_READ,
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
    "GET /healthz": None,
    "GET /readyz": None,
}
"""What a token must allow for each route; `None`: no token is asked for."""


async def require_access(connection: ASGIConnection, handler: BaseRouteHandler) -> None:  # type: ignore[type-arg]
    """Let a request pass whose token has what its route needs, and note who is asking.

    Runs before anything of the body is read.

    Raises:
        UnauthorizedError: There is no good token.
        ForbiddenError: The token lacks the scope, is no session's, or a browser's page did not send it.
    """
    route = handler.opt.get("route")
    need = ROUTE_SCOPES[route] if route else None
    if need is None:
        return
    caller = connection.scope["state"]["caller"]
    assert isinstance(caller, RequestIdentity)
    if caller.principal is None:
        assert caller.auth_error is not None
        raise caller.auth_error
    if caller.by_cookie:
        method = str(connection.scope.get("method"))
        require_csrf_token(method, connection.scope["headers"], caller.token)
    check_requirement(caller.principal, need)
    connection.scope["auth"] = caller.principal
    connection.scope["user"] = caller.principal.account


def check_requirement(principal: Principal, need: Requirement) -> None:
    """Let a principal pass that has what a route needs.

    Raises:
        ForbiddenError: It has not.
    """
    if isinstance(need, Scope):
        require_scope(principal, need)
    elif not principal.is_session:
        raise ForbiddenError("expected a session's token for this operation but received a key's")


async def authenticate(
    host: ImageHost, executors: Executors, headers: Iterable[tuple[bytes, bytes]]
) -> Principal:
    """Return who is asking.

    Raises:
        UnauthorizedError: There is no good token.
    """
    return await executors.database.run(host.authenticate, bearer_token(headers))
