"""Where the bytes are: folders of files which survive a power cut, or are gone without a trace."""

from imagehost_core.storage.files import FileStore
from imagehost_core.storage.folders import Folders
from imagehost_core.storage.locks import Locks
from imagehost_core.storage.reserve import Reserve
from imagehost_core.storage.staging import Staged, Staging
from imagehost_core.storage.stamps import Stamps

__all__ = ["FileStore", "Folders", "Locks", "Reserve", "Staged", "Staging", "Stamps"]
