"""Maintenance of a host: worker start, readiness check, garbage collection."""

from __future__ import annotations

from attrs import field, frozen

from imagehost_core.errors import UnavailableError
from imagehost_core.services.cleanup import GarbageCollector
from imagehost_core.services.context import HostContext


@frozen
class Maintenance:
    """What a server does beside answering requests."""

    _context: HostContext = field(repr=False)
    _collector: GarbageCollector = field(repr=False)

    def start_workers(self) -> None:
        """Start all image worker processes, so that the first request finds them running. Returns at once."""
        self._context.executor.start()

    def check_ready(self) -> None:
        """Raise UnavailableError unless the database and the data directory respond.

        Raises:
            UnavailableError: One of them does not.
        """
        try:
            self._context.accounts.list_all()
            with self._context.staging.folder():
                pass
        except Exception as error:
            raise UnavailableError("expected the stores to answer but received an error") from error

    def collect_garbage(self) -> tuple[str, ...]:
        """Remove all files without a record and all variants above the cache's bound.

        Returns:
            The ids of uploads that crashed before their record was written.
        """
        return self._collector.collect_all()

    def cleanup(self) -> tuple[str, ...]:
        """Remove what crashes left, where a marker says so; cheap enough to run every minute.

        Returns:
            The ids of uploads that crashed before their record was written.
        """
        return self._collector.collect_marked()
