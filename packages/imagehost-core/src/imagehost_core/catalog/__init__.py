"""The catalog: the records of accounts, keys, albums and images, in SQLite."""

from imagehost_core.catalog.accounts import AccountRows
from imagehost_core.catalog.albums import AlbumRows
from imagehost_core.catalog.database import Catalog
from imagehost_core.catalog.images import ImageRows
from imagehost_core.catalog.keys import KeyRows

__all__ = ["AccountRows", "AlbumRows", "Catalog", "ImageRows", "KeyRows"]
