"""Sessions of signed-in users. The caller checks the password."""

from __future__ import annotations

from datetime import timedelta
from typing import Unpack

from attrs import field, frozen

from imagehost_core.authorization import AuthorizedAccount
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.environment import Environment
from imagehost_core.errors import NotFoundError, UnauthorizedError, quote_value
from imagehost_core.ids import AccountId, SessionId, new_id
from imagehost_core.limits import ip_address_key
from imagehost_core.lists import PageKeywords, parse_page_request
from imagehost_core.models import Account, Deleted, Page, Session, SessionWithToken
from imagehost_core.services.principals import PrincipalCache
from imagehost_core.services.references import Owner, SessionRef, get_account, session_id_of
from imagehost_core.services.unit_of_work import UnitOfWorkFactory
from imagehost_core.settings import SessionSettings
from imagehost_core.tokens import TokenKind, new_token, token_hash

MAX_USER_AGENT = 255
"""Characters of a `User-Agent` that are stored."""
MAX_SESSIONS = 1_000
"""Sessions of one account; a sign-in beyond them ends the oldest, so that listing them has a largest cost."""


@frozen
class SessionService:
    """Signs accounts in, and lists and ends their sessions."""

    _records: Repositories = field(repr=False)
    _principals: PrincipalCache = field(repr=False)
    _units: UnitOfWorkFactory = field(repr=False)
    _settings: SessionSettings = field(repr=False)
    _env: Environment = field(repr=False)

    def create(
        self,
        account: Account,
        *,
        password_hash: str | None = None,
        user_agent: str = "",
        ip_address: str = "",
    ) -> SessionWithToken:
        """Create a session of an account whose password was just verified.

        An account has at most 1,000 sessions: one more ends the oldest.

        Args:
            account: The account.
            password_hash: The hash that the password was verified with: no session is created if the password
                has been changed since. `None` skips this check.
            user_agent: The client's `User-Agent`, for the owner's list of sessions; the first 255 characters
                are stored.
            ip_address: The client's IP address, likewise.

        Raises:
            UnauthorizedError: The account is suspended or deleted, or its password has been changed.
        """
        token = new_token(TokenKind.SESSION, self._env.random)
        now = self._env.clock()
        session = Session(
            id=new_id(SessionId, self._env.random),
            account_id=account.id,
            user_agent=_printable(user_agent),
            ip_address=ip_address,
            created_at=now,
            expires_at=now + timedelta(seconds=self._settings.lifetime_seconds),
            last_used_at=now,
        )
        is_full = self._records.sessions.count(account.id, now) >= MAX_SESSIONS
        begin = self._records.database.transaction(account.id)
        with self._principals.invalidated_by(begin) if is_full else begin as transaction:
            current = self._records.accounts.get_by_name(account.name, transaction)
            if current is None or current.id != account.id or current.suspended_at is not None:
                raise UnauthorizedError("expected an account that is not suspended")
            if password_hash not in (None, self._records.accounts.password_hash(account.id, transaction)):
                raise UnauthorizedError("expected the account's current password but received an old one")
            if is_full:
                self._records.sessions.delete_oldest(transaction, account.id, keep=MAX_SESSIONS - 1)
            self._records.sessions.insert(transaction, session, token_hash(token))
        return SessionWithToken(id=session.id, token=token, expires_at=session.expires_at, account=current)

    def list(self, *, owner: Owner, **page: Unpack[PageKeywords]) -> Page[Session]:
        """Return a page of an account's sessions that have not expired, newest first.

        Raises:
            NotFoundError: There is no such account.
        """
        account = get_account(self._records.accounts, owner)
        return self._records.sessions.list_by_account(
            account.id, self._env.clock(), parse_page_request(**page)
        )

    def is_known_client(self, name: str, ip_address: str) -> bool:
        """Return whether an account has a session that began at the client IP address.

        An account that does not exist costs the same statements, so that the time reveals no names.

        Args:
            name: The account's name; the account need not exist.
            ip_address: The client IP address; those of an IPv6 network (/64) are one client.
        """
        account = self._records.accounts.get_by_name(name)
        account_id = AccountId(0) if account is None else account.id
        began_at = self._records.sessions.ip_addresses(account_id, self._env.clock())
        return ip_address_key(ip_address) in map(ip_address_key, began_at)

    def delete(self, session: SessionRef | None = None, *, owner: Owner) -> Deleted:
        """End a session of an account at once, in every process.

        Args:
            session: The session; by default that of the token with which the account acts.
            owner: The account.

        Raises:
            NotFoundError: The account has no such session, or it has expired.
        """
        account = get_account(self._records.accounts, owner)
        if session is None and isinstance(account, AuthorizedAccount):
            session = account.principal.session_id
        session_id = session_id_of(session or "")
        with self._principals.invalidated_by(self._units.transaction(account)) as transaction:
            if self._records.sessions.get(session_id, account.id, self._env.clock(), transaction) is None:
                raise NotFoundError(
                    f"expected the id of one of your sessions but received {quote_value(session_id)}"
                )
            self._records.sessions.delete(transaction, session_id)
        return Deleted(id=session_id, deleted=True)


def _printable(text: str) -> str:
    """Return the first characters of a header value, with `?` for those that cannot be shown."""
    return "".join(char if char.isprintable() else "?" for char in text[:MAX_USER_AGENT])
