"""Where the bytes are: folders of files which survive a power cut, or are gone without a trace."""

from imagehost_core.storage.blob_store import LocalBlobStore
from imagehost_core.storage.disk_reserve import DiskReserve
from imagehost_core.storage.generations import GenerationTable
from imagehost_core.storage.layout import DataLayout
from imagehost_core.storage.locks import LockManager
from imagehost_core.storage.staging import StagedFile, StagingArea

__all__ = [
    "DataLayout",
    "DiskReserve",
    "GenerationTable",
    "LocalBlobStore",
    "LockManager",
    "StagedFile",
    "StagingArea",
]
