"""Imports: images from directories, and from the data of other image hosts."""

from imagehost_core.maintenance.importers.items import ImportAlbum, ImportItem, OmittedItem, SourceItem
from imagehost_core.maintenance.importers.service import (
    ImportOptions,
    ImportResult,
    ImportService,
    ImportSource,
    ImportStatus,
)

__all__ = [
    "ImportAlbum",
    "ImportItem",
    "ImportOptions",
    "ImportResult",
    "ImportService",
    "ImportSource",
    "ImportStatus",
    "OmittedItem",
    "SourceItem",
]
