"""Sessions of signed-in users. Who may have one is the caller's to check: passwords are not known here."""

from __future__ import annotations

from datetime import timedelta

from attrs import field, frozen

from imagehost_core.errors import UnauthorizedError
from imagehost_core.models import Account, SessionWithToken
from imagehost_core.services.context import HostContext
from imagehost_core.tokens import TokenKind, new_token, token_hash


@frozen
class SessionService:
    """The sessions of a host."""

    _context: HostContext = field(repr=False)

    def create(self, account: Account) -> SessionWithToken:
        """Begin a session of an account whose password was just checked.

        Raises:
            UnauthorizedError: The account is suspended.
        """
        if account.suspended_at is not None:
            raise UnauthorizedError("expected an account that is not suspended")
        context = self._context
        token, now = new_token(TokenKind.SESSION, context.random), context.clock()
        expires_at = now + timedelta(seconds=context.settings.sessions.lifetime_seconds)
        with context.database.transaction() as transaction:
            context.sessions.insert(transaction, account.id, token_hash(token), now, expires_at)
        return SessionWithToken(account, token, expires_at)

    def end(self, token: str) -> None:
        """End the session of a token, at once and in every process. One that has ended stays so."""
        with self._context.database.transaction() as transaction:
            self._context.sessions.delete(transaction, token_hash(token))
