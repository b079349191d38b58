"""Where the bytes are: folders of files which survive a power cut, or are gone without a trace."""

from imagehost_core.storage.blob_store import FileStore
from imagehost_core.storage.disk_reserve import Reserve
from imagehost_core.storage.generations import Stamps
from imagehost_core.storage.layout import Folders
from imagehost_core.storage.locks import Locks
from imagehost_core.storage.staging import Staged, Staging

__all__ = ["FileStore", "Folders", "Locks", "Reserve", "Staged", "Staging", "Stamps"]
