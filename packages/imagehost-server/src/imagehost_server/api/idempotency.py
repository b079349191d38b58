"""The `Idempotency-Key` header: a repeated request returns the stored response of the first."""

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
    """Return a hash of a request, which distinguishes it from other requests under the same key.

    Args:
        operation: The operation's name.
        payload: Everything the request contains, in types that JSON has.
    """
    return sha256(msgspec.json.encode([operation, payload])).hexdigest()


def run_idempotent(
    host: ImageHost,
    account: Account,
    key: str | None,
    request: str,
    action: Callable[[IdempotentRequest | None], RawResponse],
) -> RawResponse:
    """Return the response of a request, which is processed once per idempotency key.

    Only successful responses are stored: a request that failed has had no effect and may be repeated.

    Args:
        host: The host that stores the response.
        account: The account that sent the request.
        key: The `Idempotency-Key`; `None` runs `action` without one.
        request: The request's `fingerprint`.
        action: Processes the request.

    Raises:
        BadRequestError: The key is not 1–255 printable ASCII characters.
        ConflictError: The key was used for another request, or the first is still in progress.
    """
    if key is None:
        return action(None)
    with host.idempotency.begin(account, key, request) as idempotent:
        stored = idempotent.response
        if stored is not None:
            return RawResponse(stored.status, stored.body, (*JSON_HEADERS, *REPLAYED_HEADERS))
        response = action(idempotent)
        idempotent.complete(response.status, response.body)
        return response
