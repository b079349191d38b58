"""Maintenance: readiness check, statistics and garbage collection, for servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core._util.durable import translate_disk_errors
from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import InsufficientStorageError, UnavailableError
from imagehost_core.ids import AccountId
from imagehost_core.maintenance.garbage import GarbageCollector, GarbageReport
from imagehost_core.maintenance.statistics import DatabaseStatistics, read_statistics
from imagehost_core.observer import PoolLoad
from imagehost_core.pixels import CHROMA_SUBSAMPLING, RESAMPLER
from imagehost_core.sandbox import SandboxStatus
from imagehost_core.storage import MASTER
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.workers.executor import ImageExecutor

WORKER_SECONDS = 3.0
"""How long an image worker process has to become ready in a check; starting one takes 0.3 s when idle."""


@frozen
class HostStatistics:
    """Totals of a host.

    Attributes:
        database: Totals of the database.
        disk_bytes: The size of the file system that holds the data directory.
        disk_free_bytes: Its free bytes.
        workers: The load of the image worker processes of this process.
        worker_pids: The process IDs of those.
        storage_responds: Whether the image store responds to a request now.
    """

    database: DatabaseStatistics
    disk_bytes: int
    disk_free_bytes: int
    workers: PoolLoad
    worker_pids: tuple[int, ...]
    storage_responds: bool


@frozen
class DiskUsage:
    """The bytes of the files of an account's images.

    Attributes:
        masters: Those of the masters, which count against its quota.
        derivatives: Those of the derivatives.
        variants: Those of the variants that are cached on this host's disk.
    """

    masters: int
    derivatives: int
    variants: int


@frozen
class MaintenanceService:
    """The maintenance of a host, outside requests."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _executor: ImageExecutor = field(repr=False)
    _garbage: GarbageCollector = field(repr=False)
    _clock: Clock = field(repr=False)

    @property
    def readiness_checks(self) -> Mapping[str, Callable[[], object]]:
        """The checks of readiness by what they check; each raises an exception unless it responds.

        A disk that is full is ready: images can still be read and deleted (`accepts_uploads`). Without
        `storage`, a host serves what it has cached.
        """
        return {
            "database": self._records.accounts.is_any,
            "data directory": self._write_to_staging,
            "storage": self._files.blobs.check_ready,
            "image workers": self._require_worker,
        }

    def check_ready(self) -> None:
        """Raise UnavailableError unless database, data directory, image store and image workers respond.

        Raises:
            UnavailableError: The details name everything that does not respond.
        """
        failures: dict[str, Exception] = {}
        for name, check in self.readiness_checks.items():
            try:
                check()
            except Exception as error:
                failures[name] = error
        if failures:
            received = f"received no response from {' and '.join(failures)}"
            cause = ExceptionGroup("not ready", list(failures.values()))
            raise UnavailableError(f"expected the host to be ready but {received}") from cause

    def accepts_uploads(self) -> bool:
        """Return whether `storage.min_free_bytes` of the disk are free, so that uploads can succeed.

        Raises:
            OSError: The data directory does not respond.
        """
        try:
            self._files.staging.require_free_space(0)
        except InsufficientStorageError:
            return False
        return True

    def statistics(self) -> HostStatistics:
        """Return totals for monitoring: two short queries, the state of the workers and of the store."""
        total, free = self._files.staging.disk_space()
        return HostStatistics(
            database=read_statistics(self._records.database, self._clock()),
            disk_bytes=total,
            disk_free_bytes=free,
            workers=self._executor.load,
            worker_pids=self._executor.worker_pids,
            storage_responds=self._storage_responds(),
        )

    def sandbox_status(self) -> SandboxStatus:
        """Start an image worker if there is none, and return the measures of its sandbox.

        Raises:
            UnavailableError: None became ready in time.
            InternalError: None can be started.
        """
        return self._executor.status()

    def native_modules(self) -> dict[str, bool]:
        """Return whether each native module is used; without one, images take several times as long."""
        return {"resampling": RESAMPLER == "native", "chroma subsampling": CHROMA_SUBSAMPLING == "sharp"}

    def disk_usage(self, owner: AccountId) -> DiskUsage:
        """Return what the files of an account's images occupy.

        The directories of each image are read; in an object store that is a request for each.
        """
        masters = derivatives = variants = 0
        for image_id in self._records.images.ids_by_account(owner):
            sizes = self._files.blobs.sizes(image_id)
            masters += sizes.get(MASTER, 0)
            derivatives += sum(size for name, size in sizes.items() if name != MASTER)
            variants += sum(self._files.variants.sizes(image_id).values())
        return DiskUsage(masters, derivatives, variants)

    def _storage_responds(self) -> bool:
        try:
            self._files.blobs.check_ready()
        except (UnavailableError, OSError):
            return False
        return True

    def _write_to_staging(self) -> None:
        with suppress(InsufficientStorageError), self._files.staging.temporary_directory():
            pass

    def _require_worker(self) -> None:
        """Raise an exception unless image worker processes are known to start, or one starts in time."""
        if self._executor.is_healthy or self._executor.load.busy:
            return
        try:
            self._executor.status(timeout_seconds=WORKER_SECONDS)
        except UnavailableError:
            # Requests that came meanwhile may have taken them all.
            if not self._executor.load.busy:
                raise

    def collect_garbage(
        self, *, dry_run: bool = False, allow_many: bool = False, allow_newer: bool = False
    ) -> GarbageReport:
        """Remove what nothing refers to, what has expired, and variants above the cache's limit.

        Args:
            dry_run: Whether to remove nothing, and report what would be removed.
            allow_many: Whether to remove files without a record of more than 100 images and 2 % of all.
            allow_newer: Whether to remove those too that are newer than a backup whose records were restored.

        Raises:
            ConflictError: Files without a record are many, or the data belong to another installation now.
        """
        with translate_disk_errors():
            return self._garbage.collect(dry_run=dry_run, allow_many=allow_many, allow_newer=allow_newer)

    def cleanup(self) -> tuple[str, ...]:
        """Remove the files that crashes and failed deletions left; cheap enough to run every minute.

        Returns:
            The ids of uploads that crashed before their record was written.
        """
        with translate_disk_errors():
            return self._garbage.collect_marked()
