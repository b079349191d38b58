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

access_logger = logging.getLogger(ACCESS)

HANDLER_FIELDS = "handler_fields"
"""The member of `scope["state"]` with the fields that the handler of a request adds."""


def token_fields(state: Mapping[str, Any]) -> dict[str, object]:
    """Return the fields of a request's token: its account, and its key or session; none without one."""
    principal = state.get(PRINCIPAL)
    if not isinstance(principal, Principal):
        return {}
    token = {"key": principal.key_id} if principal.key_id else {"session": principal.session_id}
    return {"account": principal.account.name, **token}


def access_fields(state: Mapping[str, Any]) -> dict[str, object]:
    """Return the further fields of a request's line: of its token, of its error, and of its handler."""
    fields = token_fields(state)
    if isinstance(refusal := state.get(REFUSAL), ImageHostError):
        fields["code"] = refusal.code
        if refusal.errors:
            fields["field"] = ",".join(error.name for error in refusal.errors)
    fields |= state.get(HANDLER_FIELDS, {})
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
        if self.is_on and access_logger.isEnabledFor(logging.INFO):
            fields: dict[str, object] = {
                "method": method,
                "path": quote_value(hide_tokens(path), MAX_LOGGED_PATH)[1:-1],
                "status": status,
                "ms": round(1000 * seconds, 1),
                "client": ip_address,
                "request_id": request_id,
            }
            _write("request", {**fields, **details})

    def response_cut(self, client: tuple[str, int] | None, request_id: str, unsent_bytes: int) -> None:
        """Write that a connection has ended whose client reads responses, logged before, too slowly.

        Args:
            client: The IP address and the port of the peer.
            request_id: The id of the last request.
            unsent_bytes: Bytes of the responses that the kernel had not taken.
        """
        if self.is_on and access_logger.isEnabledFor(logging.INFO):
            fields = {"client": client[0] if client else "", "request_id": request_id, "cut": "slow"}
            _write("response cut", {**fields, "unsent_bytes": unsent_bytes})


def _write(event: str, fields: dict[str, object]) -> None:
    """Write a line, without the search for the calling function that `Logger.info` does."""
    match access_logger.handlers:
        case [LogHandler() as handler] if not access_logger.propagate:
            handler.emit_access(event, fields)
        case _:
            record = logging.LogRecord(access_logger.name, logging.INFO, "", 0, event, None, None)
            record.fields = fields
            access_logger.handle(record)
