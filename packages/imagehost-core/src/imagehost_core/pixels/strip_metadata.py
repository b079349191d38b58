"""Removal of EXIF, XMP, IPTC and comments from a file without re-encoding its pixels.

Everything that decoders do not need to show the same image is removed: comments, timestamps, previews, maker
notes, and bytes between the segments of a JPEG and the blocks of a GIF. The ICC profile stays.

Of more metadata than `MAX_METADATA_BYTES`, only the largest kinds are removed, until the rest fits.
"""

from __future__ import annotations

from collections import Counter

from imagehost_core.formats import Format
from imagehost_core.headers.header import MAX_METADATA_BYTES
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.formats.codec import EXIF, FURTHER_IMAGES, ICC, SHOWN


def strip_metadata(fmt: Format, data: bytes) -> bytes:
    """Return the file without metadata.

    Args:
        fmt: JPEG, PNG, WebP or GIF.
        data: A whole file that a decoder has accepted.

    Raises:
        ValueError: The file is malformed.
        IndexError: The file is truncated.
    """
    return CODECS[fmt].filter(data, lambda kind, _size: kind in (SHOWN, ICC))


def drop_excess_metadata(fmt: Format, data: bytes) -> bytes:
    """Return the file with at most `MAX_METADATA_BYTES` of metadata, or `data` itself.

    The largest kinds are dropped as a whole, EXIF and the ICC profile last.

    Args:
        fmt: JPEG, PNG, WebP or GIF.
        data: A whole file whose structure the header scan has accepted.

    Raises:
        ValueError: The file is malformed.
        IndexError: The file is truncated.
    """
    if len(data) <= MAX_METADATA_BYTES:
        return data
    sizes = Counter[bytes]()

    def count(kind: bytes, size: int) -> bool:
        sizes[kind] += size
        return True

    CODECS[fmt].filter(data, count)
    metadata = [kind for kind in sizes if kind not in (SHOWN, FURTHER_IMAGES)]
    excess = sum(sizes[kind] for kind in metadata) - MAX_METADATA_BYTES
    dropped = set[bytes]()
    for kind in sorted(metadata, key=lambda kind: (kind == ICC, kind == EXIF, -sizes[kind])):
        if excess > 0:
            dropped.add(kind)
            excess -= sizes[kind]
    return CODECS[fmt].filter(data, lambda kind, _size: kind not in dropped) if dropped else data
