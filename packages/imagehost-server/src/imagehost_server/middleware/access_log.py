"""The access log: a line for each request, and for each connection that is cut after its response."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from imagehost_core.errors import ImageHostError, quote_value
from imagehost_core.models import Principal
from imagehost_core.tokens import hide_tokens
from imagehost_server.auth.identity import PRINCIPAL
from imagehost_server.http.responses import REFUSAL
from imagehost_server.logging_config import ACCESS, LogHandler

MAX_LOGGED_PATH = 200

access_log = logging.getLogger(ACCESS)

DETAILS = "details"
"""The member of `scope["state"]` with the fields that the handler of a request adds."""


def who(state: Mapping[str, Any]) -> dict[str, object]:
    """Return the account of a request's token, and the id of its key or session; nothing without one."""
    principal = state.get(PRINCIPAL)
    if not isinstance(principal, Principal):
        return {}
    token = {"key": principal.key_id} if principal.key_id else {"session": principal.session_id}
    return {"account": principal.account.name, **token}


def access_fields(state: Mapping[str, Any]) -> dict[str, object]:
    """Return the further fields of a request's access line, by the state of the request."""
    fields = who(state)
    if isinstance(refusal := state.get(REFUSAL), ImageHostError):
        fields["code"] = refusal.code
        if refusal.errors:
            fields["field"] = ",".join(error.name for error in refusal.errors)
    fields |= state.get(DETAILS, {})
    return fields


@frozen
class AccessLog:
    """The access log, if it is on."""

    is_on: bool

    def request(
        self,
        method: str,
        path: str,
        ip_address: str,
        status: int,
        request_id: str,
        seconds: float,
        **details: object,
    ) -> None:
        """Write the line of a request.

        Args:
            method: The HTTP method.
            path: The path, without the query.
            ip_address: The client's IP address.
            status: The status of the response; 0 = no response was sent.
            request_id: The request id.
            seconds: How long the request took.
            details: Further fields of the line.
        """
        if self.is_on and access_log.isEnabledFor(logging.INFO):
            fields: dict[str, object] = {
                "method": method,
                "path": quote_value(hide_tokens(path), MAX_LOGGED_PATH)[1:-1],
                "status": status,
                "ms": round(1000 * seconds, 1),
                "client": ip_address,
                "request_id": request_id,
            }
            _handle("request", {**fields, **details})

    def response_cut(self, client: tuple[str, int] | None, request_id: str, unsent_bytes: int) -> None:
        """Write that a connection has ended whose client reads responses, logged before, too slowly.

        Args:
            client: The IP address and the port of the peer.
            request_id: The id of the last request.
            unsent_bytes: Bytes of the responses that the kernel had not taken.
        """
        if self.is_on and access_log.isEnabledFor(logging.INFO):
            fields = {"client": client[0] if client else "", "request_id": request_id, "cut": "slow"}
            _handle("response cut", {**fields, "unsent_bytes": unsent_bytes})


def _handle(event: str, fields: dict[str, object]) -> None:
    """Write a line, without the search for the calling function that `Logger.info` does."""
    match access_log.handlers:
        case [LogHandler() as handler] if not access_log.propagate:
            handler.emit_access(event, fields)
        case _:
            record = logging.LogRecord(access_log.name, logging.INFO, "", 0, event, None, None)
            record.fields = fields
            access_log.handle(record)
