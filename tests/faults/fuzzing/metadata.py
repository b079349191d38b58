"""Metadata: reading it never fails, and a file without it shows the same image."""

from __future__ import annotations

import io
import math

from tests.faults.fuzzing.samples import IMAGE_TOKENS, XMP, sample_images

from imagehost_core.errors import ImageHostError
from imagehost_core.headers.camera import read_camera_data
from imagehost_core.headers.exif import read_orientation, reset_orientation
from imagehost_core.headers.header import MetadataKind, SourceLimits
from imagehost_core.headers.metadata_blocks import MetadataBlocks
from imagehost_core.headers.scanner import read_metadata, scan
from imagehost_core.pixels.strip_metadata import strip_metadata

LIMITS = SourceLimits()
DICTIONARY = IMAGE_TOKENS
FINDINGS = (
    b"GIF89a\2\0\2\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\2\0\2\0\0\2\2\x84\x51\0!\xf9",
    b"\xff\xd8\xff\xfe\0\2\xd9\xd9\xff\xe1\0\x08Exif\0\0\xff\xc0\0\x0b\x08\0\1\0\1\1\1\x11\0\xff\xda\0\x08\1\1\0\0\x3f\0\0\xff\xd9",
)
"""A GIF that ends within an extension; metadata of a JPEG after other bytes between its segments."""


def seeds() -> list[bytes]:
    blocks = [read_metadata(io.BytesIO(data), len(data)) for data in sample_images()]
    exif = {block.exif for block in blocks} - {b""}
    iptc = b"8BIM\4\4\0\0\0\0\0\x0a\x1c\2\x5a\0\5Paris"
    return [*sample_images(), *exif, XMP, iptc]


def check(data: bytes) -> None:
    check_blocks(MetadataBlocks(exif=data))
    check_blocks(MetadataBlocks(xmp=data))
    check_blocks(MetadataBlocks(iptc=data))
    reset = reset_orientation(data)
    assert len(reset) == len(data)
    assert read_orientation(reset) == 1
    assert 1 <= read_orientation(data) <= 8
    try:
        header = scan(io.BytesIO(data), len(data), LIMITS)
    except ImageHostError:
        return
    check_blocks(read_metadata(io.BytesIO(data), len(data)))
    image = data[: header.end_offset]
    try:
        stripped = strip_metadata(header.format, image)
    except (ValueError, IndexError):
        return
    try:
        after = scan(io.BytesIO(stripped), len(stripped), LIMITS)
    except ImageHostError as error:
        raise AssertionError(f"stripped: {error.details}") from error
    assert (after.format, after.frames, after.has_alpha) == (header.format, header.frames, header.has_alpha)
    assert (after.width, after.height) == (header.width, header.height)
    assert after.metadata <= {MetadataKind.ICC}


def check_blocks(blocks: MetadataBlocks) -> None:
    """Assert that what is read is within its documented range."""
    camera = read_camera_data(blocks)
    for text in (camera.camera, camera.lens, camera.software, camera.author, camera.copyright, camera.place):
        assert text.isprintable()
    for degrees, most in ((camera.latitude, 90), (camera.longitude, 180)):
        assert degrees is None or (math.isfinite(degrees) and abs(degrees) <= most)
    assert (camera.latitude is None) == (camera.longitude is None)
    for value in (camera.exposure_seconds, camera.aperture, camera.focal_length, camera.iso):
        assert value is None or value > 0
