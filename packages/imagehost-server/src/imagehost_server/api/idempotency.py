"""Requests with an `Idempotency-Key`: answered once, and once more in the same words."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

import msgspec

from imagehost_core import ImageHost
from imagehost_core.models import Account
from imagehost_core.services import Claim
from imagehost_server.http.responses import JSON_HEADERS, Headers, Reply

REPLAYED: Headers = (("idempotent-replayed", "true"),)


def fingerprint(operation: str, told: object) -> str:
    """Return what tells a request from others under the same key: a hash of all that it says.

    Args:
        operation: Which operation is asked for.
        told: What is said, as JSON can have it.
    """
    return sha256(msgspec.json.encode([operation, told])).hexdigest()


def answer_once(
    host: ImageHost,
    account: Account,
    key: str | None,
    request: str,
    act: Callable[[Claim | None], Reply],
) -> Reply:
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
    with host.claim(account, key, request) as claim:
        if claim.answer is not None:
            return Reply(claim.answer.status, claim.answer.body, (*JSON_HEADERS, *REPLAYED))
        reply = act(claim)
        claim.answered(reply.status, reply.body)
        return reply
