"""Rate limits of accounts and client IP addresses, counted across all processes and hosts."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.limits import (
    MINUTE,
    Decision,
    RateLimitCounters,
    RateLimitPolicy,
    Window,
    account_key,
    ip_address_key,
    sign_in_delay,
    sign_in_keys,
)
from imagehost_core.models import Account, AccountLimits, RateLimitWindow
from imagehost_core.settings import LimitSettings


@frozen
class SignInAttempt:
    """An attempt to sign in that has been counted.

    Attributes:
        decision: Whether the client IP address may make it.
        delay_seconds: How long the check of the password must wait.
        is_first: Whether the client IP address has no other attempt in this minute, except right ones.
    """

    decision: Decision
    delay_seconds: float = 0.0
    is_first: bool = True


@frozen
class RateLimiter:
    """The admission of requests, counted in the windows of accounts and IP addresses."""

    _store: RateLimitCounters = field(repr=False)
    _limits: LimitSettings = field(repr=False)
    _clock: Clock = field(repr=False)

    def limits_of(self, account: Account) -> LimitSettings:
        """Return the limits of an account: the host's, overridden by its own."""
        return self._limits.for_account(account)

    def admit(self, account: Account, *, upload: bool = False) -> Decision:
        """Decide on an API request of an account, and count it if it is admitted.

        Args:
            account: The account of the token.
            upload: Whether the windows of upload requests count it too.
        """
        return self._store.admit(account_key(account.id), self._policy(account, upload))

    def try_admit(self, account: Account, *, upload: bool = False) -> Decision | None:
        """Decide on an API request as `admit` does, but without waiting, so that an event loop can call it.

        Returns:
            The decision; `None`, and nothing is counted, if it would have to wait.
        """
        return self._store.try_admit(account_key(account.id), self._policy(account, upload))

    def admit_bulk(self, account: Account, ids: int) -> Decision:
        """Decide on the image ids in a bulk request, and count them if all are admitted.

        The request itself is counted by `admit`.

        Args:
            account: The account of the token.
            ids: The number of distinct ids, at least 1.
        """
        return self._store.admit(account_key(account.id), self.limits_of(account).bulk_ids, ids)

    def admit_unauthenticated(self, ip_address: str) -> Decision:
        """Decide on a request without a valid token from a client IP address, and count it if admitted."""
        return self._store.admit(ip_address_key(ip_address), self._host_policies.unauthenticated)

    def try_admit_unauthenticated(self, ip_address: str) -> Decision | None:
        """Decide on a request without a valid token as `admit_unauthenticated` does, but without waiting."""
        return self._store.try_admit(ip_address_key(ip_address), self._host_policies.unauthenticated)

    def admit_page(self, ip_address: str) -> Decision:
        """Decide on a web page that a client IP address requests, and count it if admitted."""
        return self._store.admit(ip_address_key(ip_address), self._limits.pages)

    def try_admit_page(self, ip_address: str) -> Decision | None:
        """Decide on a web page as `admit_page` does, but without waiting."""
        return self._store.try_admit(ip_address_key(ip_address), self._limits.pages)

    def admit_sign_in(self, name: str, ip_address: str) -> SignInAttempt:
        """Decide on a sign-in attempt by the client IP address, and count it for the account if admitted.

        An IP address has the attempts of one account for all accounts together. The account itself refuses
        nothing: the attempts of other clients only delay the next ones.
        """
        name_key, client_key = sign_in_keys(name, ip_address)
        decision = self._store.admit(client_key, self._limits.sign_ins)
        if not decision.admitted or decision.window is None:
            return SignInAttempt(decision)
        total = self._store.admit(name_key, _ACCOUNT_SIGN_INS)
        delay = sign_in_delay(total.limit - total.remaining, decision.limit)
        return SignInAttempt(decision, delay, is_first=decision.limit - decision.remaining == 1)

    def forget_sign_in(self, name: str, ip_address: str) -> None:
        """Count an attempt of `admit_sign_in` no more, as it had the right password or none was checked.

        So as many people as there are can sign in from one IP address, and only failures slow an account.
        """
        name_key, client_key = sign_in_keys(name, ip_address)
        if any(window.limit for window in self._limits.sign_ins):
            self._store.refund(client_key, self._limits.sign_ins)
            self._store.refund(name_key, _ACCOUNT_SIGN_INS)

    def windows(self, account: Account) -> tuple[RateLimitWindow, ...]:
        """Return the windows that limit an account; a limit of 0 is unlimited and has none."""
        policy = _policies(self._limits, account.limits).all
        now = self._clock()
        hits = self._store.peek(account_key(account.id), policy)
        return tuple(
            RateLimitWindow(
                name=window.name,
                limit=window.limit,
                remaining=max(0, window.limit - hits.get(window.name, 0)),
                reset=datetime.fromtimestamp(window.reset(now), UTC),
            )
            for window in policy
            if window.limit
        )

    def _policy(self, account: Account, upload: bool) -> RateLimitPolicy:
        policies = _policies(self._limits, account.limits)
        return policies.uploads if upload else policies.api

    @property
    def _host_policies(self) -> _Policies:
        return _policies(self._limits, _NO_OVERRIDES)


@frozen
class _Policies:
    """The windows of limits, which would take longer to build than to count in."""

    api: RateLimitPolicy
    uploads: RateLimitPolicy
    all: RateLimitPolicy
    unauthenticated: RateLimitPolicy


@lru_cache(1_000)
def _policies(settings: LimitSettings, overrides: AccountLimits) -> _Policies:
    limits = settings.overridden(overrides)
    every = (*limits.uploads, *limits.bulk_ids)
    return _Policies(limits.api, limits.uploads, every, limits.unauthenticated)


_NO_OVERRIDES = AccountLimits()
_ACCOUNT_SIGN_INS = (Window("sign_ins_per_minute", MINUTE, 2**31),)
"""A limit that is never reached: the attempts are counted only."""
