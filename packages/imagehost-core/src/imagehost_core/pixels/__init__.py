"""Image decoding, transformation and encoding: the only package that imports Pillow.

`ingest` converts an upload to a master image and its derivatives; `render` converts either to a variant. Both
run in a sandboxed worker process that can be killed at any time: they open no files and no sockets, and keep
no state between two jobs.
"""

from imagehost_core.pixels.chroma_subsampling import CHROMA_SUBSAMPLING
from imagehost_core.pixels.codecs import codec_fingerprint, log_missing_native_modules
from imagehost_core.pixels.resize import RESAMPLER

__all__ = ["CHROMA_SUBSAMPLING", "RESAMPLER", "codec_fingerprint", "log_missing_native_modules"]
