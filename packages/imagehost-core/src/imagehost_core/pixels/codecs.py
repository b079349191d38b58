"""The table of codecs: how each format is read and written, and with which settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from io import BytesIO
from types import MappingProxyType

import PIL
from attrs import frozen
from PIL import AvifImagePlugin, Image, features

from imagehost_core.formats import Format
from imagehost_core.pixels import quantisation
from imagehost_core.pixels.chroma_subsampling import CHROMA_SUBSAMPLING
from imagehost_core.pixels.resize import RESAMPLER

if not features.check("avif"):
    # Pillow's own wheels have AVIF; builds of distributions may lack it, and this plug-in brings it.
    import pillow_avif  # type: ignore[import-untyped]  # noqa: F401

PIPELINE_VERSION = 4
"""Raised whenever the same job gives other bytes than before, so that every ETag changes with it."""


@frozen
class Codec:
    """How Pillow is told to handle a format.

    Attributes:
        name: Pillow's name of the plug-in. Only the named one may open the bytes.
        quality: The quality where none is asked for, or `None` where the format has none.
        settings: What else the encoder is told; the figures behind it are in
            `docs/decisions/0005`.
        graded: Returns how the encoder is told a quality.
        halved: Where the format keeps one colour for every two by two pixels: the mode in which a
            picture is given to the encoder once they are chosen.
    """

    name: str
    quality: int | None
    options: Mapping[str, object]
    quality_options: Callable[[int], Mapping[str, object]] = lambda quality: {"quality": quality}
    chroma_mode: str | None = None


def _settings(**values: object) -> Mapping[str, object]:
    return MappingProxyType(values)


_JPEG = _settings(optimize=True, progressive=True)
# One thread and no tiles by count of processors: the bytes may not depend on the machine.
_AVIF = _settings(codec="aom", speed=9, max_threads=1, autotiling=False, subsampling="4:2:0")
_AVIF_TUNING = _settings(advanced={"color:tune": "ssimulacra2"})
"""0.1 to 3 points of SSIMULACRA2 at equal bytes for the same time: `docs/decisions/0005`."""


def supported_avif_options(settings: Mapping[str, object]) -> Mapping[str, object]:
    """Return the settings, or none where the encoder does not know them, as libaom before 3.13."""
    try:
        Image.new("RGB", (1, 1)).save(BytesIO(), "AVIF", **_AVIF, **settings)
    except ValueError:
        return _settings()
    return settings


CODECS: dict[Format, Codec] = {
    Format.JPEG: Codec(
        "JPEG", 80, _settings(optimize=True, progressive=True), quantisation.settings, "YCbCr"
    ),
    Format.PNG: Codec("PNG", None, _settings(compress_level=2)),
    Format.WEBP: Codec("WEBP", 80, _settings(method=2), chroma_mode="RGB"),
    Format.AVIF: Codec(
        "AVIF", 60, _settings(**_AVIF, **supported_avif_options(_AVIF_TUNING)), chroma_mode="RGB"
    ),
    Format.GIF: Codec("GIF", None, _settings(optimize=False)),
}
"""Defaults of quality are contract 7's: *jpeg 80, webp 80, avif 60*."""

# A worker is one of several already, and may not be allowed to start threads.
AvifImagePlugin.DEFAULT_MAX_THREADS = 1

_LIBRARIES = ("jpg", "libjpeg_turbo", "webp", "avif", "zlib", "zlib_ng", "littlecms2")


def codec_fingerprint() -> str:
    """Return a short text that changes whenever the bytes of a variant could.

    It is made of Pillow's version, those of the codecs below it, what reduces, who chooses colours, and
    `PIPELINE_VERSION`.
    """
    versions = [
        f"pipeline {PIPELINE_VERSION}",
        f"resampler {RESAMPLER}",
        f"chroma {CHROMA_SUBSAMPLING}",
        f"pillow {PIL.__version__}",
    ]
    versions += [f"{name} {features.version(name)}" for name in _LIBRARIES]
    versions += [f"avif {dict(CODECS[Format.AVIF].options)}"]
    return sha256("; ".join(versions).encode()).hexdigest()[:12]
