"""What a crash between the files of an image and its record leaves: files without a record."""

from __future__ import annotations

from imagehost_core.context import HostContext
from imagehost_core.ids import ImageId, new_image_id


def store_orphan(stores: HostContext) -> ImageId:
    """Put files in place for which there is no record."""
    image_id = new_image_id()
    with stores.files.staging.temporary_directory() as folder:
        (folder / "master").write_bytes(b"x")
        stores.files.blobs.put(image_id, folder)
    return image_id
