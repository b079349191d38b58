"""Reads of the JSON API on the HTTP fast path: their handlers run on the event loop, without Litestar.

A read is taken if its token is in memory and has the scope of the route, and if its handler needs no thread.
Everything else takes the way through Litestar, with the same functions in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Coroutine, Iterable, Iterator, MutableMapping
from functools import lru_cache
from inspect import unwrap
from typing import Any, cast

from attrs import evolve, frozen

from imagehost_core import ImageHost
from imagehost_core.authorization import Requirement, require_permission
from imagehost_core.errors import ForbiddenError
from imagehost_core.limits import Decision
from imagehost_core.models import Account
from imagehost_server._executors import Executors
from imagehost_server.auth.identity import PRINCIPAL, IdentityMiddleware, RequestIdentity
from imagehost_server.http.responses import EncodedResponse, RawResponse, error_response
from imagehost_server.routes.accounts import get_account
from imagehost_server.routes.handler import Handler, Operation
from imagehost_server.routes.images import get_image, list_gallery, list_images
from imagehost_server.routes.lists import is_short_read
from imagehost_server.settings import ServerSettings

Parameters = tuple[tuple[str, str], ...]

_QUERY = re.compile(r"\w+=[\w.~-]+(?:&\w+=[\w.~-]+)*", re.ASCII)
"""A query that every parser reads alike."""


@frozen
class Read:
    """A route whose handler runs on the event loop.

    Attributes:
        route: The template of its path, as in the metrics.
        requirement: What it requires of a token.
        handle: Its handler, without checks of bodies and of repeated parameters, which no read has.
        is_list: Whether the response is a page of a list, which may be large.
        arguments: The path parameters of a request.
    """

    route: str
    requirement: Requirement | None
    handle: Handler
    is_list: bool
    arguments: dict[str, str]


_HANDLERS = {get_image: False, get_account: False, list_images: True, list_gallery: True}
"""Handlers that wait for nothing where `Executors.reads` runs on the event loop, and which are lists."""


def _routes() -> Iterator[tuple[re.Pattern[str], Read]]:
    for handler, is_list in _HANDLERS.items():
        operation: Operation = handler.opt["operation"]
        _, path = operation.route.split(" ")
        pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[0-9A-Za-z]+)", path))
        yield pattern, Read(path, operation.requirement, unwrap(handler.fn), is_list, {})


_ROUTES = tuple(_routes())


@frozen
class _Request:
    """What the handlers of reads use of an `ApiRequest`."""

    host: ImageHost
    settings: ServerSettings
    executors: Executors
    identity: RequestIdentity
    parameters: Parameters

    @property
    def account(self) -> Account:
        """The account of the token."""
        return self.identity.require_principal().account

    @property
    def query_params(self) -> _Request:
        """The query parameters."""
        return self

    def multi_items(self) -> Parameters:
        """Return the names and values of the query parameters."""
        return self.parameters


@frozen
class Reads:
    """The reads of a host that the fast path answers.

    Attributes:
        host: The host.
        settings: The settings of the server.
        executors: Runs their handlers.
        identity: Authenticates and counts requests as on the slow path.
    """

    host: ImageHost
    settings: ServerSettings
    executors: Executors
    identity: IdentityMiddleware

    def find(self, path: str) -> Read | None:
        """Return the read that a path requests, without the root path; `None` if there is none."""
        for pattern, read in _ROUTES:
            if match := pattern.fullmatch(path):
                return evolve(read, arguments=match.groupdict())
        return None

    def respond(
        self,
        read: Read,
        query: str,
        headers: Iterable[tuple[bytes, bytes]],
        ip_address: str,
        state: MutableMapping[str, Any],
    ) -> tuple[RawResponse, Decision] | None:
        """Return the response to a read, and the decision of the rate limits.

        Args:
            read: The read, from `find`.
            query: The query of the request.
            headers: Its headers.
            ip_address: The IP address of its client.
            state: The state of the request, which gets the principal and the error as on the slow path.

        Returns:
            `None`, without side effects, if the request must take the slow path.
        """
        parameters = _parse_query(query)
        if parameters is None or not self.executors.reads_on_loop or not is_short_read(parameters):
            return None
        identity = self.identity.identify_cached(headers, ip_address)
        principal = identity.principal
        if identity.by_cookie or (principal is None and (identity.auth_error is None or read.requirement)):
            return None
        if principal is not None and read.requirement is not None:
            try:
                require_permission(principal, read.requirement)
            except ForbiddenError:
                return None
        decision = self.identity.try_admit(identity)
        if decision is None:
            return None
        # The request is counted, so it does not take the slow path any more, whatever it responds.
        state[PRINCIPAL] = principal
        request = _Request(self.host, self.settings, self.executors, identity, parameters)
        try:
            decision.raise_if_refused(self.host.now(), None if principal is None else principal.account.name)
            response = _run(read.handle(request=request, **read.arguments))
        except Exception as error:
            return error_response(error, state), decision
        return response.raw, decision


def _run(handling: Awaitable[Any]) -> EncodedResponse:
    """Return the result of a coroutine that waits for nothing."""
    coroutine = cast("Coroutine[Any, Any, EncodedResponse]", handling)
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return cast("EncodedResponse", ended.value)
    coroutine.close()
    raise AssertionError("expected a read that waits for nothing")


@lru_cache(1_000)
def _parse_query(query: str) -> Parameters | None:
    """Return the parameters of a query, or `None` for one that Litestar must read."""
    if not query:
        return ()
    if _QUERY.fullmatch(query) is None:
        return None
    return tuple((name, value) for pair in query.split("&") for name, _, value in [pair.partition("=")])
