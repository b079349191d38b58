"""The secrets table: what all hosts that share a database must sign with alike."""

from __future__ import annotations

from imagehost_core.db.database import Database, Transaction


def share_secret(database: Database, name: str, candidate: bytes) -> bytes:
    """Return the secret of a name; store a candidate first if the database has none.

    Args:
        database: A database that several hosts share.
        name: The purpose of the secret.
        candidate: The secret of this host.
    """
    with database.transaction(blind=True) as transaction:
        transaction.execute(
            "INSERT INTO secrets (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING",
            {"name": name, "value": candidate},
        )
    row = database.fetch_one("SELECT value FROM secrets WHERE name = :name", {"name": name})
    assert row is not None, name
    value = row["value"]
    assert isinstance(value, bytes), name
    return value


def replace_secret(transaction: Transaction, name: str, value: bytes) -> None:
    """Store the secret of a name in place of another, as a restore does."""
    transaction.execute("DELETE FROM secrets WHERE name = :name", {"name": name})
    transaction.insert("secrets", {"name": name, "value": value})
