"""Throttling of password attempts: sign-in and registration.

Attempts are limited per account and per IP address, before any hash is computed: a hash costs 0.1 s of CPU
and 64 MiB of memory.
"""

from __future__ import annotations

from imagehost_core.errors import RateLimitError
from imagehost_server.api.request import ApiRequest


async def throttle_password_attempt(request: ApiRequest, name: str) -> None:
    """Count a password attempt, or raise RateLimitError.

    The response's rate limit headers then describe these windows, if they are tighter than the API's.

    Args:
        request: The request that has the password.
        name: The account name; the account need not exist.

    Raises:
        RateLimitError: The account or the IP address has no attempts left.
    """
    state = request.scope["state"]
    decision = await request.executors.database.run(
        request.host.rate_limiter.admit_sign_in, name, request.identity.ip_address
    )
    try:
        decision.raise_if_refused(request.host.now())
    except RateLimitError:
        state["decision"] = decision
        raise
    if decision.window is not None:
        api_decision = state["decision"]
        if api_decision.window is None or decision.remaining < api_decision.remaining:
            state["decision"] = decision
