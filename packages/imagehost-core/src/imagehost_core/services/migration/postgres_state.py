"""The state of a host with its database in PostgreSQL, with regard to migrations."""

from __future__ import annotations

from attrs import field, frozen

from imagehost_core.db import migration_state
from imagehost_core.db.database import Database, Transaction
from imagehost_core.db.secrets import share_secret
from imagehost_core.errors import ConflictError, ValidationError
from imagehost_core.services.migration.host_state import UnfinishedMigration


@frozen
class PostgresState:
    """The state of a host with its database in PostgreSQL: tables in the database."""

    _database: Database = field(repr=False)

    def secret(self) -> bytes:
        """Return the key of signed URLs."""
        secret = migration_state.stored_secret(self._database)
        if secret is None:
            raise ValidationError("expected the database of a host but it has no key of signed URLs")
        return secret

    def set_secret(self, secret: bytes) -> None:
        """Store the key of signed URLs."""
        if share_secret(self._database, migration_state.SIGNING_SECRET, secret) != secret:
            raise ConflictError("expected an empty target but it has another key of signed URLs")

    def unfinished(self) -> UnfinishedMigration | None:
        """Return the migration to this host that is in progress, or was interrupted."""
        found = migration_state.unfinished_migration(self._database)
        return None if found is None else UnfinishedMigration(*found)

    def begin(self, migration: UnfinishedMigration) -> None:
        """Record that a migration to this host is in progress.

        Raises:
            ConflictError: The database has a host.
        """
        with self._database.transaction() as transaction:
            if not migration_state.is_empty(transaction):
                raise ConflictError("expected an empty database but it has accounts or images")
            migration_state.begin_migration(transaction, migration.source, migration.storage)

    def finish(self) -> None:
        """Record that the migration to this host is complete."""
        with self._database.transaction() as transaction:
            migration_state.finish_migration(transaction)

    def migrated_to(self) -> str | None:
        """Return the location to which this host was migrated, or `None`."""
        return migration_state.migrated_to(self._database)

    def hold_writes(self, transaction: Transaction) -> None:
        """Let no other transaction write until this one ends."""
        migration_state.lock_tables(transaction)

    def mark_migrated(self, transaction: Transaction, location: str) -> None:
        """Record that this host was migrated; the record is durable when the transaction ends."""
        migration_state.refuse_changes(transaction, location)
