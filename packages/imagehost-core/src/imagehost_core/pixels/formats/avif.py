"""AVIF: the speed and the tuning of its encoder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from io import BytesIO
from types import MappingProxyType

from PIL import Image, features

from imagehost_core.formats import Format
from imagehost_core.pixels.formats.codec import Codec
from imagehost_core.pixels.save import NO_OPTIONS

if features.check("avif"):
    from PIL import AvifImagePlugin
else:
    # Pillow's own wheels support AVIF; builds of Linux distributions may not.
    from pillow_avif import AvifImagePlugin  # type: ignore[import-untyped, no-redef]

# Workers run in parallel already, and their sandbox may not allow new threads.
AvifImagePlugin.DEFAULT_MAX_THREADS = 1

_TUNING: Mapping[str, object] = MappingProxyType({"advanced": {"color:tune": "ssimulacra2"}})
"""Gains 0.1 to 3 points of SSIMULACRA2 at equal size and time."""


class AvifCodec(Codec):
    """Lossy, for variants and for derivatives with alpha; uploads do not accept it."""

    format = Format.AVIF
    plugin = "AVIF"
    # One thread and no automatic tiling: the output must not depend on the number of processors.
    options = MappingProxyType(
        {"codec": "aom", "speed": 9, "max_threads": 1, "autotiling": False, "subsampling": "4:2:0"}
    )
    chroma_mode = "RGB"
    # Firefox shows chroma of half the resolution in blocks, which are visible at coloured lines.
    line_art_options = MappingProxyType({"subsampling": "4:4:4"})
    is_always_lossy = True

    def quality_options(self, quality: int) -> Mapping[str, object]:
        """Return the encoder options of a quality; libaom rejects the tuning at 100, which is lossless."""
        return {"quality": quality, **(_supported_tuning() if quality < 100 else {})}

    def speed_options(self, speed: int | None) -> Mapping[str, object]:
        return NO_OPTIONS if speed is None else {"speed": speed}


def libaom_version() -> str | None:
    """Return the version of the encoder."""
    version: str | None = AvifImagePlugin.get_codec_version("aom")
    return version


def supported_avif_options(options: Mapping[str, object]) -> Mapping[str, object]:
    """Return the options, or none where the encoder rejects them, as libaom before 3.13."""
    try:
        Image.new("RGB", (1, 1)).save(BytesIO(), "AVIF", **AvifCodec.options, **options)
    except ValueError:
        return NO_OPTIONS
    return options


@cache
def _supported_tuning() -> Mapping[str, object]:
    """Return the supported tuning; not when this module is imported: the encoder takes 2 MiB of memory."""
    return supported_avif_options(_TUNING)
