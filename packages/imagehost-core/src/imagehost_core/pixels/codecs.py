"""The table of codecs: Pillow's plug-in and the encoder options of each format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from io import BytesIO
from types import MappingProxyType

import PIL
from attrs import frozen
from PIL import Image, features

from imagehost_core.formats import Format
from imagehost_core.pixels import quantisation
from imagehost_core.pixels.chroma_subsampling import CHROMA_SUBSAMPLING
from imagehost_core.pixels.resize import RESAMPLER

if features.check("avif"):
    from PIL import AvifImagePlugin
else:
    # Pillow's own wheels support AVIF; builds of Linux distributions may not.
    from pillow_avif import AvifImagePlugin  # type: ignore[import-untyped, no-redef]

PIPELINE_VERSION = 11
"""Incremented whenever the same job produces other bytes than before, so that every ETag changes."""


LARGE_PIXELS = 1_000_000
"""Larger JPEGs are not progressive: that would take more than twice the time of the encoder, 25 of 90 ms of a
variant of 1600×1200 from its derivative, for 3.5 % fewer bytes."""
SMALL_PIXELS = 160_000
"""A WebP of at most so many is encoded by method 4 instead of 2: that gains 1 point of SSIMULACRA2 at equal
bytes, and takes twice the time: 8 instead of 4 ms for 320×240 pixels."""
HUGE_PIXELS = 25_000_000
"""Images and animations of more pixels, over all frames, are encoded faster, so that photographs of 100
megapixels stay within the CPU time of a task. A still WebP keeps method 2: methods 0 and 1 fail for a
photograph of 96 megapixels, because the header of a frame may have at most 512 KiB."""


@frozen
class Codec:
    """Pillow's plug-in for a format, and its encoder options.

    Attributes:
        name: The name of Pillow's plug-in. Files are opened with this plug-in only.
        options: Encoder options; `docs/decisions/0005` has the measurements.
        quality_options: Maps a quality, 1–100, to encoder options.
        chroma_mode: For formats with 4:2:0 chroma: the mode of the image that is passed to the encoder after
            `subsample_420`. `None` for other formats.
        large_options: Encoder options of images with more than `LARGE_PIXELS`, beside the others.
        small_options: Encoder options of images with at most `SMALL_PIXELS`, beside the others.
        huge_options: Encoder options of images with more than `HUGE_PIXELS`, beside the others.
        huge_animation_options: Encoder options of animations with more over all frames, beside the others.
    """

    name: str
    options: Mapping[str, object]
    quality_options: Callable[[int], Mapping[str, object]] = lambda quality: {"quality": quality}
    chroma_mode: str | None = None
    large_options: Mapping[str, object] = MappingProxyType({})
    small_options: Mapping[str, object] = MappingProxyType({})
    huge_options: Mapping[str, object] = MappingProxyType({})
    huge_animation_options: Mapping[str, object] = MappingProxyType({})

    def options_for(self, pixels: int) -> Mapping[str, object]:
        """Return the encoder options of an image with that many pixels."""
        if pixels > HUGE_PIXELS:
            return {**self.options, **self.large_options, **self.huge_options}
        if pixels > LARGE_PIXELS:
            return {**self.options, **self.large_options}
        return {**self.options, **self.small_options} if pixels <= SMALL_PIXELS else self.options

    def animation_options(self, pixels: int) -> Mapping[str, object]:
        """Return the encoder options of an animation with that many pixels over all frames."""
        return {**self.options, **self.huge_animation_options} if pixels > HUGE_PIXELS else self.options


def _options(**values: object) -> Mapping[str, object]:
    return MappingProxyType(values)


# One thread and no automatic tiling: the output must not depend on the number of processors.
_AVIF = _options(codec="aom", speed=9, max_threads=1, autotiling=False, subsampling="4:2:0")
_AVIF_TUNING = _options(advanced={"color:tune": "ssimulacra2"})
"""Gains 0.1 to 3 points of SSIMULACRA2 at equal size and time."""


def supported_avif_options(options: Mapping[str, object]) -> Mapping[str, object]:
    """Return the options, or none where the encoder rejects them, as libaom before 3.13."""
    try:
        Image.new("RGB", (1, 1)).save(BytesIO(), "AVIF", **_AVIF, **options)
    except ValueError:
        return _options()
    return options


@cache
def _supported_avif_tuning() -> Mapping[str, object]:
    """Return the supported tuning; not when this module is imported: the encoder takes 2 MiB of memory."""
    return supported_avif_options(_AVIF_TUNING)


def _avif_quality_options(quality: int) -> Mapping[str, object]:
    """Return the encoder options of a quality; libaom rejects the tuning at 100, which is lossless."""
    tuning = _supported_avif_tuning() if quality < 100 else {}
    return {"quality": quality, **tuning}


CODECS: dict[Format, Codec] = {
    Format.JPEG: Codec(
        "JPEG",
        _options(optimize=True, progressive=True),
        quantisation.quality_options,
        "YCbCr",
        large_options=_options(progressive=False),
    ),
    Format.PNG: Codec("PNG", _options(compress_level=2), huge_options=_options(compress_level=1)),
    Format.WEBP: Codec(
        "WEBP",
        _options(method=2),
        chroma_mode="RGB",
        small_options=_options(method=4),
        huge_animation_options=_options(method=1),
    ),
    Format.AVIF: Codec("AVIF", _AVIF, _avif_quality_options, chroma_mode="RGB"),
    Format.GIF: Codec("GIF", _options(optimize=False)),
}

# Workers run in parallel already, and their sandbox may not allow new threads.
AvifImagePlugin.DEFAULT_MAX_THREADS = 1

_LIBRARIES = ("jpg", "libjpeg_turbo", "webp", "avif", "zlib", "zlib_ng", "littlecms2")


def codec_fingerprint() -> str:
    """Return 12 hexadecimal digits that change whenever the bytes of a variant could.

    They depend on the versions of Pillow and its codec libraries, on the resampler, on the chroma
    subsampling, and on `PIPELINE_VERSION`. Whether libaom supports the tuning depends on its version.
    """
    versions = [
        f"pipeline {PIPELINE_VERSION}",
        f"resampler {RESAMPLER}",
        f"chroma {CHROMA_SUBSAMPLING}",
        f"pillow {PIL.__version__}",
    ]
    versions += [f"{name} {features.version(name)}" for name in _LIBRARIES]
    versions += [f"aom {AvifImagePlugin.get_codec_version('aom')}"]
    return sha256("; ".join(versions).encode()).hexdigest()[:12]
