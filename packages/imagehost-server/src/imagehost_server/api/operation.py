"""Route handlers: Litestar's, with the metadata that the OpenAPI document needs.

Litestar passes path and query parameters and the decoded body by the handler's annotations, and makes the
document from them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache, wraps
from inspect import signature
from typing import Any, get_args, get_type_hints

from attrs import field, frozen, make_class
from litestar import Litestar, Request, Response
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, ExceptionHandlersMap

from imagehost_core.authorization import Requirement
from imagehost_server.api.body import BodyDTO, InvalidBody
from imagehost_server.api.envelope import EncodedResponse, Success
from imagehost_server.api.lookups import look_up
from imagehost_server.api.request import ApiRequest
from imagehost_server.auth.identity import is_counted
from imagehost_server.auth.scopes import ROUTE_SCOPES

Handler = Callable[..., Awaitable[Response[Any]]]


@frozen(kw_only=True)
class Operation:
    """What the OpenAPI document says of a route beyond the annotations of its handler.

    Attributes:
        route: Method and path, such as `GET /v1/images/{image_id}`; GET includes HEAD.
        errors: Error statuses that do not follow from the route's parameters and body.
        idempotent: Whether the operation accepts an `Idempotency-Key`.
        has_envelope: Whether the response is JSON with a success envelope.
    """

    route: str
    errors: tuple[int, ...] = ()
    idempotent: bool = False
    has_envelope: bool = True

    @property
    def is_counted(self) -> bool:
        """Whether requests count against the rate limits."""
        return is_counted(self.route.split(" ")[1])

    @property
    def requirement(self) -> Requirement | None:
        """The scope or session that the route requires; `None`: no token."""
        return ROUTE_SCOPES[self.route]


class RouteHandler(HTTPRouteHandler):
    """Litestar's route handler, without steps whose result is the same for each request."""

    def resolve_exception_handlers(self) -> ExceptionHandlersMap:
        """Return the exception handlers of all layers, merged once."""
        if self._exception_handlers is None:
            self._exception_handlers = super().resolve_exception_handlers()
        return self._exception_handlers

    async def to_response(self, app: Litestar, data: Any, request: Request[Any, Any, Any]) -> ASGIApp:
        """Return the ASGI application that sends what a handler returned."""
        if isinstance(data, EncodedResponse):
            return data.to_asgi_response()
        return await super().to_response(app, data, request)

    _exception_handlers: ExceptionHandlersMap | None = None


def operation(
    route: str,
    *,
    summary: str,
    status: int = 200,
    errors: tuple[int, ...] = (),
    idempotent: bool = False,
    media_type: str | None = None,
) -> Callable[[Handler], HTTPRouteHandler]:
    """Return a decorator that turns a function into a route handler.

    Args:
        route: Method and path; a key of `ROUTE_SCOPES`.
        summary: One line of description; the function's docstring is the long one.
        status: The HTTP status of success.
        errors: See `Operation`.
        idempotent: See `Operation`.
        media_type: The media type of a response without envelope.
    """
    assert route in ROUTE_SCOPES, route
    method, path = route.split(" ")

    def decorate(function: Handler) -> HTTPRouteHandler:
        name = function.__name__
        if media_type is None:
            ((data,),) = map(get_args, get_args(get_type_hints(function)["return"]))
            function.__annotations__["return"] = Response[_envelope(data)]  # type: ignore[misc]
        has_body = "data" in signature(function).parameters
        details = Operation(
            route=route, errors=errors, idempotent=idempotent, has_envelope=media_type is None
        )
        return RouteHandler(
            path.replace("}", ":str}"),
            http_method=["GET", "HEAD"] if method == "GET" else [method],  # type: ignore[list-item]
            status_code=status,
            name=name,
            operation_id=lambda _handler, verb, _path: f"{name}_head" if verb == "HEAD" else name,
            summary=summary,
            media_type=media_type,
            dto=BodyDTO if has_body else None,
            return_dto=None,
            opt={"route": route, "operation": details},
        )(_report_all_errors(function))

    return decorate


@cache
def _envelope(data: Any) -> type:
    """Return the class of the success envelope of `data`; clients that are generated have its name."""
    name = (get_args(data) or (data,))[-1].__name__
    envelope = make_class(f"{name}Response", {"success": field(type=bool), "data": field(type=data)})
    envelope.__doc__ = Success.__doc__
    return envelope


def _report_all_errors(function: Handler) -> Handler:
    """Wrap a handler: reject an invalid body together with errors of the path, and repeated parameters.

    A repeated query parameter is passed with all its values, as in the URL, for its parser to reject with the
    errors of the other parameters: parsers of other programs disagree on which value counts.
    """
    parameters = signature(function).parameters
    if parameters.keys() <= {"request"}:
        return function

    @wraps(function)
    async def handle(**arguments: Any) -> Response[Any]:
        request = arguments.get("request")
        if isinstance(request, ApiRequest):
            if b"&" in request.scope["query_string"]:
                arguments |= _repeated(request, arguments)
            if isinstance(data := arguments.get("data"), InvalidBody):
                await _raise_body_error(request, data)
        return await function(**arguments)

    return handle


def _repeated(request: ApiRequest, arguments: dict[str, Any]) -> dict[str, str]:
    """Return the repeated query parameters of a handler."""
    values = {name: request.query_params.getall(name, []) for name in arguments if name != "request"}
    return {name: f"&{name}=".join(found) for name, found in values.items() if len(found) > 1}


async def _raise_body_error(request: ApiRequest, body: InvalidBody) -> None:
    """Raise the error of an invalid body together with those of the path and of the other members."""
    if request.scope.get("auth") is None:
        raise body.error
    # The check of a webhook's URL waits for the DNS.
    executor = request.executors.dns if "url" in body.members else request.executors.database
    errors = await executor.run(look_up, request.host, request.account, request.path_params, body)
    errors.raise_if_any()
