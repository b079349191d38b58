"""Encoding of a finished image to the bytes of a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from types import MappingProxyType
from typing import Any

from attrs import frozen
from PIL import Image, ImageFile, PngImagePlugin

from imagehost_core.formats import FORMATS, Format
from imagehost_core.headers.exif import PREFIX
from imagehost_core.pixels.chroma_subsampling import subsample_420
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.colour import flatten_on_white
from imagehost_core.pixels.palette import quantize

_WEBP_OUT_OF_MEMORY = "encoding error 1"
"""Pillow's message where libwebp is out of memory (`VP8_ENC_ERROR_OUT_OF_MEMORY`)."""

JPEG_BYTES_PER_PIXEL = 6
"""The size of the output buffer for a JPEG. The worst case, black and white noise at quality 100 without
subsampling, takes 3.3. Pillow passes libjpeg one buffer for the whole of a progressive file, estimates 1 or 2
bytes per pixel, and fails where that is too small."""

MAX_SEGMENT = 65_533
"""The maximum content of one JPEG segment, in bytes; EXIF cannot be split over several segments."""

XMP_HEADER_BYTES = 29
"""The length of the XMP namespace that precedes the packet in a JPEG segment."""


@frozen
class Metadata:
    """Metadata to embed in a file. Variants have none.

    Attributes:
        profile: An ICC profile, or `None`.
        exif: A TIFF structure, with or without its JPEG prefix, or `None`.
        xmp: An XMP packet, or `None`.
    """

    profile: bytes | None = None
    exif: bytes | None = None
    xmp: bytes | None = None


NO_METADATA = Metadata()
NO_OPTIONS: Mapping[str, object] = MappingProxyType({})


def encode(
    fmt: Format,
    image: Image.Image,
    quality: int | None = None,
    *,
    metadata: Metadata = NO_METADATA,
    options: Mapping[str, object] = NO_OPTIONS,
    subsample: bool = False,
) -> bytes:
    """Encode an image; on white where the format has no alpha.

    Args:
        fmt: The output format.
        image: An image in mode `RGB` or `RGBA`.
        quality: 1–100, or `None` for the format's default. Ignored for PNG and GIF.
        metadata: Metadata to embed.
        options: Encoder options that override the codec's.
        subsample: Whether to subsample chroma by `subsample_420` instead of in the encoder. Applies to opaque
            images in formats with 4:2:0 chroma.
    """
    codec = CODECS[fmt]
    quality_options: Mapping[str, object] = NO_OPTIONS
    default_quality = FORMATS[fmt].default_quality
    if default_quality:
        quality_options = codec.quality_options(default_quality if quality is None else quality)
    encoder_options: dict[str, Any] = {
        **codec.options_for(image.width * image.height),
        **metadata_options(fmt, metadata),
        **quality_options,
        **options,
    }
    image = _prepare(fmt, image)
    if image.mode == "P" and "transparency" in image.info:
        encoder_options["transparency"] = image.info["transparency"]
    if subsample and codec.chroma_mode and image.mode == "RGB":
        image = subsample_420(image, codec.chroma_mode)
    return save([image], codec.name, encoder_options)


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


def _prepare(fmt: Format, image: Image.Image) -> Image.Image:
    """Return the image in a mode that the format supports."""
    if not FORMATS[fmt].has_alpha:
        return flatten_on_white(image)
    image = drop_opaque_alpha(image)
    return quantize(image) if fmt is Format.GIF else image


def drop_opaque_alpha(image: Image.Image) -> Image.Image:
    """Return the image without its alpha channel if that is fully opaque."""
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        return image.convert("RGB")
    return image


def metadata_options(fmt: Format, metadata: Metadata) -> dict[str, object]:
    """Return the encoder options that embed metadata; none for GIF."""
    if fmt is Format.GIF:
        return {}
    options: dict[str, object] = {}
    if metadata.profile:
        options["icc_profile"] = metadata.profile
    if metadata.exif:
        exif = metadata.exif.removeprefix(PREFIX)
        if fmt is not Format.JPEG or len(PREFIX + exif) <= MAX_SEGMENT:
            options["exif"] = PREFIX + exif if fmt is Format.JPEG else exif
    if metadata.xmp and fmt is Format.PNG:
        text = PngImagePlugin.PngInfo()
        text.add_itxt("XML:com.adobe.xmp", metadata.xmp.decode("utf-8", "replace"))
        options["pnginfo"] = text
    elif metadata.xmp and (fmt is not Format.JPEG or len(metadata.xmp) <= MAX_SEGMENT - XMP_HEADER_BYTES):
        options["xmp"] = metadata.xmp
    return options
