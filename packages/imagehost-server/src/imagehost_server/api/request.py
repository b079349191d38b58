"""The request class of API handlers: host, identity and the limits of JSON bodies."""

from __future__ import annotations

from collections.abc import Mapping

from litestar import Request
from litestar.datastructures import State

from imagehost_core import ImageHost
from imagehost_core.errors import BadRequestError, FieldError
from imagehost_core.models import Account, Principal
from imagehost_server._executors import Executors
from imagehost_server.api.readiness import ReadinessMonitor
from imagehost_server.auth.identity import RequestIdentity
from imagehost_server.http.body import JSON_BYTES, read_body, require_json
from imagehost_server.metrics import Recorder
from imagehost_server.settings import ServerSettings


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
    def recorder(self) -> Recorder:
        """The counters of this process."""
        recorder = self.app.state["recorder"]
        assert isinstance(recorder, Recorder)
        return recorder

    @property
    def readiness(self) -> ReadinessMonitor:
        """The checks of this process's readiness."""
        readiness = self.app.state["readiness"]
        assert isinstance(readiness, ReadinessMonitor)
        return readiness

    @property
    def account(self) -> Account:
        """The account as the token acts for it; only on routes that require one."""
        account = self.user
        assert isinstance(account, Account)
        return account

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

    async def require_valid_token(self) -> None:
        """Raise UnauthorizedError if the request's token has ended while its body arrived.

        It saves work, and errors of what only a valid token may learn; the core decides, in the transaction
        of the change.
        """
        token = self.identity.token
        if self.identity.principal is not None and self.host.keys.authenticate_cached(token) is None:
            await self.executors.database.run(self.host.authenticate, token)

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
