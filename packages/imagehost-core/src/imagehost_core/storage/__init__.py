"""File storage: blob stores for masters and derivatives, and the files of a data directory.

```python
>>> import tempfile
>>> from pathlib import Path
>>> from imagehost_core.ids import new_image_id
>>> from imagehost_core.storage import MASTER, MemoryBlobStore
>>> files = Path(tempfile.mkdtemp())
>>> (files / MASTER).write_bytes(b"...")
3
>>> blobs, image_id = MemoryBlobStore(), new_image_id()
>>> blobs.put(image_id, files)
>>> blobs.open(image_id).read()
b'...'

```
"""

from imagehost_core.coordination.counter_table import Counters, CounterTable
from imagehost_core.coordination.disk_reserve import DiskReserve
from imagehost_core.coordination.generations import GenerationTable
from imagehost_core.coordination.locks import LockManager
from imagehost_core.storage.blob_store import MASTER, BlobStore
from imagehost_core.storage.layout import DataLayout
from imagehost_core.storage.local.local_blob_store import LocalBlobStore
from imagehost_core.storage.local.memory_blob_store import MemoryBlobStore
from imagehost_core.storage.staging import StagedFile, StagingArea

__all__ = [
    "MASTER",
    "BlobStore",
    "CounterTable",
    "Counters",
    "DataLayout",
    "DiskReserve",
    "GenerationTable",
    "LocalBlobStore",
    "LockManager",
    "MemoryBlobStore",
    "StagedFile",
    "StagingArea",
]
