"""EXIF that states an orientation in a way that browsers ignore, brought to the one that all of them apply.

Browsers apply the first EXIF of a JPEG or PNG that precedes its pixels. So no pixels have to be re-encoded;
those of formats whose EXIF browsers ignore are turned when the master is encoded.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from io import BytesIO

from imagehost_core.formats import Format
from imagehost_core.headers.exif import PREFIX, standard_exif
from imagehost_core.headers.jpeg import find_exif
from imagehost_core.headers.reader import HeaderReader
from imagehost_core.pixels.png import SIGNATURE_BYTES, iter_chunks, png_chunk


def standardize_orientation(fmt: Format, data: bytes) -> bytes:
    """Return a file whose orientation browsers apply, if they read EXIF of its format; `data` if they do.

    Args:
        fmt: The format.
        data: A whole file whose structure the header scan has accepted.
    """
    return _STANDARDIZERS[fmt](data) if fmt in _STANDARDIZERS else data


def with_exif(data: bytes, exif: bytes) -> bytes:
    """Return a PNG with an EXIF block in place of those that it has.

    Args:
        data: The file.
        exif: A TIFF file.
    """
    header, *others = (data[start:end] for kind, start, end in iter_chunks(data) if kind != b"eXIf")
    return b"".join((data[:SIGNATURE_BYTES], header, png_chunk(b"eXIf", exif), *others))


def _standardize_jpeg(data: bytes) -> bytes:
    span = find_exif(HeaderReader(BytesIO(data), len(data)))
    exif = standard_exif(data[slice(*span)]) if span else None
    if span is None or exif is None:
        return data
    start, end = span
    length = struct.pack(">H", 2 + len(PREFIX + exif))
    return data[: start - 2] + length + PREFIX + exif + data[end:]


def _standardize_png(data: bytes) -> bytes:
    has_pixels = False
    for kind, start, end in iter_chunks(data):
        has_pixels = has_pixels or kind == b"IDAT"
        if kind == b"eXIf":
            received = data[start + 8 : end - 4]
            exif = standard_exif(received)
            if exif is None or (exif == received and not has_pixels):
                return data
            return with_exif(data, exif)
    return data


_STANDARDIZERS: dict[Format, Callable[[bytes], bytes]] = {
    Format.JPEG: _standardize_jpeg,
    Format.PNG: _standardize_png,
}
