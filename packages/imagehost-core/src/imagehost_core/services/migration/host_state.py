"""The state of a host with regard to migrations, which is stored with its database."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from attrs import asdict, field, frozen

from imagehost_core.db.database import Transaction
from imagehost_core.errors import ConflictError, ValidationError
from imagehost_core.storage import DataLayout
from imagehost_core.storage.durable import open_owner_only, sync_directory, sync_file
from imagehost_core.storage.layout import SECRET_BYTES

_IDENTITY_DIGITS = 32


@frozen
class UnfinishedMigration:
    """A migration that was begun, as its target records it.

    Attributes:
        source: The identity of the host that is migrated, from `source_identity`.
        storage: The location of the files, without passwords.
    """

    source: str
    storage: str


class HostState(Protocol):
    """The state of a host with regard to migrations."""

    def secret(self) -> bytes:
        """Return the key of signed URLs.

        Raises:
            ValidationError: The host has none.
        """

    def set_secret(self, secret: bytes) -> None:
        """Store the key of signed URLs durably."""

    def unfinished(self) -> UnfinishedMigration | None:
        """Return the migration to this host that is in progress, or was interrupted."""

    def begin(self, migration: UnfinishedMigration) -> None:
        """Record durably that a migration to this host is in progress, so that it cannot be opened."""

    def finish(self) -> None:
        """Record durably that the migration to this host is complete."""

    def migrated_to(self) -> str | None:
        """Return the location to which this host was migrated, or `None`."""

    def hold_writes(self, transaction: Transaction) -> None:
        """Let no other transaction write until this one ends."""

    def mark_migrated(self, transaction: Transaction, location: str) -> None:
        """Record that this host was migrated, so that nothing changes it any more.

        Args:
            transaction: The transaction that excludes all others; the record is durable when it ends.
            location: The new location, without passwords.
        """


def source_identity(secret: bytes) -> str:
    """Return the identity of a host: the same for a host and its copies, and not reversible."""
    return sha256(b"imagehost migration\0" + secret).hexdigest()[:_IDENTITY_DIGITS]


def require_no_migration(state: HostState, name: object) -> None:
    """Raise ConflictError if a host is the target of an unfinished migration, or was migrated.

    Args:
        state: The state of the host.
        name: The location of its database, without a password.

    Raises:
        ConflictError: One of the two.
    """
    if state.unfinished() is not None:
        raise ConflictError(
            f"expected a host in {name} but a migration to it is in progress or was interrupted: repeat it"
        )
    if (destination := state.migrated_to()) is not None:
        raise ConflictError(f"expected a host in {name} but it was migrated to {destination}")


@frozen
class DirectoryState:
    """The state of a host with its database in a data directory: files beside it."""

    _layout: DataLayout = field(repr=False)

    def secret(self) -> bytes:
        """Return the key of signed URLs."""
        path = self._layout.secret
        secret = path.read_bytes() if path.is_file() else b""
        if len(secret) < SECRET_BYTES:
            raise ValidationError(f"expected {SECRET_BYTES} bytes of {path} but received {len(secret)}")
        return secret

    def set_secret(self, secret: bytes) -> None:
        """Store the key of signed URLs durably."""
        _write_durably(self._layout.secret, secret)

    def unfinished(self) -> UnfinishedMigration | None:
        """Return the migration to this host that is in progress, or was interrupted."""
        values = _read_values(self._layout.migrating)
        return None if values is None else UnfinishedMigration(values["source"], values["storage"])

    def begin(self, migration: UnfinishedMigration) -> None:
        """Record durably that a migration to this host is in progress."""
        _write_durably(self._layout.migrating, json.dumps(asdict(migration)).encode())

    def finish(self) -> None:
        """Record durably that the migration to this host is complete."""
        self._layout.migrating.unlink(missing_ok=True)
        sync_directory(self._layout.root)

    def migrated_to(self) -> str | None:
        """Return the location to which this host was migrated, or `None`."""
        values = _read_values(self._layout.migrated)
        return None if values is None else values["location"]

    def hold_writes(self, transaction: Transaction) -> None:
        """Do nothing: in SQLite one transaction at a time writes."""

    def mark_migrated(self, transaction: Transaction, location: str) -> None:  # noqa: ARG002
        """Record durably that this host was migrated, in a file that each transaction looks for."""
        _write_durably(self._layout.migrated, json.dumps({"location": location}).encode())


def _read_values(path: Path) -> dict[str, str] | None:
    """Return the values in a file that was written in one step, or `None` if there is none."""
    try:
        values: dict[str, str] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return values


def _write_durably(path: Path, data: bytes) -> None:
    """Write a file that survives a power failure, whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    with open_owner_only(part, "xb") as file:
        file.write(data)
    sync_file(part)
    part.replace(path)
    sync_directory(path.parent)
