"""The `Idempotency-Key` header: a repeated request returns the stored response of the first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from hashlib import sha256

import msgspec
from anyio import current_time, sleep

from imagehost_core.error_responses import JSON_HEADERS, Headers
from imagehost_core.services.idempotency import WAIT_SECONDS, IdempotentRequest
from imagehost_server.http.responses import RawResponse
from imagehost_server.routes.handler import ApiRequest

REPLAYED_HEADERS: Headers = (("idempotent-replayed", "true"),)

MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.02, 0.5
"""The first and the longest pause between two looks at a request in progress; each is twice the last."""


def fingerprint(operation: str, payload: object) -> str:
    """Return a hash of a request, which distinguishes it from other requests under the same key.

    Args:
        operation: The operation's name.
        payload: Everything the request contains, in types that JSON has.
    """
    return sha256(msgspec.json.encode([operation, payload])).hexdigest()


async def run_idempotent(
    request: ApiRequest,
    fingerprint: str,
    action: Callable[[IdempotentRequest | None], Awaitable[RawResponse]],
) -> RawResponse:
    """Return the response of a request, which is processed once per idempotency key.

    Only successful responses are stored: a request that failed has had no effect and may be repeated. While
    another request with the key is in progress, this one waits without a thread.

    Args:
        request: The request; without an `Idempotency-Key` it is processed at once.
        fingerprint: Its `fingerprint`.
        action: Processes it.

    Raises:
        BadRequestError: The key is not 1–255 printable ASCII characters.
        ConflictError: The key was used for another request, or the first is still in progress.
        UnavailableError: A request under another key with the same lock did not end in time.
    """
    account, key = request.account, request.idempotency_key
    idempotency, run = request.host.idempotency, request.executors.database.run
    if key is None:
        return await action(None)
    deadline, pause = current_time() + WAIT_SECONDS, MIN_PAUSE_SECONDS
    with ExitStack() as stack:
        while (
            begun := await run(stack.enter_context, idempotency.try_begin(account, key, fingerprint))
        ) is None:
            if current_time() >= deadline:
                raise await run(idempotency.in_progress_error, account, key)
            stack.close()
            await sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)
        stored = begun.response
        if stored is not None:
            return RawResponse(stored.status, stored.body, (*JSON_HEADERS, *REPLAYED_HEADERS))
        response = await action(begun)
        await run(begun.complete, response.status, response.body)
        return response
