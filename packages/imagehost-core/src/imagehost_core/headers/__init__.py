"""The header scan: format, size, frames and metadata of an image file, read before any decoder runs."""

from imagehost_core.headers.camera import CameraData, read_camera_data
from imagehost_core.headers.header import ImageHeader, MetadataKind, SourceLimits
from imagehost_core.headers.metadata_blocks import MetadataBlocks
from imagehost_core.headers.scanner import read_metadata, scan

__all__ = [
    "CameraData",
    "ImageHeader",
    "MetadataBlocks",
    "MetadataKind",
    "SourceLimits",
    "read_camera_data",
    "read_metadata",
    "scan",
]
