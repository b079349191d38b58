"""The only room that knows Pillow: it turns uploads into masters, and masters into variants.

It is meant to run inside a worker process that can be killed: it opens no file, no socket, and
keeps nothing between two jobs.
"""

from imagehost_core.pixels.chroma_subsampling import CHROMA_SUBSAMPLING
from imagehost_core.pixels.codecs import codec_fingerprint
from imagehost_core.pixels.resize import RESAMPLER

__all__ = ["CHROMA_SUBSAMPLING", "RESAMPLER", "codec_fingerprint"]
