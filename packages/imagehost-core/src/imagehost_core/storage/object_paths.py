"""The paths of objects: `images/<shard>/<id>/<name>` and `variants/<shard>/<id>/<key>`."""

from __future__ import annotations

from imagehost_core.ids import ImageId, is_image_id
from imagehost_core.storage.layout import shard

IMAGES, VARIANTS = "images", "variants"
"""The first segments of the paths of files and of variants."""


def owner(path: str, first: str) -> ImageId | None:
    """Return the image that an object belongs to, or `None` if it can belong to none.

    Args:
        path: The path of the object.
        first: Its first segment.
    """
    match path.split("/"):
        case [segment, directory, image_id, _] if segment == first and is_image_id(image_id):
            return image_id if shard(image_id) == directory else None
    return None
