"""The table of codecs, and the fingerprint of the bytes that they encode."""

from __future__ import annotations

import logging
from hashlib import sha256

import PIL
from PIL import features

from imagehost_core.formats import Format
from imagehost_core.pixels.chroma_subsampling import CHROMA_SUBSAMPLING
from imagehost_core.pixels.formats.avif import AvifCodec, libaom_version
from imagehost_core.pixels.formats.codec import Codec
from imagehost_core.pixels.formats.gif import GifCodec
from imagehost_core.pixels.formats.jpeg import JpegCodec
from imagehost_core.pixels.formats.png import PngCodec
from imagehost_core.pixels.formats.webp import WebpCodec
from imagehost_core.pixels.resize import RESAMPLER

log = logging.getLogger(__name__)

PIPELINE_VERSION = 15
"""Incremented whenever the same job produces other bytes than before, so that every ETag changes."""

CODECS: dict[Format, Codec] = {
    codec.format: codec for codec in (JpegCodec(), PngCodec(), WebpCodec(), GifCodec(), AvifCodec())
}
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
    versions += [f"aom {libaom_version()}"]
    return sha256("; ".join(versions).encode()).hexdigest()[:12]


def log_missing_native_modules() -> None:
    """Log one line that says what is slower without the C extensions, where they were not built."""
    fallbacks = []
    if RESAMPLER != "native":
        fallbacks.append("resizing falls back to Pillow (about 4x slower)")
    if CHROMA_SUBSAMPLING != "sharp":
        fallbacks.append("chroma subsampling falls back to the encoders' own")
    if fallbacks:
        log.warning("C extensions of imagehost-core not built: %s", "; ".join(fallbacks))
