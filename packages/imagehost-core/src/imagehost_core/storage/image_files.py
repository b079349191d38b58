"""The files of a host's images, and what orders their changes."""

from __future__ import annotations

from attrs import frozen

from imagehost_core.coordination.disk_reserve import DiskReserve
from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.coordination.locks import LockManager
from imagehost_core.storage.blob_store import BlobStore
from imagehost_core.storage.cache.variant_cache import VariantCache
from imagehost_core.storage.staging import StagingArea


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
