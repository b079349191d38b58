"""Sessions of signed-in users. The caller checks the password."""

from __future__ import annotations

from datetime import timedelta

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import Database, SessionRepository
from imagehost_core.errors import UnauthorizedError
from imagehost_core.ids import Random
from imagehost_core.models import Account, SessionWithToken
from imagehost_core.settings import SessionSettings
from imagehost_core.tokens import TokenKind, new_token, token_hash


@frozen
class SessionService:
    """The sessions of a host."""

    _database: Database = field(repr=False)
    _sessions: SessionRepository = field(repr=False)
    _settings: SessionSettings = field(repr=False)
    _clock: Clock = field(repr=False)
    _random: Random = field(repr=False)

    def create(self, account: Account) -> SessionWithToken:
        """Create a session of an account whose password was just verified.

        Raises:
            UnauthorizedError: The account is suspended.
        """
        if account.suspended_at is not None:
            raise UnauthorizedError("expected an account that is not suspended")
        token, now = new_token(TokenKind.SESSION, self._random), self._clock()
        expires_at = now + timedelta(seconds=self._settings.lifetime_seconds)
        with self._database.transaction() as transaction:
            self._sessions.insert(transaction, account.id, token_hash(token), now, expires_at)
        return SessionWithToken(account, token, expires_at)

    def end(self, token: str) -> None:
        """End the session of a token at once, in every process; no error if it has ended."""
        with self._database.transaction() as transaction:
            self._sessions.delete(transaction, token_hash(token))
