"""The request class of API handlers: host, identity, query parameters and JSON body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from litestar import Request, Response
from litestar.datastructures import State

from imagehost_core import ImageHost
from imagehost_core.errors import BadRequestError, FieldError
from imagehost_core.models import Account, Principal
from imagehost_core.pagination import PageRequest, parse_page_request
from imagehost_server._executors import Executors
from imagehost_server.api.schemas import decode
from imagehost_server.auth.identity import RequestIdentity
from imagehost_server.http.body import JSON_BYTES, read_body, require_json
from imagehost_server.http.responses import Headers, RawResponse, success_response
from imagehost_server.settings import ServerSettings

T = TypeVar("T")


class ApiRequest(Request[Account, Principal, State]):
    """A request to the JSON API."""

    @property
    def host(self) -> ImageHost:
        """The image host."""
        host = self.app.state["host"]
        assert isinstance(host, ImageHost)
        return host

    @property
    def settings(self) -> ServerSettings:
        """The settings of the server."""
        settings = self.app.state["settings"]
        assert isinstance(settings, ServerSettings)
        return settings

    @property
    def executors(self) -> Executors:
        """The thread limiters for blocking calls."""
        executors = self.app.state["executors"]
        assert isinstance(executors, Executors)
        return executors

    @property
    def account(self) -> Account:
        """The authenticated account; only on routes that require a token."""
        return self.auth.account

    @property
    def identity(self) -> RequestIdentity:
        """The identity of the request, also without a token; not on probes and the API description."""
        identity = self.scope["state"]["identity"]
        assert isinstance(identity, RequestIdentity)
        return identity

    @property
    def id(self) -> str:
        """The request id, as in `X-Request-Id`."""
        return str(self.scope["state"]["request_id"])

    @property
    def field_aliases(self) -> Mapping[str, str]:
        """Other names of form fields, with ours; none unless a middleware has set some."""
        aliases = self.scope["state"].get("field_aliases", {})
        assert isinstance(aliases, Mapping)
        return aliases

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

    def query_param(self, name: str) -> str | None:
        """Return the value of a query parameter, or `None`.

        Raises:
            BadRequestError: It is repeated; parsers disagree on which value counts.
        """
        values = self.query_params.getall(name, [])
        if len(values) > 1:
            raise BadRequestError(errors=[FieldError(name, "one value", f"{len(values)}")])
        return str(values[0]) if values else None

    def page_request(self) -> PageRequest:
        """Return the requested page: `page` and `per_page`, or `cursor` and `per_page`.

        Raises:
            BadRequestError: A parameter is not allowed; every one is named.
        """
        return parse_page_request(*map(self.query_param, ("page", "per_page", "cursor")))

    async def json_body(self, kind: type[T]) -> T:
        """Return the JSON body as a value of `kind`.

        Raises:
            UnsupportedMediaTypeError: The content type is not JSON.
            PayloadTooLargeError: The body has more than `JSON_BYTES` bytes.
            BadRequestError: The body is not JSON, or truncated.
            ValidationError: Values have a wrong type; every one is named.
        """
        require_json(self.headers.get("content-type"))
        return decode(kind, await read_body(self.receive, JSON_BYTES, self.settings.http))


def ok(data: object, status: int = 200, headers: Headers = ()) -> Response[bytes]:
    """Return the success envelope of `data` as a Litestar response."""
    return to_litestar(success_response(data, status, headers))


def to_litestar(response: RawResponse) -> Response[bytes]:
    """Return a response as a Litestar response."""
    headers = dict(response.headers)
    media_type = headers.pop("content-type")
    return Response(response.body, status_code=response.status, headers=headers, media_type=media_type)
