"""How many requests a caller may make, counted in every process alike."""

from __future__ import annotations

from attrs import field, frozen

from imagehost_core.limits import Decision, RateLimitPolicy
from imagehost_core.limits.keys import account_key, address_key, sign_in_keys
from imagehost_core.models import Account
from imagehost_core.services.context import HostContext
from imagehost_core.settings import LimitSettings


@frozen
class WindowState:
    """A window that limits an account, and what is left in it.

    Attributes:
        name: Such as `api_per_minute`.
        limit: How many requests it admits, at least 1.
        remaining: Requests left in it.
        reset: When it ends, as a Unix timestamp.
    """

    name: str
    limit: int
    remaining: int
    reset: int


@frozen
class RateLimiter:
    """The limits of a host."""

    _context: HostContext = field(repr=False)

    def limits_of(self, account: Account) -> LimitSettings:
        """Return the limits of an account: the host's, but for those of its own."""
        return self._context.settings.limits.for_account(account.limits)

    def admit(self, account: Account, *, upload: bool = False) -> Decision:
        """Count one more API request of an account, if it is admitted.

        Args:
            account: Whose.
            upload: Whether it is an upload request.
        """
        limits = self.limits_of(account)
        return self._admit(account_key(account.id), limits.uploads if upload else limits.api)

    def admit_address(self, address: str) -> Decision:
        """Count one more request without a good token from a client address, if it is admitted."""
        return self._admit(address_key(address), self._context.settings.limits.unauthenticated)

    def admit_sign_in(self, name: str, address: str) -> Decision:
        """Count one more attempt to sign in, if both the account and the address have one left.

        The address is asked first, and an attempt that it refuses is none of the account's: nobody can
        use up the attempts of many accounts from one address.
        """
        policy = self._context.settings.limits.sign_ins
        of_account, of_address = sign_in_keys(name, address)
        first = self._admit(of_address, policy)
        if not first.admitted:
            return first
        second = self._admit(of_account, policy)
        return min(first, second, key=lambda decision: (decision.admitted, decision.remaining))

    def windows(self, account: Account) -> tuple[WindowState, ...]:
        """Return the windows that limit an account, and what is left in each.

        Contract 9: *0 = none*. What has no limit is no window: a limit of 0 with nothing remaining would say
        the contrary of what it means.
        """
        policy = self.limits_of(account).uploads
        now = self._context.clock()
        hits = self._context.rate_limits.peek(account_key(account.id), policy)
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

    def _admit(self, bucket: str, policy: RateLimitPolicy) -> Decision:
        return self._context.rate_limits.admit(bucket, policy)
