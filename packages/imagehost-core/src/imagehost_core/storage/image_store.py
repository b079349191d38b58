"""The files of a host's images, and the blob store that its settings name."""

from __future__ import annotations

import logging
from collections.abc import Callable

from attrs import frozen

from imagehost_core.errors import EngineUnavailableError
from imagehost_core.ids import ImageId
from imagehost_core.observer import Observer, ignore
from imagehost_core.settings import SettingsError, StorageSettings, parse_storage_url
from imagehost_core.storage.blob_store import BlobStore
from imagehost_core.storage.cache.blob_cache import BlobCache
from imagehost_core.storage.cache.variant_cache import VariantCache
from imagehost_core.storage.generations import GenerationTable
from imagehost_core.storage.layout import DataLayout
from imagehost_core.storage.local.local_blob_store import LocalBlobStore
from imagehost_core.storage.locks import LockManager
from imagehost_core.storage.staging import DiskReserve, StagingArea

PROBE_SECONDS = 2.0
"""The longest duration of the request that shows whether a store responds."""

log = logging.getLogger(__name__)


@frozen
class ImageFiles:
    """The files of a host's images, and what orders their changes.

    Attributes:
        blobs: Masters and derivatives.
        variants: The cache of variants.
        staging: Files that are being written.
        locks: The locks of the data directory.
        generations: The generations of images, which validate what is in memory.
        reserve: The disk space that deletions may use.
    """

    blobs: BlobStore
    variants: VariantCache
    staging: StagingArea
    locks: LockManager
    generations: GenerationTable
    reserve: DiskReserve


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
    try:
        # An optional dependency.
        from imagehost_core.storage.object.object_blob_store import ObjectBlobStore
        from imagehost_core.storage.object.store import open_object_store, require_access

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
