"""Throttling within a request: password attempts, and the image ids of bulk requests.

Password attempts are limited per IP address and delayed by those of the account, before any hash is computed:
a hash costs 0.1 s of CPU and 64 MiB of memory. Attempts count for names that no account has as well, so that
the delay does not reveal account names.
"""

from __future__ import annotations

from collections.abc import Callable

from imagehost_core.errors import RateLimitError
from imagehost_core.limits import Decision
from imagehost_server.api.request import ApiRequest


async def throttle_password_attempt(request: ApiRequest, name: str) -> None:
    """Count a password attempt, and wait if the account has had many; or raise RateLimitError.

    The response's rate limit headers then describe these windows, if they are tighter than the API's.

    Args:
        request: The request that has the password.
        name: The account name; the account need not exist.

    Raises:
        RateLimitError: The IP address has no attempts left.
    """
    attempt = await request.executors.database.run(
        request.host.rate_limiter.admit_sign_in, name, request.identity.ip_address
    )
    _apply(request, attempt.decision)
    await request.executors.sign_in_delays.wait(attempt.delay_seconds)


def bulk_admission(request: ApiRequest) -> Callable[[int], None]:
    """Return a function that counts the image ids of a bulk request, or raises RateLimitError.

    The response's rate limit headers then describe this window, if it is tighter than the API's.

    Args:
        request: The request, which is counted as one API request besides.
    """

    def admit(ids: int) -> None:
        _apply(request, request.host.rate_limiter.admit_bulk(request.account, ids), request.account.name)

    return admit


def _apply(request: ApiRequest, decision: Decision, account: str | None = None) -> None:
    """Raise RateLimitError if a request is refused, and select the window of its rate limit headers."""
    state = request.scope["state"]
    try:
        decision.raise_if_refused(request.host.now(), account)
    except RateLimitError:
        state["decision"] = decision
        raise
    if decision.window is not None:
        # A web page is not counted as an API request.
        api_decision = state.get("decision")
        if api_decision is None or api_decision.window is None or decision.remaining < api_decision.remaining:
            state["decision"] = decision
