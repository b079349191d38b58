"""Requests with an `Idempotency-Key`: answered once, and once more in the same words."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import msgspec

from imagehost_core import ImageHost
from imagehost_core.models import Account
from imagehost_core.services import IdempotentRequest
from imagehost_server.http.responses import JSON_HEADERS, Headers, RawResponse

REPLAYED_HEADERS: Headers = (("idempotent-replayed", "true"),)


def fingerprint(operation: str, payload: object) -> str:
    """Return what tells a request from others under the same key: a hash of all that it says.

    Args:
        operation: Which operation is asked for.
        payload: What is said, as JSON can have it.
    """
    return sha256(msgspec.json.encode([operation, payload])).hexdigest()


def run_idempotent(
    host: ImageHost,
    account: Account,
    key: str | None,
    request: str,
    act: Callable[[IdempotentRequest | None], RawResponse],
) -> RawResponse:
    """Return what a request is answered; what it does is done once.

    Only success is kept: a request that failed has done nothing, and may be tried again.

    Args:
        host: The host that answers.
        account: Whose request.
        key: The `Idempotency-Key`, or `None`.
        request: The request's fingerprint.
        act: Does what is asked for.

    Raises:
        BadRequestError: The key is not one.
        ConflictError: Another request has the key, or the first is still under way.
    """
    if key is None:
        return act(None)
    with host.idempotency.begin(account, key, request) as claim:
        if claim.response is not None:
            return RawResponse(claim.response.status, claim.response.body, (*JSON_HEADERS, *REPLAYED_HEADERS))
        reply = act(claim)
        claim.complete(reply.status, reply.body)
        return reply
