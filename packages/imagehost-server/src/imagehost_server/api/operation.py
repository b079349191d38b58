"""An operation of the JSON interface: a route with what the OpenAPI document says of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from attrs import frozen
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from imagehost_server.auth.scopes import ROUTE_SCOPES, Requirement

Shape = type | Mapping[str, object] | tuple["Shape", ...]
"""A class, the classes of members by their names, or several shapes of which one holds."""


@frozen(kw_only=True)
class Parameter:
    """A query parameter.

    Attributes:
        name: Its name.
        schema: What it may be, as a JSON schema.
        summary: One line about it.
    """

    name: str
    schema: dict[str, object]
    summary: str


@frozen(kw_only=True)
class Operation:
    """What is told of a route.

    Attributes:
        method: The HTTP method; GET answers HEAD as well.
        path: The path, with `{name}` for what varies.
        name: The operation's id.
        summary: One line.
        response: The shape of `data`, or the media type of a whole answer that has no envelope.
        status: The status of success.
        body: The class of the JSON body, a media type of another, or `None`.
        query: The query parameters.
        errors: Statuses of errors that do not follow from the rest.
        idempotent: Whether it takes an `Idempotency-Key`.
    """

    method: str
    path: str
    name: str
    summary: str
    response: Shape | str
    status: int = 200
    body: type | str | None = None
    query: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
    idempotent: bool = False

    @property
    def need(self) -> Requirement | None:
        """What a token must allow, or `None`: no token is asked for."""
        return ROUTE_SCOPES[f"{self.method} {self.path}"]


PAGING = (
    Parameter(
        name="page", schema={"type": "integer", "minimum": 1, "default": 1}, summary="The page's number."
    ),
    Parameter(
        name="per_page",
        schema={"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
        summary="Items on a page.",
    ),
    Parameter(
        name="cursor",
        schema={"type": "string"},
        summary="The `next_cursor` of the page before; neither skips nor repeats while items come and go.",
    ),
)

Handler = Callable[..., Awaitable[Response[bytes]]]


def operation(
    route: str,
    *,
    summary: str,
    response: Shape | str,
    status: int = 200,
    body: type | str | None = None,
    query: tuple[Parameter, ...] = (),
    errors: tuple[int, ...] = (),
    idempotent: bool = False,
) -> Callable[[Handler], HTTPRouteHandler]:
    """Make a handler of a function; the route must stand in `auth.ACCESS`.

    Args:
        route: Method and path: `GET /v1/images/{image_id}`.
        summary: One line.
        response: See `Operation`.
        status: The status of success.
        body: See `Operation`.
        query: The query parameters.
        errors: See `Operation`.
        idempotent: See `Operation`.
    """
    assert route in ROUTE_SCOPES, route
    method, path = route.split(" ")

    def decorate(function: Handler) -> HTTPRouteHandler:
        told = Operation(
            method=method,
            path=path,
            name=function.__name__,
            summary=summary,
            response=response,
            status=status,
            body=body,
            query=query,
            errors=errors,
            idempotent=idempotent,
        )
        return HTTPRouteHandler(
            path.replace("}", ":str}"),
            http_method=["GET", "HEAD"] if method == "GET" else [method],  # type: ignore[list-item]
            status_code=status,
            name=function.__name__,
            opt={"route": route, "operation": told},
        )(function)

    return decorate
