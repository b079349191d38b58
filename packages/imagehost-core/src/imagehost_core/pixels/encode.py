"""Encoding of a finished image to the bytes of a format."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from io import BytesIO
from types import MappingProxyType
from typing import Any

from attrs import frozen
from PIL import Image, ImageChops, ImageFile, PngImagePlugin

from imagehost_core.formats import FORMATS, Format
from imagehost_core.headers.camera import IPTC_RESOURCE
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


MAX_SUBSAMPLED_PIXELS = 2_000_000
"""The chroma of derivatives and of variants from lossy sources is subsampled in linear light up to this size.
It takes 5 ms a megapixel, and gains 0.4 points of SSIMULACRA2 for a variant of 640 pixels from a derivative
of 1,156. In larger ones it gains 0.2 for 1 % more bytes: the chroma of their source is hardly finer."""

LOSSLESS_EFFORT = 60
"""The effort of lossless WebP, 0–100, which the encoder takes as its quality."""

LINE_ART_MAX_COLOURS = 4_096
"""An image with no more colours in its sample may be line art."""
LINE_ART_SAMPLE_SIDE = 256
"""The maximum side of the sample, in pixels."""

MAX_PALETTE_COLOURS, MAX_4_BIT_COLOURS = 256, 16
MAX_LINE_ART_PIXELS = 4_000_000
PALETTE_COMPRESSION, LINE_ART_COMPRESSION = 9, 6
"""The zlib levels of a PNG with a palette, which has few bytes to compress, and of other line art."""


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
    if fmt is Format.PNG and (palette := _with_palette(image)) is not None:
        image = palette
        encoder_options["compress_level"] = PALETTE_COMPRESSION
    elif fmt is Format.PNG and image.width * image.height <= MAX_LINE_ART_PIXELS and is_line_art(image):
        encoder_options["compress_level"] = LINE_ART_COMPRESSION
    if subsample and codec.chroma_mode and image.mode == "RGB":
        image = subsample_420(image, codec.chroma_mode)
    return save([image], codec.name, encoder_options)


def encode_lossless(fmt: Format, image: Image.Image) -> bytes:
    """Encode an image without loss, as WebP or PNG."""
    options = {"lossless": True} if fmt is Format.WEBP else NO_OPTIONS
    return encode(fmt, image, LOSSLESS_EFFORT, options=options)


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


def is_line_art(image: Image.Image) -> bool:
    """Return whether an image has so few colours that a lossless encoding may be smaller than a lossy one."""
    sample = image.convert("RGB")
    sample.thumbnail((LINE_ART_SAMPLE_SIDE, LINE_ART_SAMPLE_SIDE), Image.Resampling.NEAREST)
    return sample.getcolors(LINE_ART_MAX_COLOURS) is not None


def _with_palette(image: Image.Image) -> Image.Image | None:
    """Return the same pixels in mode `P`, or `L` if they are grey; `None` if there are too many colours."""
    colours = image.getcolors(MAX_PALETTE_COLOURS)
    if colours is None:
        return None
    if len(colours) > MAX_4_BIT_COLOURS and all(len({*colour}) == 1 for _, colour in colours):  # type: ignore[misc]
        return image.getchannel(0)
    method = Image.Quantize.MEDIANCUT if image.mode == "RGB" else Image.Quantize.FASTOCTREE
    result = image.quantize(MAX_PALETTE_COLOURS, method)
    # An octree has empty entries.
    result = result.remap_palette([index for index, count in enumerate(result.histogram()) if count])
    difference = ImageChops.difference(result.convert(image.mode), image)
    return result if difference.getbbox(alpha_only=False) is None else None


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
    if metadata.iptc and fmt is Format.JPEG:
        options["extra"] = _iptc_segment(metadata.iptc)
    return options


def _iptc_segment(data_sets: bytes) -> bytes:
    """Return a JPEG segment with data sets of IPTC, which came from such a segment and so fit in one."""
    padding = b"\0" * (len(data_sets) % 2)
    resource = b"8BIM" + struct.pack(">HHI", IPTC_RESOURCE, 0, len(data_sets)) + data_sets + padding
    content = b"Photoshop 3.0\0" + resource
    return b"\xff\xed" + struct.pack(">H", 2 + len(content)) + content
