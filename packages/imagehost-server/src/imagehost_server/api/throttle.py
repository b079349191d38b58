"""Attempts that cost a hash of a password: signing in, and making an account.

Contract 8: *sign-in is throttled per account and address*, and it is so before any hash is made: a hash
costs a tenth of a second and 64 MiB, and whoever asks for many must not get them.
"""

from __future__ import annotations

from imagehost_core.errors import RateLimitError
from imagehost_server.api.request import ApiRequest


async def throttle_password_attempt(request: ApiRequest, name: str) -> None:
    """Let an attempt pass that the account's and the address's windows have room for.

    The headers of the answer then tell of these windows, where they are the tighter ones.

    Args:
        request: Which.
        name: Of the account; there need not be one.

    Raises:
        RateLimitError: There is no room.
    """
    admit, state = request.host.rate_limiter.admit_sign_in, request.scope["state"]
    decision = await request.executors.database.run(admit, name, request.identity.ip_address)
    try:
        decision.raise_if_refused(request.host.now())
    except RateLimitError:
        state["decision"] = decision
        raise
    if decision.window is not None:
        others = state["decision"]
        if others.window is None or decision.remaining < others.remaining:
            state["decision"] = decision
