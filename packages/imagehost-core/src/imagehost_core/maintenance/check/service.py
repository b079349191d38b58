"""The integrity check of a host: everything that the database and the files say about each other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial

from attrs import field, frozen

from imagehost_core.db.repositories.repositories import Repositories
from imagehost_core.errors import ConflictError
from imagehost_core.maintenance.check.database_checks import DatabaseChecker
from imagehost_core.maintenance.check.findings import (
    CheckName,
    CheckProgress,
    Finding,
    ProgressCallback,
)
from imagehost_core.maintenance.check.image_files import DerivativeRepairer, ImageFileChecker
from imagehost_core.maintenance.check.unreferenced_files import UnreferencedFileChecker
from imagehost_core.maintenance.installation import InstallationGuard
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.workers.executor import ImageExecutor

log = logging.getLogger(__name__)


@frozen
class IntegrityService:
    """The comparison of records and files, and the repair of what can be repaired."""

    _records: Repositories = field(repr=False)
    _files: ImageFiles = field(repr=False)
    _executor: ImageExecutor = field(repr=False)
    _installation: InstallationGuard = field(repr=False)
    _ingest_timeout_seconds: float = field(repr=False)

    def check(
        self, *, repair: bool = False, quick: bool = False, progress: ProgressCallback | None = None
    ) -> Iterator[Finding]:
        """Yield everything that is wrong, as `ImageHost.check` does."""
        report = progress or (lambda _: None)
        records, files = self._records, self._files
        database = DatabaseChecker(records.database)
        derivatives = DerivativeRepairer(records, files, self._executor, self._ingest_timeout_seconds)
        images = ImageFileChecker(records.database, files, derivatives)
        unreferenced = UnreferencedFileChecker(records, files, self._installation)
        checks: dict[CheckName, Callable[[], Iterator[Finding]]] = {
            CheckName.REFERENCES: partial(database.check_references, repair=repair),
            CheckName.IMAGES: partial(images.check, repair=repair, quick=quick, report=report),
            CheckName.ORPHANS: partial(_check_orphans, unreferenced, repair=repair),
            CheckName.UNKNOWN: partial(unreferenced.check_unknown),
            CheckName.DELETIONS: partial(unreferenced.check_deletions, repair=repair),
            CheckName.VARIANTS: partial(unreferenced.check_variants, repair=repair),
            CheckName.STAGING: partial(unreferenced.check_staging, repair=repair),
            # Repairs before change what is counted.
            CheckName.INDEXES: partial(database.check_indexes, repair=repair, quick=quick),
            CheckName.COUNTERS: partial(database.check_counters, repair=repair),
        }
        report(CheckProgress(CheckName.STRUCTURE))
        is_readable = True
        for finding in database.check_structure(repair=repair, quick=quick):
            is_readable = is_readable and finding.is_repaired
            yield finding
        if not is_readable:
            # A query of a damaged file may fail, or return what was never written.
            return
        if not quick:
            checks[CheckName.CHECKSUMS] = partial(unreferenced.check_checksums, repair=repair)
        for name, check in checks.items():
            report(CheckProgress(name))
            yield from check()


def _check_orphans(checker: UnreferencedFileChecker, *, repair: bool) -> Iterator[Finding]:
    """Yield the images with files and without a record; many are not repaired."""
    if repair:
        try:
            yield from checker.check_orphans(repair=True)
            return
        except ConflictError as error:
            # Raised before the first one.
            log.error("files without a record are not removed: %s", error.details)
    yield from checker.check_orphans(repair=False)
