"""The layout of a data folder.

```
catalog.sqlite3         the records
counters.sqlite3        the counts of requests
images/ab/<id>/         one folder an image: its master and its reductions
variants/ab/<id>/       one folder an image: what the processing route has made of it
staging/<process>/      what is being received or made; emptied when the process is gone
locks/                  who is changing what, across processes
secret                  the key of signed addresses
reserve                 room that is kept for deleting
```

`ab` is the id's first two characters. Everything of an image lies in two folders, so that deleting
them is complete.
"""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from imagehost_core.ids import ImageId


@frozen
class DataLayout:
    """A data folder.

    Attributes:
        root: The folder itself.
    """

    root: Path

    @property
    def database(self) -> Path:
        """The file of the records."""
        return self.root / "catalog.sqlite3"

    @property
    def rate_limits(self) -> Path:
        """The file of the counts of requests."""
        return self.root / "counters.sqlite3"

    @property
    def images(self) -> Path:
        """Masters and reductions."""
        return self.root / "images"

    @property
    def variants(self) -> Path:
        """What the processing route has made."""
        return self.root / "variants"

    @property
    def staging(self) -> Path:
        """What is not finished."""
        return self.root / "staging"

    @property
    def locks(self) -> Path:
        """Who is changing what."""
        return self.root / "locks"

    @property
    def secret(self) -> Path:
        """The file of the signing secret."""
        return self.root / "secret"

    @property
    def reserve(self) -> Path:
        """The file that keeps room for deleting."""
        return self.root / "reserve"

    def image(self, image_id: ImageId) -> Path:
        """Return the folder of an image's master."""
        return self.images / image_id[:2] / image_id

    def variants_of(self, image_id: ImageId) -> Path:
        """Return the folder of an image's variants."""
        return self.variants / image_id[:2] / image_id
