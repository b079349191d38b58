"""The shared state of a host: what its processes agree on, and other hosts with them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing

from attrs import field, frozen

from imagehost_core._util.clock import Clock
from imagehost_core.coordination.disk_reserve import DiskReserve
from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.coordination.locks import LockManager
from imagehost_core.coordination.rate_limits import RateLimitStore
from imagehost_core.db.engines.database import Database
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.limits import RateLimitCounters
from imagehost_core.observer import Observer
from imagehost_core.storage import BlobStore, DataLayout
from imagehost_core.storage.cache.variant_cache import VariantCache


@frozen
class SharedState:
    """What the processes of a host agree on.

    Attributes:
        images: The generations of images.
        principals: The generations of what tokens stand for.
        database: The records.
        rate_limits: The counters of rate limits.
        share_secret: Returns the secret of the first host that called it, given one's own.
        keep_coherent: Begins to apply the changes of other hosts to the variants and files of this one. It
            calls its last argument when changes from before may be unknown.
    """

    images: GenerationTable
    principals: GenerationTable
    database: Database
    rate_limits: RateLimitCounters
    share_secret: Callable[[bytes], bytes] = field(repr=False)
    keep_coherent: Callable[[VariantCache, BlobStore, Callable[[], object]], object] = field(repr=False)


def open_state_of_one_host(
    stack: ExitStack,
    layout: DataLayout,
    locks: LockManager,
    reserve: DiskReserve,
    clock: Clock,
    observe: Observer,
) -> SharedState:
    """Open the state that the processes of one host share by its data directory.

    Args:
        stack: Closes what is opened.
        layout: The data directory.
        locks: Its locks.
        reserve: Released to count new keys on a full disk.
        clock: The clock of the host.
        observe: Receives the measurement of each transaction.
    """
    return SharedState(
        images=stack.enter_context(closing(GenerationTable(layout.generations))),
        principals=stack.enter_context(closing(GenerationTable(layout.principal_generations))),
        database=stack.enter_context(closing(SqliteDatabase(layout.database, locks, observe=observe))),
        rate_limits=stack.enter_context(closing(RateLimitStore(layout.rate_limits, locks, clock, reserve))),
        share_secret=lambda own: own,
        keep_coherent=lambda *_: None,
    )
