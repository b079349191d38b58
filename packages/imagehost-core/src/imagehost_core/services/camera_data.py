"""What the metadata of a stored image says about the photograph."""

from __future__ import annotations

import os

from imagehost_core.headers import CameraData, read_camera_data, read_metadata
from imagehost_core.models import Image
from imagehost_core.storage import BlobStore


def read_stored_camera_data(blobs: BlobStore, image: Image) -> CameraData:
    """Return what the EXIF, XMP and IPTC in the master of an image say.

    Raises:
        NotFoundError: The image was deleted meanwhile.
        InternalError: The master is damaged.
        UnavailableError: The store does not respond.
    """
    with blobs.open(image.id, checksum=image.sha256) as file:
        return read_camera_data(read_metadata(file, file.seek(0, os.SEEK_END)))
