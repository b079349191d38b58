"""Accounts, as programs and operators ask for them."""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from imagehost_core.errors import ConflictError, FieldError, quote_value
from imagehost_core.ids import ImageId
from imagehost_core.models import Account, AccountUsage, LimitOverrides
from imagehost_core.services import owners
from imagehost_core.services.context import HostContext


@frozen
class AccountService:
    """The accounts of a host."""

    _context: HostContext = field(repr=False)
    _delete_image: Callable[[ImageId], object] = field(repr=False)

    def require_name(self, name: str) -> None:
        """Let a name pass that an account can have, whether or not one has it.

        Raises:
            ValidationError: None can.
        """
        owners.require_account_name(name)

    def create(self, name: str, *, password_hash: str | None = None) -> Account:
        """Make an account.

        Args:
            name: 1–64 letters, digits or `._@+-`.
            password_hash: Of its password, or `None`: nobody can sign in to it.

        Raises:
            ValidationError: The name is not allowed.
            ConflictError: Somebody has it.
        """
        owners.require_account_name(name)
        context = self._context
        with context.database.transaction() as transaction:
            if context.accounts.get_by_name(name, transaction) is not None:
                raise ConflictError(errors=[FieldError("username", "one that is free", quote_value(name))])
            context.accounts.insert(transaction, name, password_hash, context.clock())
        return self.get(name)

    def get(self, name: str) -> Account:
        """Return an account by its name.

        Raises:
            NotFoundError: There is none.
        """
        return owners.get_account(self._context, name)

    def list(self) -> tuple[Account, ...]:
        """Return all accounts, by name."""
        return self._context.accounts.list_all()

    def set_password_hash(self, name: str, password_hash: str) -> None:
        """Give an account another password, by its hash. All its sessions end.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.get(name)
        with self._context.database.transaction() as transaction:
            self._context.accounts.set_password_hash(transaction, account.id, password_hash)
            self._context.sessions.delete_all(transaction, account.id)

    def password_hash(self, name: str) -> str | None:
        """Return the hash of an account's password; `None` without one, or without such an account."""
        account = self._context.accounts.get_by_name(name)
        return None if account is None else self._context.accounts.password_hash(account.id)

    def set_suspended(self, name: str, suspended: bool) -> Account:
        """Refuse an account's tokens from now on, in every process, or take its keys again.

        Its sessions end for good. Its pictures are served as before, but shown in no gallery.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.get(name)
        since = self._context.clock() if suspended else None
        with self._context.database.transaction() as transaction:
            self._context.accounts.set_suspended(transaction, account.id, since)
            self._context.sessions.delete_all(transaction, account.id)
        return self.get(name)

    def set_limits(self, name: str, limits: LimitOverrides) -> Account:
        """Give an account limits of its own, instead of those that it had.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.get(name)
        with self._context.database.transaction() as transaction:
            self._context.accounts.set_limits(transaction, account.id, limits)
        return self.get(name)

    def usage(self, name: str) -> AccountUsage:
        """Return what an account has stored.

        Raises:
            NotFoundError: There is no such account.
        """
        return self._context.accounts.usage(self.get(name).id)

    def delete(self, name: str) -> None:
        """Delete an account with all its data: images, albums, keys, sessions, webhooks, events.

        No event tells of it: there is nobody left to be told.

        Raises:
            NotFoundError: There is no such account.
        """
        context, account = self._context, self.set_suspended(name, True)
        with context.database.transaction() as transaction:
            for webhook in context.webhooks.ids_by_account(account.id, transaction):
                context.webhooks.delete(transaction, webhook)
        while True:
            for image_id in context.images.ids_by_account(account.id):
                self._delete_image(image_id)
            with context.database.transaction() as transaction:
                # An upload that was under way may have put one more.
                if not context.images.ids_by_account(account.id, transaction):
                    context.accounts.delete(transaction, account.id)
                    return
