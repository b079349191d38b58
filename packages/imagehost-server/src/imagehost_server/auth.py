"""Who may do what: the one table from route to scope, and the check that goes by it.

Contract 2: *401 for a missing, malformed, unknown, expired or revoked token; 403 when the token is good
but lacks the scope.* The table is also where the OpenAPI document has its security from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from imagehost_core import ImageHost
from imagehost_core.errors import UnauthorizedError
from imagehost_core.models import Principal, Scope
from imagehost_core.tokens import authorize
from imagehost_server.threads import Rooms

if TYPE_CHECKING:
    from litestar.connection import ASGIConnection
    from litestar.handlers import BaseRouteHandler

SCOPES: dict[str, Scope | None] = {
    "POST /v1/upload": Scope.IMAGES_WRITE,
    "GET /v1/images": Scope.IMAGES_READ,
    "GET /v1/images/{image_id}": Scope.IMAGES_READ,
    "PATCH /v1/images/{image_id}": Scope.IMAGES_WRITE,
    "DELETE /v1/images/{image_id}": Scope.IMAGES_DELETE,
    "POST /v1/images/{image_id}/signed-url": Scope.IMAGES_READ,
    "GET /v1/gallery": None,
    "POST /v1/albums": Scope.ALBUMS_WRITE,
    "GET /v1/albums": Scope.ALBUMS_READ,
    "GET /v1/openapi.json": None,
    "GET /v1/docs": None,
    "GET /healthz": None,
    "GET /readyz": None,
}
"""What a token must allow for each route; `None`: no token is asked for."""


async def check_access(connection: ASGIConnection, handler: BaseRouteHandler) -> None:  # type: ignore[type-arg]
    """Let a request pass whose token has the scope of its route, and note who is asking.

    Runs before anything of the body is read.

    Raises:
        UnauthorizedError: There is no good token.
        ForbiddenError: The token lacks the scope.
    """
    route = handler.opt.get("route")
    need = SCOPES[route] if route else None
    if need is None:
        return
    state = connection.app.state
    principal = await identify(state["host"], state["rooms"], connection.scope["headers"])
    authorize(principal, need)
    connection.scope["auth"] = principal
    connection.scope["user"] = principal.account


async def identify(host: ImageHost, rooms: Rooms, headers: Iterable[tuple[bytes, bytes]]) -> Principal:
    """Return who is asking.

    Raises:
        UnauthorizedError: There is no good token.
    """
    return await rooms.catalog.run(host.authenticate, bearer(headers))


def bearer(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the token that a request's headers carry (RFC 6750, 2.1; the scheme's case is free).

    Raises:
        UnauthorizedError: There is none, or several. Never shows what was there.
    """
    values = [value for name, value in headers if name == b"authorization"]
    if len(values) != 1:
        received = "several" if values else "none"
        raise UnauthorizedError(
            f"expected one Authorization header with a Bearer token but received {received}"
        )
    scheme, _, token = values[0].partition(b" ")
    if scheme.lower() != b"bearer":
        raise UnauthorizedError("expected the scheme Bearer for Authorization but received another")
    return token.strip().decode("latin-1")
