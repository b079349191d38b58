"""The file that an encoder of Pillow writes, and the metadata that it embeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from types import MappingProxyType
from typing import Any

from attrs import frozen
from PIL import Image, ImageFile

_WEBP_OUT_OF_MEMORY = "encoding error 1"
"""Pillow's message where libwebp is out of memory (`VP8_ENC_ERROR_OUT_OF_MEMORY`)."""

JPEG_BYTES_PER_PIXEL = 6
"""The size of the output buffer for a JPEG. The worst case, black and white noise at quality 100 without
subsampling, takes 3.3. Pillow passes libjpeg one buffer for the whole of a progressive file, estimates 1 or 2
bytes per pixel, and fails where that is too small."""


@frozen
class Metadata:
    """Metadata to embed in a file. Variants have none.

    Attributes:
        profile: An ICC profile, or `None`.
        exif: A TIFF structure, with or without its JPEG prefix, or `None`.
        xmp: An XMP packet, or `None`.
        iptc: Data sets of IPTC, or `None`; embedded in JPEG only.
    """

    profile: bytes | None = None
    exif: bytes | None = None
    xmp: bytes | None = None
    iptc: bytes | None = None


NO_METADATA = Metadata()
NO_OPTIONS: Mapping[str, object] = MappingProxyType({})


def save(frames: Sequence[Image.Image], plugin: str, options: Mapping[str, Any]) -> bytes:
    """Return the file that Pillow's plug-in writes, without metadata of the frames' source files.

    Args:
        frames: A still image, or the frames of an animation.
        plugin: The name of Pillow's plug-in.
        options: The plug-in's options.

    Raises:
        MemoryError: The encoder is out of memory.
    """
    width, height = frames[0].size
    infos, max_block = [frame.info for frame in frames], ImageFile.MAXBLOCK
    for frame in frames:
        frame.info = {}
    append = {"save_all": True, "append_images": frames[1:]} if len(frames) > 1 else {}
    buffer = BytesIO()
    ImageFile.MAXBLOCK = max(max_block, JPEG_BYTES_PER_PIXEL * width * height)
    try:
        frames[0].save(buffer, plugin, **append, **options)
    except ValueError as error:
        if str(error) != _WEBP_OUT_OF_MEMORY:
            raise
        raise MemoryError(str(error)) from error
    finally:
        ImageFile.MAXBLOCK = max_block
        for frame, info in zip(frames, infos, strict=True):
            frame.info = info
    return buffer.getvalue()
