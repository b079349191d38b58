"""The pairs of engines on which faults are tried: SQLite and a folder, PostgreSQL and an object store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from attrs import frozen
from tests.hosts import Engines
from tests.object_store import S3Server
from tests.postgres import PostgresServer

from imagehost_core.settings import FOLDER, SQLITE

SQLITE_FOLDER, POSTGRES_S3 = "sqlite+folder", "postgres+s3"


@frozen
class EnginePair:
    """Engines of new hosts.

    Attributes:
        postgres: The PostgreSQL server; `None` for SQLite.
        s3: The S3 server; `None` for a folder.
    """

    postgres: PostgresServer | None = None
    s3: S3Server | None = None

    @property
    def name(self) -> str:
        """The name of the engines in the table of the trials."""
        return SQLITE_FOLDER if self.postgres is None else POSTGRES_S3

    @contextmanager
    def new(self) -> Iterator[Engines]:
        """Yield the engines of a new host, whose database exists for a block."""
        if self.postgres is None or self.s3 is None:
            yield Engines(SQLITE, FOLDER)
            return
        with self.postgres.empty_database() as url:
            yield Engines(url, self.s3.url())
