"""Route handlers of the JSON API: their requests, and what the OpenAPI document says of them.

Litestar passes path and query parameters and the decoded body by the handler's annotations, and makes the
document from them. A request is judged in two steps: here its syntax and types; then, by the core, its values
and what they and the path name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache, wraps
from inspect import signature
from types import ModuleType
from typing import Any, TypeVar, cast, get_args, get_type_hints

from attrs import field, frozen, make_class
from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp, ExceptionHandlersMap

from imagehost_core import ImageHost
from imagehost_core.authorization import Requirement, require_permission
from imagehost_core.errors import BadRequestError, FieldError, RateLimitError
from imagehost_core.limits import Decision
from imagehost_core.models import (
    Account,
    Principal,
)
from imagehost_server._executors import Executors
from imagehost_server.auth.identity import RequestIdentity, is_counted
from imagehost_server.http.body import JSON_BYTES, read_body, require_json
from imagehost_server.http.responses import EncodedResponse, Success
from imagehost_server.metrics import Recorder
from imagehost_server.middleware.access_log import HANDLER_FIELDS
from imagehost_server.routes.body import BodyDTO
from imagehost_server.settings import ServerSettings

T = TypeVar("T")


class ApiRequest(Request[Account, Principal, State]):
    """A request to the JSON API."""

    @property
    def host(self) -> ImageHost:
        """The image host."""
        return cast("ImageHost", self.app.state["host"])

    @property
    def settings(self) -> ServerSettings:
        """The settings of the server."""
        return cast("ServerSettings", self.app.state["settings"])

    @property
    def executors(self) -> Executors:
        """The thread limiters for blocking calls."""
        return cast("Executors", self.app.state["executors"])

    @property
    def recorder(self) -> Recorder:
        """The counters of this process."""
        return cast("Recorder", self.app.state["recorder"])

    @property
    def account(self) -> Account:
        """The account as the token acts for it; only on routes that require one."""
        return self.user

    @property
    def identity(self) -> RequestIdentity:
        """The identity of the request, also without a token; not on probes and the API description."""
        return cast("RequestIdentity", self.scope["state"]["identity"])

    @property
    def id(self) -> str:
        """The request id, as in `X-Request-Id`."""
        return str(self.scope["state"]["request_id"])

    @property
    def field_aliases(self) -> Mapping[str, str]:
        """Other names of form fields, with ours; none unless a middleware has set some."""
        return cast("Mapping[str, str]", self.scope["state"].get("field_aliases", {}))

    @property
    def idempotency_key(self) -> str | None:
        """The `Idempotency-Key`, or `None`.

        Raises:
            BadRequestError: The header is repeated.
        """
        values = self.headers.getall("idempotency-key", [])
        if len(values) > 1:
            raise BadRequestError(errors=[FieldError("Idempotency-Key", "one header", f"{len(values)}")])
        return values[0] if values else None

    def apply(self, decision: Decision, account: str | None = None) -> None:
        """Raise RateLimitError if the request is refused, and select the window of its rate limit headers.

        Args:
            decision: That of a limit within the request, besides the limits of all requests.
            account: The name of the account, for the error.
        """
        state = self.scope["state"]
        try:
            decision.raise_if_refused(self.host.now(), account)
        except RateLimitError:
            state["decision"] = decision
            raise
        if decision.window is not None:
            # A web page is not counted as an API request.
            counted = state.get("decision")
            if counted is None or counted.window is None or decision.remaining < counted.remaining:
                state["decision"] = decision

    def log(self, **fields: object) -> None:
        """Add fields to the access line of the request."""
        self.scope["state"].setdefault(HANDLER_FIELDS, {}).update(fields)

    async def require_valid_token(self) -> None:
        """Raise an error if the request's token has ended, or was narrowed, while its body arrived.

        It saves work, and errors of what only a valid token may learn; the core decides, in the transaction
        of the change.

        Raises:
            UnauthorizedError: The token has ended.
            ForbiddenError: It does not meet the requirement of the route any more.
        """
        token = self.identity.token
        if self.identity.principal is None:
            return
        principal = self.host.keys.authenticate_cached(token)
        if principal is None:
            principal = await self.executors.database.run(self.host.authenticate, token)
        operation: Operation | None = self.scope["route_handler"].opt.get("operation")
        if operation is not None and operation.requirement is not None:
            require_permission(principal, operation.requirement)

    async def call(self, verb: Callable[..., T], /, *arguments: object, **keywords: object) -> T:
        """Call a verb of the host for the account of the request, in a thread for the database.

        Args:
            verb: Takes the account as `owner`.
            arguments: Its other arguments.
            keywords: Its other keywords.
        """
        return await self.executors.database.run(verb, *arguments, owner=self.account, **keywords)

    async def body(self) -> bytes:
        """Return the JSON body, for Litestar to decode.

        Raises:
            UnauthorizedError: The token has ended meanwhile.
            UnsupportedMediaTypeError: The content type is not JSON.
            PayloadTooLargeError: The body has more than `JSON_BYTES` bytes.
            BadRequestError: The body is truncated, or exceeds a timeout.
        """
        require_json(self.headers.get("content-type"))
        # Litestar takes an empty body for none; a space is not JSON either.
        declared = self.headers.get("content-length")
        body = await read_body(self.receive, JSON_BYTES, self.settings.http, declared)
        await self.require_valid_token()
        return body or b" "


Handler = Callable[..., Awaitable[Response[Any]]]


@frozen(kw_only=True)
class Operation:
    """What the OpenAPI document says of a route beyond the annotations of its handler.

    Attributes:
        route: Method and path, such as `GET /v1/images/{image_id}`; GET includes HEAD.
        requirement: The scope or session that the route requires; `None`: no token.
        errors: Error statuses that do not follow from the route's parameters and body.
        idempotent: Whether the operation accepts an `Idempotency-Key`.
        has_envelope: Whether the response is JSON with a success envelope.
    """

    route: str
    requirement: Requirement | None
    errors: tuple[int, ...] = ()
    idempotent: bool = False
    has_envelope: bool = True

    @property
    def is_counted(self) -> bool:
        """Whether requests count against the rate limits."""
        return is_counted(self.route.split(" ")[1])


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
    requirement: Requirement | None,
    *,
    summary: str,
    status: int = 200,
    errors: tuple[int, ...] = (),
    idempotent: bool = False,
    media_type: str | None = None,
) -> Callable[[Handler], HTTPRouteHandler]:
    """Return a decorator that turns a function into a route handler.

    Args:
        route: See `Operation`.
        requirement: See `Operation`.
        summary: One line of description; the function's docstring is the long one.
        status: The HTTP status of success.
        errors: See `Operation`.
        idempotent: See `Operation`.
        media_type: The media type of a response without envelope.
    """
    method, path = route.split(" ")

    def decorate(function: Handler) -> HTTPRouteHandler:
        name = function.__name__
        if media_type is None:
            ((data,),) = map(get_args, get_args(get_type_hints(function)["return"]))
            function.__annotations__["return"] = Response[_envelope(data)]  # type: ignore[misc]
        has_body = "data" in signature(function).parameters
        details = Operation(
            route=route,
            requirement=requirement,
            errors=errors,
            idempotent=idempotent,
            has_envelope=media_type is None,
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
        )(_pass_repeated(function, path))

    return decorate


def handlers_of(*modules: ModuleType) -> tuple[HTTPRouteHandler, ...]:
    """Return the route handlers of modules, in the order of their definitions."""
    values = (value for module in modules for value in vars(module).values())
    return tuple(value for value in values if isinstance(value, HTTPRouteHandler))


@cache
def _envelope(data: Any) -> type:
    """Return the class of the success envelope of `data`; clients that are generated have its name."""
    name = (get_args(data) or (data,))[-1].__name__
    envelope = make_class(f"{name}Response", {"success": field(type=bool), "data": field(type=data)})
    envelope.__doc__ = Success.__doc__
    return envelope


def _pass_repeated(function: Handler, path: str) -> Handler:
    """Wrap a handler: a repeated query parameter is passed with all its values, as in the URL.

    Its parser rejects it with the errors of the other parameters: parsers of other programs disagree on which
    value counts.
    """
    if all(name in ("request", "data") or f"{{{name}}}" in path for name in signature(function).parameters):
        return function

    @wraps(function)
    async def handle(**arguments: Any) -> Response[Any]:
        request = arguments["request"]
        if b"&" in request.scope["query_string"]:
            arguments |= _repeated(request, arguments)
        return await function(**arguments)

    return handle


def _repeated(request: ApiRequest, arguments: dict[str, Any]) -> dict[str, str]:
    """Return the repeated query parameters of a handler."""
    values = {name: request.query_params.getall(name, []) for name in arguments if name != "request"}
    return {name: f"&{name}=".join(found) for name, found in values.items() if len(found) > 1}
