"""The content of a host, to compare two hosts that must be equal."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from imagehost_core.cluster.table_copy import copied_tables
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database, SqlValue
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.installation import RECORD_NAME
from imagehost_core.storage import DataLayout

Content = dict[str, object]
"""Everything that two equal hosts have in common: rows by their table, files by their path, the secret."""


def rows_of(database: Database) -> dict[str, list[tuple[SqlValue, ...]]]:
    """Return all rows, but for the sender slots of leases, which are released."""
    rows: dict[str, list[tuple[SqlValue, ...]]] = {}
    for table in copied_tables():
        hidden = {"leased_by"} if table.name == "webhook_deliveries" else set()
        rows[table.name] = [
            tuple(value for name, value in zip(table.columns, values, strict=True) if name not in hidden)
            for batch in table.batches(database)
            for values in batch
        ]
    return rows


def content(data: Path) -> Content:
    """Return the content of a data directory that no host has open."""
    layout = DataLayout(data)
    with TemporaryDirectory() as directory:
        for path in data.glob(f"{layout.database.name}*"):
            # With the write-ahead log of a process that was killed.
            shutil.copy(path, directory)
        copy = Path(directory, layout.database.name)
        with closing(SqliteDatabase(copy, LockManager(Path(directory, "locks")))) as database:
            rows = rows_of(database)
    files = {
        str(path.relative_to(data)): path.read_bytes()
        for path in layout.images.rglob("*")
        if path.is_file() and path.name != RECORD_NAME
    }
    return {**rows, "files": files, "secret": layout.secret.read_bytes()}
