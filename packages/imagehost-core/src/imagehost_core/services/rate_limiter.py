"""Rate limits of accounts and client IP addresses, counted across all processes of a data directory."""

from __future__ import annotations

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import RateLimitStore
from imagehost_core.limits import Decision, RateLimitPolicy, account_key, address_key, sign_in_keys
from imagehost_core.models import Account
from imagehost_core.settings import LimitSettings


@frozen
class WindowState:
    """A window that limits an account, and what is left in it.

    Attributes:
        name: Such as `api_per_minute`.
        limit: Requests that it admits, at least 1.
        remaining: Requests left.
        reset: Its end, as a Unix timestamp.
    """

    name: str
    limit: int
    remaining: int
    reset: int


@frozen
class RateLimiter:
    """The rate limits of a host."""

    _store: RateLimitStore = field(repr=False)
    _limits: LimitSettings = field(repr=False)
    _clock: Clock = field(repr=False)

    def limits_of(self, account: Account) -> LimitSettings:
        """Return the limits of an account: the host's, overridden by its own."""
        return self._limits.for_account(account.limits)

    def admit(self, account: Account, *, upload: bool = False) -> Decision:
        """Count an API request of an account, if it is admitted.

        Args:
            account: The account of the token.
            upload: Whether the windows of upload requests count it too.
        """
        limits = self.limits_of(account)
        return self._store.admit(account_key(account.id), limits.uploads if upload else limits.api)

    def admit_address(self, address: str) -> Decision:
        """Count a request without a valid token from a client IP address, if it is admitted."""
        return self._store.admit(address_key(address), self._limits.unauthenticated)

    def admit_sign_in(self, name: str, address: str) -> Decision:
        """Count an attempt to sign in, if both the account and the client IP address have one left.

        The IP address is counted first, and an attempt that it refuses does not count for the account: one
        address cannot use up the attempts of many accounts.
        """
        policy = self._limits.sign_ins
        of_account, of_address = sign_in_keys(name, address)
        first = self._store.admit(of_address, policy)
        if not first.admitted:
            return first
        second = self._store.admit(of_account, policy)
        return min(first, second, key=lambda decision: (decision.admitted, decision.remaining))

    def windows(self, account: Account) -> tuple[WindowState, ...]:
        """Return the windows that limit an account; a limit of 0 is unlimited and has none."""
        policy: RateLimitPolicy = self.limits_of(account).uploads
        now = self._clock()
        hits = self._store.peek(account_key(account.id), policy)
        return tuple(
            WindowState(
                name=window.name,
                limit=window.limit,
                remaining=max(0, window.limit - hits.get(window.name, 0)),
                reset=window.reset(now),
            )
            for window in policy
            if window.limit
        )
