"""Principals in memory, so that most requests are authenticated without the database.

One generation covers all keys, sessions and accounts: a change of any of them in any process, such as a
revocation or a suspension, invalidates all principals in memory before the change returns. Such changes are
rare, and it takes one query to read a principal again. What is not valid is never kept: an unknown token is
looked up each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta

from attrs import field, frozen

from imagehost_core._util.lru import GenerationCache
from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import PRINCIPALS, Transaction
from imagehost_core.errors import UnauthorizedError
from imagehost_core.models import ALL_SCOPES, Account, ApiKey, Principal, Scope, Session

PRINCIPALS_IN_MEMORY = 10_000
"""Principals in memory, per process; each takes about 1 KB."""
LAST_USED_RESOLUTION = timedelta(minutes=1)
"""Resolution of `last_used_at`: one write a minute instead of one a request."""
INVALID_TOKEN = "expected a token that is valid now but received one that is unknown, expired or revoked"  # noqa: S105


def principal_of(token: ApiKey | Session | None, account: Account | None, now: datetime) -> Principal:
    """Return the principal of a token.

    Args:
        token: The key or session as it is stored now; `None` if there is none.
        account: Its account as it is stored now; `None` if there is none.
        now: The current time.

    Raises:
        UnauthorizedError: The token is unknown, revoked or has expired, or its account is suspended or gone.
            The error does not say which.
    """
    is_expired = token is None or (token.expires_at is not None and token.expires_at <= now)
    if token is None or account is None or is_expired or account.suspended_at is not None:
        raise UnauthorizedError(INVALID_TOKEN)
    if isinstance(token, Session):
        return Principal(account, ALL_SCOPES, session_id=token.id, expires_at=token.expires_at)
    if token.revoked_at is not None:
        raise UnauthorizedError(INVALID_TOKEN)
    return Principal(
        account, frozenset(map(Scope, token.scopes)), key_id=token.id, expires_at=token.expires_at
    )


@frozen
class PrincipalCache:
    """The principals that tokens had when the database was last read."""

    _locks: LockManager = field(repr=False)
    _generations: GenerationTable = field(repr=False)
    _entries: GenerationCache[str, tuple[Principal, datetime]] = field(
        factory=lambda: GenerationCache[str, tuple[Principal, datetime]](PRINCIPALS_IN_MEMORY), repr=False
    )

    def generation(self) -> int | None:
        """Return the generation to pass to `put` with what is read next, or `None` during a change."""
        return self._generations.read(PRINCIPALS)

    def get(self, token_hash: str, now: datetime) -> Principal | None:
        """Return the principal of a token.

        Returns:
            `None` if the database must be read: nothing valid is in memory, the token has expired, or its
            `last_used_at` must be updated.
        """
        entry = self._entries.get(token_hash, self._generations.read(PRINCIPALS))
        if entry is None:
            return None
        principal, last_used_at = entry
        is_expired = principal.expires_at is not None and principal.expires_at <= now
        return None if is_expired or abs(now - last_used_at) >= LAST_USED_RESOLUTION else principal

    def put(
        self, token_hash: str, principal: Principal, generation: int | None, last_used_at: datetime
    ) -> None:
        """Keep a principal that was read from the database.

        Args:
            token_hash: The hash of its token.
            principal: The principal.
            generation: The generation before it was read.
            last_used_at: The stored time of the token's last use.
        """
        self._entries.put(token_hash, (principal, last_used_at), generation)

    @contextmanager
    def invalidated_by(self, begin: AbstractContextManager[Transaction]) -> Iterator[Transaction]:
        """Run a block in a write transaction that changes what principals are read from.

        All principals in memory become invalid in every process of every host before it returns.

        Args:
            begin: The transaction.
        """
        with (
            self._locks.acquire(PRINCIPALS, PRINCIPALS),
            self._generations.bump(PRINCIPALS),
            begin as transaction,
        ):
            yield transaction
            transaction.invalidate([PRINCIPALS])
