"""The request as handlers see it: the host, who is asking, and readers of query and body."""

from __future__ import annotations

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
from imagehost_server.http.body import JSON_BYTES, is_json, read_body
from imagehost_server.http.responses import Headers, RawResponse, success
from imagehost_server.settings import ServerSettings

T = TypeVar("T")


class ApiRequest(Request[Account, Principal, State]):
    """A request to the JSON interface."""

    @property
    def host(self) -> ImageHost:
        """The host that answers."""
        host = self.app.state["host"]
        assert isinstance(host, ImageHost)
        return host

    @property
    def settings(self) -> ServerSettings:
        """The settings in force."""
        settings = self.app.state["settings"]
        assert isinstance(settings, ServerSettings)
        return settings

    @property
    def executors(self) -> Executors:
        """Where blocking work runs."""
        executors = self.app.state["executors"]
        assert isinstance(executors, Executors)
        return executors

    @property
    def account(self) -> Account:
        """Who is asking; only on routes that need a token."""
        return self.auth.account

    @property
    def identity(self) -> RequestIdentity:
        """Who is asking, with or without a token; not on the routes that tell of the service."""
        caller = self.scope["state"]["caller"]
        assert isinstance(caller, RequestIdentity)
        return caller

    @property
    def id(self) -> str:
        """The request's id."""
        return str(self.scope["state"]["request_id"])

    @property
    def idempotency_key(self) -> str | None:
        """The `Idempotency-Key`, or `None`.

        Raises:
            BadRequestError: There are several.
        """
        values = self.headers.getall("idempotency-key", [])
        if len(values) > 1:
            raise BadRequestError(errors=[FieldError("Idempotency-Key", "one header", f"{len(values)}")])
        return values[0] if values else None

    def query_param(self, name: str) -> str | None:
        """Return the value of a query parameter, or `None`.

        Raises:
            BadRequestError: It is given more than once; of these, programs take different ones.
        """
        values = self.query_params.getall(name, [])
        if len(values) > 1:
            raise BadRequestError(errors=[FieldError(name, "one value", f"{len(values)}")])
        return str(values[0]) if values else None

    def page_request(self) -> PageRequest:
        """Return which part of a list the query asks for.

        Raises:
            BadRequestError: A parameter is wrong. Names every fault.
        """
        return parse_page_request(*map(self.query_param, ("page", "per_page", "cursor")))

    async def json_body(self, kind: type[T]) -> T:
        """Return the JSON body as a value of `kind`.

        Raises:
            UnsupportedMediaTypeError: It is declared as something else.
            PayloadTooLargeError: It has more than `JSON_BYTES` bytes.
            BadRequestError: It is no JSON, or cut short.
            ValidationError: A value in it has a wrong type. Names every fault.
        """
        is_json(self.headers.get("content-type"))
        return decode(kind, await read_body(self.receive, JSON_BYTES, self.settings.http))


def ok(data: object, status: int = 200, headers: Headers = ()) -> Response[bytes]:
    """Return the answer that holds `data`, in Litestar's words."""
    return to_litestar(success(data, status, headers))


def to_litestar(reply: RawResponse) -> Response[bytes]:
    """Return an answer in Litestar's words."""
    headers = dict(reply.headers)
    media_type = headers.pop("content-type")
    return Response(reply.body, status_code=reply.status, headers=headers, media_type=media_type)
