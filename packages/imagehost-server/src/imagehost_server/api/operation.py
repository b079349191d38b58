"""API operations: routes with the information that the OpenAPI document needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from attrs import frozen
from litestar import Response
from litestar.handlers import HTTPRouteHandler

from imagehost_server.auth.scopes import ROUTE_SCOPES, Requirement

Shape = type | Mapping[str, object] | tuple["Shape", ...]
"""A class; an object's members, by name; or alternatives, of which one applies."""


@frozen(kw_only=True)
class Parameter:
    """A query parameter.

    Attributes:
        name: Its name.
        schema: Its JSON schema.
        summary: One line of description.
    """

    name: str
    schema: dict[str, object]
    summary: str


@frozen(kw_only=True)
class Operation:
    """The description of a route.

    Attributes:
        method: The HTTP method; GET includes HEAD.
        path: The path, with parameters as `{name}`.
        name: The operation id.
        summary: One line of description.
        response: The shape of `data`, or the media type of a response without envelope.
        status: The HTTP status of success.
        body: The class of the JSON body, the media type of another body, or `None`.
        query: The query parameters.
        errors: Error statuses that do not follow from the other attributes.
        idempotent: Whether the operation accepts an `Idempotency-Key`.
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
    def requirement(self) -> Requirement | None:
        """The scope or session that the route requires; `None`: no token."""
        return ROUTE_SCOPES[f"{self.method} {self.path}"]


PAGING = (
    Parameter(name="page", schema={"type": "integer", "minimum": 1, "default": 1}, summary="Page number."),
    Parameter(
        name="per_page",
        schema={"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
        summary="Items per page.",
    ),
    Parameter(
        name="cursor",
        schema={"type": "string"},
        summary="The `next_cursor` of the previous page, instead of `page`. Neither skips nor repeats items "
        "while others are added or deleted.",
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
    """Return a decorator that turns a function into a route handler with an `Operation`.

    Args:
        route: Method and path, such as `GET /v1/images/{image_id}`; a key of `ROUTE_SCOPES`.
        summary: See `Operation`, as for the other arguments.
        response: The shape of `data`, or a media type.
        status: The HTTP status of success.
        body: The class of the JSON body, or a media type.
        query: The query parameters.
        errors: Further error statuses.
        idempotent: Whether an `Idempotency-Key` is accepted.
    """
    assert route in ROUTE_SCOPES, route
    method, path = route.split(" ")

    def decorate(function: Handler) -> HTTPRouteHandler:
        info = Operation(
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
            opt={"route": route, "operation": info},
        )(function)

    return decorate
