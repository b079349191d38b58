"""What a crash between the files of an image and its record leaves behind."""

from __future__ import annotations

from imagehost_core import ImageHost
from imagehost_core.ids import ImageId, new_image_id


def orphan(host: ImageHost) -> ImageId:
    """Put files in place for which there is no record."""
    image_id = new_image_id()
    with host._context.staging.folder() as built:
        (built / "master").write_bytes(b"x")
        host._context.blobs.put(image_id, built)
    return image_id
