"""How a finished picture becomes bytes of a format."""

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
"""What Pillow says where libwebp has no memory left (`VP8_ENC_ERROR_OUT_OF_MEMORY`)."""

JPEG_BYTES_PER_PIXEL = 6
"""More than a JPEG ever needs: noise of black and white at quality 100, without subsampling, takes 3.3.
Pillow hands libjpeg one buffer for the whole of a progressive file, guesses 1 or 2 bytes, and fails where
that is too little."""

MAX_SEGMENT = 65_533
"""The longest content of one JPEG segment, in bytes; EXIF cannot be continued in a second one."""


@frozen
class Metadata:
    """What goes into a file beside its pixels. A variant has none of it.

    Attributes:
        profile: ICC, or `None`.
        exif: A TIFF structure, with or without its JPEG prefix, or `None`.
        xmp: An XMP packet, or `None`.
    """

    profile: bytes | None = None
    exif: bytes | None = None
    xmp: bytes | None = None


NO_METADATA = Metadata()
NO_SETTINGS: Mapping[str, object] = MappingProxyType({})


def encode(
    fmt: Format,
    image: Image.Image,
    quality: int | None = None,
    *,
    metadata: Metadata = NO_METADATA,
    settings: Mapping[str, object] = NO_SETTINGS,
    subsample: bool = False,
) -> bytes:
    """Return the picture in a format; on white where the format holds no transparency.

    Args:
        fmt: The format.
        image: In `RGB` or `RGBA`.
        quality: 1–100, or `None` for the format's default. Means nothing for PNG and GIF.
        metadata: What goes with the pixels.
        settings: For the encoder, beyond and before those of the table.
        subsample: Whether the colours that the format keeps are chosen here, where it keeps one for every
            two by two pixels and nothing is transparent.
    """
    codec = CODECS[fmt]
    graded = (
        codec.quality_options(codec.quality if quality is None else quality) if codec.quality else NO_SETTINGS
    )
    options: dict[str, Any] = {**codec.options, **metadata_options(fmt, metadata), **graded, **settings}
    picture = _prepare(fmt, image)
    if picture.mode == "P" and "transparency" in picture.info:
        options["transparency"] = picture.info["transparency"]
    if subsample and codec.chroma_mode and picture.mode == "RGB":
        picture = subsample_420(picture, codec.chroma_mode)
    return save([picture], codec.name, options)


def save(pictures: Sequence[Image.Image], name: str, options: Mapping[str, Any]) -> bytes:
    """Return what Pillow writes of the pictures, with nothing of what their files said beside.

    Args:
        pictures: One, or the frames of an animation.
        name: Pillow's name of the plug-in.
        options: What the plug-in is told.
    """
    width, height = pictures[0].size
    infos, block = [picture.info for picture in pictures], ImageFile.MAXBLOCK
    for picture in pictures:
        picture.info = {}
    frames = {"save_all": True, "append_images": pictures[1:]} if len(pictures) > 1 else {}
    buffer = BytesIO()
    ImageFile.MAXBLOCK = max(block, JPEG_BYTES_PER_PIXEL * width * height)
    try:
        pictures[0].save(buffer, name, **frames, **options)
    except ValueError as error:
        if str(error) != _WEBP_OUT_OF_MEMORY:
            raise
        raise MemoryError(str(error)) from error
    finally:
        ImageFile.MAXBLOCK = block
        for picture, info in zip(pictures, infos, strict=True):
            picture.info = info
    return buffer.getvalue()


def _prepare(fmt: Format, image: Image.Image) -> Image.Image:
    if not FORMATS[fmt].has_alpha:
        return flatten_on_white(image)
    image = drop_opaque_alpha(image)
    return quantize(image) if fmt is Format.GIF else image


def drop_opaque_alpha(image: Image.Image) -> Image.Image:
    """Return the picture without its alpha where that hides nothing."""
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        return image.convert("RGB")
    return image


def metadata_options(fmt: Format, metadata: Metadata) -> dict[str, object]:
    """Return the metadata as the format's encoder takes it; a GIF takes none."""
    if fmt is Format.GIF:
        return {}
    carried: dict[str, object] = {}
    if metadata.profile:
        carried["icc_profile"] = metadata.profile
    if metadata.exif:
        exif = metadata.exif.removeprefix(PREFIX)
        if fmt is not Format.JPEG or len(PREFIX + exif) <= MAX_SEGMENT:
            carried["exif"] = PREFIX + exif if fmt is Format.JPEG else exif
    if metadata.xmp and fmt is Format.PNG:
        text = PngImagePlugin.PngInfo()
        text.add_itxt("XML:com.adobe.xmp", metadata.xmp.decode("utf-8", "replace"))
        carried["pnginfo"] = text
    elif metadata.xmp and (fmt is not Format.JPEG or len(metadata.xmp) <= MAX_SEGMENT - 29):
        carried["xmp"] = metadata.xmp
    return carried
