"""Sessions of signed-in users. Who may have one is the caller's to check: passwords are not known here."""

from __future__ import annotations

from datetime import timedelta

from attrs import field, frozen

from imagehost_core.errors import UnauthorizedError
from imagehost_core.models import Account, NewSession
from imagehost_core.services.context import Rooms
from imagehost_core.tokens import TokenKind, mint, token_hash


@frozen
class Sessions:
    """The sessions of a host."""

    _rooms: Rooms = field(repr=False)

    def create(self, account: Account) -> NewSession:
        """Begin a session of an account whose password was just checked.

        Raises:
            UnauthorizedError: The account is suspended.
        """
        if account.suspended_at is not None:
            raise UnauthorizedError("expected an account that is not suspended")
        rooms = self._rooms
        token, now = mint(TokenKind.SESSION, rooms.random), rooms.clock()
        expires_at = now + timedelta(seconds=rooms.settings.sessions.lifetime)
        with rooms.catalog.transaction() as transaction:
            rooms.sessions.insert(transaction, account.id, token_hash(token), now, expires_at)
        return NewSession(account, token, expires_at)

    def end(self, token: str) -> None:
        """End the session of a token, at once and in every process. One that has ended stays so."""
        with self._rooms.catalog.transaction() as transaction:
            self._rooms.sessions.delete(transaction, token_hash(token))
