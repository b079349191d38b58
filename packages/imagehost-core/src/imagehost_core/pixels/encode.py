"""Encoding of a finished image or animation to the bytes of a format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PIL import Image

from imagehost_core.formats import FORMATS, Format
from imagehost_core.pixels.animation import Animation
from imagehost_core.pixels.chroma_subsampling import subsample_420
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.save import NO_METADATA, NO_OPTIONS, Metadata, save

MAX_SUBSAMPLED_PIXELS = 2_000_000
"""The chroma of derivatives and of variants from lossy sources is subsampled in linear light up to this size.
It takes 5 ms a megapixel, and gains 0.4 points of SSIMULACRA2 for a variant of 640 pixels from a derivative
of 1,156. In larger ones it gains 0.2 for 1 % more bytes: the chroma of their source is hardly finer."""

LOSSLESS_EFFORT = 60
"""The effort of lossless WebP, 0–100, which the encoder takes as its quality."""


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
        **codec.metadata_options(metadata),
        **quality_options,
        **options,
    }
    image, own_options = codec.prepare(image)
    encoder_options.update(own_options)
    if subsample and codec.chroma_mode and image.mode == "RGB":
        image = subsample_420(image, codec.chroma_mode)
    return save([image], codec.plugin, encoder_options)


def encode_lossless(fmt: Format, image: Image.Image) -> bytes:
    """Encode an image without loss, as WebP or PNG."""
    return encode(fmt, image, LOSSLESS_EFFORT, options=CODECS[fmt].lossless_options)


def encode_animation(
    fmt: Format,
    animation: Animation,
    quality: int | None = None,
    *,
    metadata: Metadata = NO_METADATA,
    options: Mapping[str, object] = NO_OPTIONS,
) -> bytes:
    """Encode an animation as WebP or GIF.

    Args:
        fmt: `Format.WEBP` or `Format.GIF`.
        animation: The frames to encode.
        quality: 1–100, or `None` for the format's default. Ignored for GIF.
        metadata: Metadata to embed; ignored for GIF.
        options: Encoder options that override the codec's.
    """
    return CODECS[fmt].encode_animation(animation, quality, metadata, options)
