"""Encoding of a finished image or animation to the bytes of a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from PIL import Image

from imagehost_core.formats import FORMATS, Format
from imagehost_core.pixels.animation import Animation
from imagehost_core.pixels.chroma_subsampling import subsample_420
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.formats.codec import HUGE_PIXELS
from imagehost_core.pixels.line_art import is_line_art, sample_tiles
from imagehost_core.pixels.save import NO_METADATA, NO_OPTIONS, Metadata

MAX_SUBSAMPLED_PIXELS = 2_000_000
"""The chroma of derivatives and of variants from lossy sources is subsampled in linear light up to this size.
It takes 5 ms a megapixel, and gains 0.4 points of SSIMULACRA2 for a variant of 640 pixels from a derivative
of 1,156. In larger ones it gains 0.2 for 1 % more bytes: the chroma of their source is hardly finer."""

LOSSLESS_EFFORT, ANIMATION_EFFORT = 60, 25
"""The effort of lossless WebP, 0–100, which the encoder takes as its quality. At 25 an animation has as many
bytes, and no content takes longer than with loss."""

SAMPLE_SIDE = 64
"""The side of the tiles that tell whether line art has fewer bytes without loss, in pixels."""
MAX_ANIMATION_RATIO = 1.5
"""Animations are tried without loss if samples of two frames have no more times the bytes so, and not with it
if they have fewer. What does not change costs nothing without loss: of 16 animations, those with up to 1.27
were smaller so, and those with 1.48 and more were not."""


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
    return codec.save(image, encoder_options)


def encode_lossless(fmt: Format, image: Image.Image) -> bytes:
    """Encode an image without loss, as WebP or PNG."""
    return encode(fmt, image, LOSSLESS_EFFORT, options=CODECS[fmt].lossless_options)


def lossless_ratio(
    lossless: Format, lossy: Format, images: Sequence[Image.Image], quality: int | None
) -> float:
    """Return the bytes of samples of images without loss, compared with those with loss.

    Of 31 screenshots, charts, scans and frames of GIFs, none that has up to 1.0 was smaller with loss as a
    whole, and none that has 1.75 or more without.
    """
    samples = [sample_tiles(image, SAMPLE_SIDE) for image in images]
    exact_bytes = sum(len(encode_lossless(lossless, sample)) for sample in samples)
    return exact_bytes / sum(len(encode(lossy, sample, quality)) for sample in samples)


def encode_animation(
    fmt: Format,
    animation: Animation,
    quality: int | None = None,
    *,
    metadata: Metadata = NO_METADATA,
    options: Mapping[str, object] = NO_OPTIONS,
    source_is_lossy: bool = True,
) -> bytes:
    """Encode an animation as WebP or GIF; line art without loss where that is smaller.

    Args:
        fmt: `Format.WEBP` or `Format.GIF`.
        animation: The frames to encode.
        quality: 1–100, or `None` for the format's default. Ignored for GIF.
        metadata: Metadata to embed; ignored for GIF.
        options: Encoder options that override the codec's.
        source_is_lossy: Whether the frames come from a lossy encoding, so that they are not line art.
    """
    codec = CODECS[fmt]
    if options or source_is_lossy or not codec.lossless_options:
        return codec.encode_animation(animation, quality, metadata, options)
    frames = (animation.frames[0], animation.frames[len(animation.frames) // 2])
    pixels = frames[0].width * frames[0].height * len(animation.frames)
    may_be_exact = pixels <= HUGE_PIXELS and all(map(is_line_art, frames))
    ratio = lossless_ratio(fmt, fmt, frames, quality) if may_be_exact else inf
    encodings: list[tuple[int | None, Mapping[str, object]]] = []
    if ratio > 1:
        encodings.append((quality, codec.mixed_options))
    if ratio <= MAX_ANIMATION_RATIO:
        encodings.append((ANIMATION_EFFORT, codec.lossless_options))
    files = (codec.encode_animation(animation, level, metadata, chosen) for level, chosen in encodings)
    return min(files, key=len)
