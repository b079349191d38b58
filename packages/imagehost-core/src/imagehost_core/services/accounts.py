"""Accounts: create, limit, suspend and delete them."""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import (
    AccountRepository,
    Database,
    ImageRepository,
    SessionRepository,
    WebhookRepository,
)
from imagehost_core.errors import (
    ConflictError,
    FieldError,
    NotFoundError,
    UnauthorizedError,
    quote_value,
)
from imagehost_core.ids import ImageId
from imagehost_core.models import Account, AccountUsage, LimitOverrides
from imagehost_core.services.owners import get_account, require_account_name
from imagehost_core.services.references import SessionRef, session_id_of


@frozen
class AccountService:
    """The accounts of a host."""

    _database: Database = field(repr=False)
    _accounts: AccountRepository = field(repr=False)
    _sessions: SessionRepository = field(repr=False)
    _webhooks: WebhookRepository = field(repr=False)
    _images: ImageRepository = field(repr=False)
    _clock: Clock = field(repr=False)
    _delete_image: Callable[[ImageId], object] = field(repr=False)

    def require_name(self, name: str) -> None:
        """Raise ValidationError unless `name` can be the name of an account, whether or not one has it.

        Raises:
            ValidationError: It is empty, too long, or has a character that is not allowed.
        """
        require_account_name(name)

    def create(self, name: str, *, password_hash: str | None = None) -> Account:
        """Create an account.

        Args:
            name: 1–64 letters, digits or `._@+-`.
            password_hash: An argon2id hash; `None` for an account without a password.

        Raises:
            ValidationError: The name is not allowed.
            ConflictError: The name is taken.
        """
        require_account_name(name)
        with self._database.transaction() as transaction:
            if self._accounts.get_by_name(name, transaction) is not None:
                raise ConflictError(
                    errors=[FieldError("username", "a name that is not taken", quote_value(name))]
                )
            self._accounts.insert(transaction, name, password_hash, self._clock())
        return self.get(name)

    def get(self, name: str) -> Account:
        """Return the account of a name.

        Raises:
            NotFoundError: There is none.
        """
        return get_account(self._accounts, name)

    def get_or_create(self, name: str) -> Account:
        """Return the account of a name; create it, without a password, if it does not exist.

        For programs that register their users elsewhere.

        Raises:
            ValidationError: The name is not allowed.
        """
        account = self._accounts.get_by_name(name)
        if account is not None:
            return account
        require_account_name(name)
        with self._database.transaction() as transaction:
            if self._accounts.get_by_name(name, transaction) is None:
                self._accounts.insert(transaction, name, None, self._clock())
        return self.get(name)

    def list(self) -> tuple[Account, ...]:
        """Return all accounts, ordered by name."""
        return self._accounts.list_all()

    def set_password_hash(
        self, name: str, password_hash: str, *, replaces: str | None = None, keep: SessionRef | None = None
    ) -> None:
        """Replace the password hash of an account and end all its sessions, or all but one.

        Args:
            name: The account's name.
            password_hash: An argon2id hash.
            replaces: The hash that the current password was verified with, if it was.
            keep: The session that changes its account's password; it does not end.

        Raises:
            NotFoundError: There is no such account.
            UnauthorizedError: The session has ended meanwhile.
            ConflictError: The password has been changed since it was verified.
        """
        account = self.get(name)
        kept = None if keep is None else session_id_of(keep)
        with self._database.transaction() as transaction:
            if kept and self._sessions.get(kept, account.id, self._clock(), transaction) is None:
                raise UnauthorizedError("expected a session that is valid now but received one that ended")
            if replaces not in (None, self._accounts.password_hash(account.id, transaction)):
                raise ConflictError("expected the current password but it was changed by another request")
            self._accounts.set_password_hash(transaction, account.id, password_hash)
            self._sessions.delete_all(transaction, account.id, keep=kept)

    def password_hash(self, name: str) -> str | None:
        """Return the password hash of an account; `None` without a password or without such an account."""
        account = self._accounts.get_by_name(name)
        return None if account is None else self._accounts.password_hash(account.id)

    def set_suspended(self, name: str, suspended: bool) -> Account:
        """Suspend or resume an account; its tokens are refused in every process while it is suspended.

        All its sessions end. Its images are still delivered, but are in no gallery.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.get(name)
        since = self._clock() if suspended else None
        with self._database.transaction() as transaction:
            self._accounts.set_suspended(transaction, account.id, since)
            self._sessions.delete_all(transaction, account.id)
        return self.get(name)

    def set_limits(self, name: str, limits: LimitOverrides) -> Account:
        """Replace the limits that override the host's for an account.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.get(name)
        with self._database.transaction() as transaction:
            self._accounts.set_limits(transaction, account.id, limits)
        return self.get(name)

    def usage(self, name: str) -> AccountUsage:
        """Return what an account has stored.

        Raises:
            NotFoundError: There is no such account.
        """
        return self._accounts.usage(self.get(name).id)

    def delete(self, name: str) -> None:
        """Delete an account with its images, albums, keys, sessions, webhooks and events; no event is sent.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.set_suspended(name, True)
        with self._database.transaction() as transaction:
            for webhook_id in self._webhooks.ids_by_account(account.id, transaction):
                self._webhooks.delete(transaction, webhook_id)
        while True:
            for image_id in self._images.ids_by_account(account.id):
                try:
                    self._delete_image(image_id)
                except NotFoundError:  # another thread deleted it meanwhile
                    continue
            with self._database.transaction() as transaction:
                # An upload in progress may have added one more.
                if not self._images.ids_by_account(account.id, transaction):
                    self._accounts.delete(transaction, account.id)
                    return
