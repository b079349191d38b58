"""Maintenance: worker start, readiness check, garbage collection and recounting, for servers."""

from __future__ import annotations

from collections.abc import Callable

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.db import AccountRepository, CounterMismatch, Database, recount
from imagehost_core.db.statistics import DatabaseStatistics, read_statistics
from imagehost_core.errors import UnavailableError
from imagehost_core.services.cleanup import GarbageCollector
from imagehost_core.services.garbage import GarbageReport, GarbageService
from imagehost_core.storage import StagingArea
from imagehost_core.workers import ImageExecutor, PoolLoad


@frozen
class HostStatistics:
    """Totals of a host.

    Attributes:
        database: Totals of the database.
        disk_bytes: The size of the file system that holds the data directory.
        disk_free_bytes: Its free bytes.
        workers: The load of the image worker processes; of all processes that share them.
        worker_pids: The process IDs of those.
    """

    database: DatabaseStatistics
    disk_bytes: int
    disk_free_bytes: int
    workers: PoolLoad
    worker_pids: tuple[int, ...]


@frozen
class MaintenanceService:
    """The maintenance of a host, outside requests."""

    _database: Database = field(repr=False)
    _accounts: AccountRepository = field(repr=False)
    _staging: StagingArea = field(repr=False)
    _executor: ImageExecutor = field(repr=False)
    _collector: GarbageCollector = field(repr=False)
    _garbage: GarbageService = field(repr=False)
    _clock: Clock = field(repr=False)

    def start_workers(self) -> None:
        """Start an image worker process, so that the first request finds it running. Returns at once."""
        self._executor.start()

    def check_ready(self) -> None:
        """Raise UnavailableError unless the database can be read and the data directory written to.

        Raises:
            UnavailableError: The details name every store that does not respond.
        """
        checks: dict[str, Callable[[], object]] = {
            "the database": self._accounts.is_any,
            "the data directory": self._write_to_staging,
        }
        failures: dict[str, Exception] = {}
        for store, check in checks.items():
            try:
                check()
            except Exception as error:
                failures[store] = error
        if failures:
            received = f"received no response from {' and '.join(failures)}"
            cause = ExceptionGroup("stores do not respond", list(failures.values()))
            raise UnavailableError(f"expected the stores to respond but {received}") from cause

    def statistics(self) -> HostStatistics:
        """Return totals for monitoring: two short queries, and the state of the worker processes."""
        total, free = self._staging.disk_space()
        return HostStatistics(
            database=read_statistics(self._database, self._clock()),
            disk_bytes=total,
            disk_free_bytes=free,
            workers=self._executor.load,
            worker_pids=self._executor.worker_pids,
        )

    def _write_to_staging(self) -> None:
        with self._staging.temporary_directory():
            pass

    def collect_garbage(self, *, dry_run: bool = False) -> GarbageReport:
        """Remove what nothing refers to, what has expired, and variants above the cache's limit.

        Args:
            dry_run: Whether to remove nothing, and report what would be removed.
        """
        return self._garbage.collect(dry_run=dry_run)

    def cleanup(self) -> tuple[str, ...]:
        """Remove the files that crashes and failed deletions left; cheap enough to run every minute.

        Returns:
            The ids of uploads that crashed before their record was written.
        """
        return self._collector.collect_marked()

    def check_counters(self) -> tuple[CounterMismatch, ...]:
        """Return the counters of images, albums, bytes and deliveries that differ from a recount.

        It reads all images and blocks no write.
        """
        return recount.check_counters(self._database)

    def repair_counters(self) -> tuple[CounterMismatch, ...]:
        """Correct all counters in one transaction, which other writes wait for, and return what differed."""
        with self._database.transaction() as transaction:
            return recount.repair_counters(transaction)

    def check_indexes(self) -> tuple[str, ...]:
        """Return the ids of images whose entry in the gallery or in the search index is wrong.

        It reads all images and blocks no write.
        """
        return recount.check_indexes(self._database)

    def repair_indexes(self) -> tuple[str, ...]:
        """Correct the gallery and the search index in one transaction; return the ids of their images."""
        with self._database.transaction() as transaction:
            return recount.repair_indexes(transaction)
