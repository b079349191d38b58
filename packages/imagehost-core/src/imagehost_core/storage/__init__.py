"""File storage: blob stores for masters and derivatives, and the files of a data directory."""

from imagehost_core.storage.blob_store import MASTER, BlobStore, LocalBlobStore, MemoryBlobStore
from imagehost_core.storage.disk_reserve import DiskReserve
from imagehost_core.storage.generations import GenerationTable
from imagehost_core.storage.layout import DataLayout
from imagehost_core.storage.locks import LockManager
from imagehost_core.storage.staging import StagedFile, StagingArea

__all__ = [
    "MASTER",
    "BlobStore",
    "DataLayout",
    "DiskReserve",
    "GenerationTable",
    "LocalBlobStore",
    "LockManager",
    "MemoryBlobStore",
    "StagedFile",
    "StagingArea",
]
