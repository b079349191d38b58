"""The copy of a database of any engine in a SQLite file, which is what a backup contains."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from imagehost_core.db.database import Queryable
from imagehost_core.db.sqlite_database import SqliteDatabase
from imagehost_core.db.table_copy import copy_tables
from imagehost_core.storage.locks import LockManager


def copy_to_sqlite(source: Queryable, path: Path) -> None:
    """Write all rows to a SQLite file with the same tables.

    Args:
        source: A database that does not change meanwhile, such as a snapshot.
        path: A file that does not exist.

    Raises:
        FileExistsError: The file exists.
        InsufficientStorageError: The disk is full.
    """
    if path.exists():
        raise FileExistsError(path)
    with (
        TemporaryDirectory(dir=path.parent) as locks,
        closing(SqliteDatabase(path, LockManager(Path(locks)))) as database,
        database.transaction() as transaction,
    ):
        copy_tables(source, transaction)
