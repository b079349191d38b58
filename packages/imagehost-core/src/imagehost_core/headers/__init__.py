"""The header scan: format, size, frames and metadata of an image file, read before any decoder runs."""

from imagehost_core.headers.header import ImageHeader, MetadataKind
from imagehost_core.headers.limits import SourceLimits
from imagehost_core.headers.scanner import scan

__all__ = ["ImageHeader", "MetadataKind", "SourceLimits", "scan"]
