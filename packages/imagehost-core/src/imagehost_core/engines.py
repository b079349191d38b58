"""The choice of the engines that the settings of a host name: of its records, and of its images.

What several hosts share is imported only if the settings name it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack

from imagehost_core._util.clock import Clock
from imagehost_core.coordination.disk_reserve import DiskReserve
from imagehost_core.coordination.locks import LockManager
from imagehost_core.db.engines.database import Database
from imagehost_core.db.engines.shared_state import SharedState, open_state_of_one_host
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.errors import EngineUnavailableError
from imagehost_core.ids import ImageId
from imagehost_core.observer import Observer, ignore
from imagehost_core.settings import SQLITE, Settings, SettingsError, StorageSettings, parse_storage_url
from imagehost_core.storage import BlobStore, DataLayout, StagingArea
from imagehost_core.storage.local.local_blob_store import LocalBlobStore

PROBE_SECONDS = 2.0
"""The longest duration of the request that shows whether a store responds."""

log = logging.getLogger(__name__)


def open_shared_state(
    stack: ExitStack,
    layout: DataLayout,
    locks: LockManager,
    reserve: DiskReserve,
    settings: Settings,
    clock: Clock,
    observe: Observer,
) -> SharedState:
    """Open what the processes of a host agree on, with the database that the settings name.

    Args:
        stack: Closes what is opened.
        layout: The data directory.
        locks: Its locks.
        reserve: The disk space that deletions may use.
        settings: All settings of the host.
        clock: The clock of the host. Another than the system's replaces that of a database server too.
        observe: Receives the measurements of the database.

    Raises:
        InternalError: The database is no database of a host, or is damaged.
        SettingsError: The packages of the engine are not installed.
        UnavailableError: The server of the database does not respond.
    """
    if settings.database == SQLITE:
        return open_state_of_one_host(stack, layout, locks, reserve, clock, observe)
    from imagehost_core.cluster.opening import open_state_of_hosts

    return open_state_of_hosts(stack, layout, settings.database, settings.postgres, clock, observe)


def open_database(layout: DataLayout, settings: Settings) -> Database:
    """Open the database alone, without what else processes agree on; raises as `open_shared_state`."""
    if settings.database == SQLITE:
        return SqliteDatabase(layout.database, LockManager(layout.locks))
    from imagehost_core.cluster.opening import open_postgres

    return open_postgres(settings.database, settings.postgres)


def open_image_store(
    layout: DataLayout,
    staging: StagingArea,
    locks: LockManager,
    settings: StorageSettings,
    exists: Callable[[ImageId], bool],
    *,
    is_required: bool = True,
    observe: Observer = ignore,
) -> BlobStore:
    """Return the blob store that the settings name, after a request that shows whether it can be used.

    Args:
        layout: The data directory.
        staging: This process's staging area.
        locks: The locks of the data directory.
        settings: The settings of storage.
        exists: Returns whether an image exists now.
        is_required: Whether a store that does not respond is an error, and not only logged.
        observe: Receives the measurements of requests to an object store.

    Raises:
        EngineUnavailableError: The store does not respond, or the bucket does not exist, yet.
        SettingsError: Access is denied, the bucket has versioning, or the package for object stores is not
            installed.
    """
    url = parse_storage_url(settings.url)
    if url is None:
        return LocalBlobStore(layout.images, staging)
    from imagehost_core.cluster.object.blob_cache import BlobCache

    try:
        # An optional dependency.
        from imagehost_core.cluster.object.object_blob_store import ObjectBlobStore
        from imagehost_core.cluster.object.store import open_object_store, require_access

        store = open_object_store(url, settings.timeout_seconds / 2)
        probe = open_object_store(url, min(settings.timeout_seconds / 2, PROBE_SECONDS))
    except ImportError as error:
        expected = "the packages of imagehost-core[object-store], and boto3 for AWS_PROFILE,"
        raise SettingsError(f"expected {expected} for images in {url} but received: {error}") from error
    except Exception as error:
        # The provider's variables have a value that cannot be used; the message may repeat it.
        received = type(error).__name__
        raise SettingsError(
            f"expected usable credentials and options for {url} but received {received}"
        ) from None
    cache = BlobCache(layout.cache, staging, locks, settings.cache_bytes, exists)
    try:
        require_access(probe, url)
    except EngineUnavailableError as error:
        if is_required:
            raise
        log.warning("image store does not respond: error=%s", error.details)
    return ObjectBlobStore(store, cache, settings.timeout_seconds, probe, observe)
