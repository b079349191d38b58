"""Accounts, as programs and operators ask for them."""

from __future__ import annotations

from attrs import field, frozen

from imagehost_core.errors import ConflictError, Fault, quoted
from imagehost_core.host import owners
from imagehost_core.host.rooms import Rooms
from imagehost_core.models import Account


@frozen
class Accounts:
    """The accounts of a host."""

    _rooms: Rooms = field(repr=False)

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
                raise ConflictError(faults=[Fault("the account's name", "one that is free", quoted(name))])
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
        """Give an account another password, by its hash.

        Raises:
            NotFoundError: There is no such account.
        """
        account = self.get(name)
        with self._rooms.catalog.transaction() as transaction:
            self._rooms.accounts.set_password_hash(transaction, account.id, password_hash)

    def used_bytes(self, name: str) -> int:
        """Return the bytes of an account's masters.

        Raises:
            NotFoundError: There is no such account.
        """
        return self._rooms.accounts.used_bytes(self.get(name).id)
