"""Accounts, as programs and operators ask for them."""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from imagehost_core.errors import ConflictError, Fault, quoted
from imagehost_core.ids import ImageId
from imagehost_core.models import Account, LimitOverrides, Usage
from imagehost_core.services import owners
from imagehost_core.services.context import Rooms


@frozen
class Accounts:
    """The accounts of a host."""

    _rooms: Rooms = field(repr=False)
    _delete_image: Callable[[ImageId], object] = field(repr=False)

    def check_name(self, name: str) -> None:
        """Let a name pass that an account can have, whether or not one has it.

        Raises:
            ValidationError: None can.
        """
        owners.check_name(name)

    def create(self, name: str, *, password_hash: str | None = None) -> Account:
        """Make an account.

        Args:
            name: 1–64 letters, digits or `._@+-`.
            password_hash: Of its password, or `None`: nobody can sign in to it.

        Raises:
            ValidationError: The name is not allowed.
            ConflictError: Somebody has it.
        """
        owners.check_name(name)
        rooms = self._rooms
        with rooms.catalog.transaction() as transaction:
            if rooms.accounts.by_name(name, transaction) is not None:
                raise ConflictError(faults=[Fault("username", "one that is free", quoted(name))])
            rooms.accounts.insert(transaction, name, password_hash, rooms.clock())
        return self.get(name)

    def get(self, name: str) -> Account:
        """Return an account by its name.

        Raises:
            NotFoundError: There is none.
        """
        return owners.find(self._rooms, name)

    def list(self) -> tuple[Account, ...]:
        """Return all accounts, by name."""
        return self._rooms.accounts.all()

    def set_password_hash(self, name: str, password_hash: str) -> None:
        """Give an account another password, by its hash. All its sessions end.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.get(name)
        with self._rooms.catalog.transaction() as transaction:
            self._rooms.accounts.set_password_hash(transaction, account.id, password_hash)
            self._rooms.sessions.delete_all(transaction, account.id)

    def password_hash(self, name: str) -> str | None:
        """Return the hash of an account's password; `None` without one, or without such an account."""
        account = self._rooms.accounts.by_name(name)
        return None if account is None else self._rooms.accounts.password_hash(account.id)

    def set_suspended(self, name: str, suspended: bool) -> Account:
        """Refuse an account's tokens from now on, in every process, or take its keys again.

        Its sessions end for good. Its pictures are served as before, but shown in no gallery.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.get(name)
        since = self._rooms.clock() if suspended else None
        with self._rooms.catalog.transaction() as transaction:
            self._rooms.accounts.set_suspended(transaction, account.id, since)
            self._rooms.sessions.delete_all(transaction, account.id)
        return self.get(name)

    def set_limits(self, name: str, limits: LimitOverrides) -> Account:
        """Give an account limits of its own, instead of those that it had.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.get(name)
        with self._rooms.catalog.transaction() as transaction:
            self._rooms.accounts.set_limits(transaction, account.id, limits)
        return self.get(name)

    def usage(self, name: str) -> Usage:
        """Return what an account has stored.

        Raises:
            NotFoundError: There is no such account.
        """
        return self._rooms.accounts.usage(self.get(name).id)

    def delete(self, name: str) -> None:
        """Delete an account with all its data: images, albums, keys, sessions, webhooks, events.

        No event tells of it: there is nobody left to be told.

        Raises:
            NotFoundError: There is no such account.
        """
        rooms, account = self._rooms, self.set_suspended(name, True)
        with rooms.catalog.transaction() as transaction:
            for webhook in rooms.webhooks.all_of(account.id, transaction):
                rooms.webhooks.delete(transaction, webhook)
        while True:
            for image_id in rooms.images.ids_of_account(account.id):
                self._delete_image(image_id)
            with rooms.catalog.transaction() as transaction:
                # An upload that was under way may have put one more.
                if not rooms.images.ids_of_account(account.id, transaction):
                    rooms.accounts.delete(transaction, account.id)
                    return
