"""The caches of a process, as changes that other hosts make invalidate them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from attrs import field, frozen

from imagehost_core._util.machine import host_identity
from imagehost_core.cluster.cache_lease import CacheLease, LeasedGenerationTable
from imagehost_core.db.engines.database import ALL_IMAGES, PRINCIPALS, parse_deleted_image
from imagehost_core.storage import BlobStore
from imagehost_core.storage.cache.variant_cache import VariantCache


@frozen
class ProcessCaches:
    """The caches of a process, as changes that other hosts make invalidate them.

    Attributes:
        host: The host of the process; processes of one host invalidate each other's caches by shared memory.
        lease: The lease that reads of the caches check.
        invalidate: Invalidates the entries of keys.
        invalidate_all: Invalidates all entries.
    """

    host: str
    lease: CacheLease = field(repr=False)
    invalidate: Callable[[Collection[str]], object] = field(repr=False)
    invalidate_all: Callable[[], object] = field(repr=False)


def process_caches(
    images: LeasedGenerationTable,
    principals: LeasedGenerationTable,
    variants: VariantCache,
    blobs: BlobStore,
    shared_file: Path,
    on_join: Callable[[], object],
) -> ProcessCaches:
    """Return the caches of a process.

    Args:
        images: The generations of images.
        principals: The generation of principals, with the same lease.
        variants: The variants of images on this host.
        blobs: The files of images, of which this host may have copies.
        shared_file: A file that is mapped into the memory of all processes of the host.
        on_join: Called when the process joins the others: changes from before may be unknown to it.
    """

    def invalidate(keys: Collection[str]) -> None:
        if PRINCIPALS in keys:
            principals.invalidate([PRINCIPALS])
        if ALL_IMAGES in keys:
            images.invalidate_all()
        deleted = [image_id for image_id in map(parse_deleted_image, keys) if image_id is not None]
        images.invalidate({*keys, *deleted})
        for image_id in deleted:
            variants.purge(image_id)
            blobs.evict(image_id)
        # What was read of a file before it was deleted may be in memory since.
        images.invalidate(deleted)

    def invalidate_all() -> None:
        principals.invalidate_all()
        images.invalidate_all()
        on_join()

    return ProcessCaches(host_identity(shared_file), images.lease, invalidate, invalidate_all)
