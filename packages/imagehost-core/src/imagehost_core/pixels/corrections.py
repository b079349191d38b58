"""Corrections of an uploaded file whose pixels need not be encoded again.

Checksums, a missing end, metadata that is malformed or too much, an orientation that browsers ignore, and
claims of what the file does not contain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from io import BytesIO

from imagehost_core.formats import Format
from imagehost_core.headers import jpeg
from imagehost_core.headers.exif import PREFIX, standard_exif
from imagehost_core.headers.further_images import MPF_LABEL
from imagehost_core.headers.reader import HeaderReader
from imagehost_core.headers.xmp import XMP_EXTENSION_LABEL, XMP_LABEL, blank_claims
from imagehost_core.pixels.decode import complete_jpeg, decoder_errors
from imagehost_core.pixels.malformed_metadata import drop_malformed_metadata
from imagehost_core.pixels.png import SIGNATURE_BYTES, iter_chunks, png_chunk, repair_checksums
from imagehost_core.pixels.strip_metadata import drop_excess_metadata

_GAIN_MAP_LABEL = b"urn:iso:std:iso:ts:21496:-1\0"
"""The label of the segment that says that the file has a gain map (ISO 21496-1)."""


def correct(fmt: Format, data: bytes) -> bytes:
    """Return a file that decoders accept, and that claims nothing but what it contains; or `data` itself.

    Browsers show it upright, if they read EXIF of its format.

    Args:
        fmt: The format.
        data: A whole file whose structure the header scan has accepted.

    Raises:
        ValidationError: A part of the pixels is missing or damaged.
    """
    with decoder_errors(fmt):
        for correction in _CORRECTIONS[fmt]:
            data = correction(data)
    return data


def with_exif(data: bytes, exif: bytes) -> bytes:
    """Return a PNG with an EXIF block in place of those that it has.

    Args:
        data: The file.
        exif: A TIFF file.
    """
    header, *others = (data[start:end] for kind, start, end in iter_chunks(data) if kind != b"eXIf")
    return b"".join((data[:SIGNATURE_BYTES], header, png_chunk(b"eXIf", exif), *others))


def _standardize_jpeg_orientation(data: bytes) -> bytes:
    """Return a JPEG whose orientation all browsers apply: of its first EXIF, as SHORT after one label."""
    span = jpeg.find_exif(HeaderReader(BytesIO(data), len(data)))
    exif = standard_exif(data[slice(*span)]) if span else None
    if span is None or exif is None:
        return data
    start, end = span
    # Of the same length: the offsets of MPF count from a later segment.
    return data[:start] + (PREFIX + exif).ljust(end - start, b"\0") + data[end:]


def _standardize_png_orientation(data: bytes) -> bytes:
    """Return a PNG whose orientation all browsers apply: that of its first EXIF, before the pixels."""
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


def _remove_missing_claims(data: bytes) -> bytes:
    """Return a JPEG without claims of videos, and of further images that it does not contain.

    Bytes between its images, which no index names, become zeros. The offsets of MPF, which count from its
    segment, stay valid.
    """
    header = jpeg.read(HeaderReader(BytesIO(data), len(data)))
    further = header.further_images
    has_extension = any(data.startswith(XMP_EXTENSION_LABEL, start) for _, start, _ in header.metadata_spans)
    missing = (() if further.is_mpf_valid else (MPF_LABEL,)) + (() if further.spans else (_GAIN_MAP_LABEL,))
    view = memoryview(data)
    parts: list[bytes | memoryview] = []
    offset = end = 0
    has_packet = False
    for marker, start, end in jpeg.segments(HeaderReader(BytesIO(data), len(data))):
        content = data[start + 2 : end] if marker in (jpeg.MPF_MARKER, jpeg.XMP_MARKER) else b""
        if content.startswith(missing):
            kept = b""
        elif content.startswith(XMP_LABEL) and not has_packet:
            has_packet = True
            packet = blank_claims(
                content, further.missing, has_images=bool(further.spans), has_extension=has_extension
            )
            kept = data[start - 2 : start + 2] + packet
        else:
            continue
        parts += view[offset : start - 2], kept
        offset = end
    parts.append(view[offset:end])
    for start, stop in further.spans:
        parts += bytes(max(0, start - end)), view[max(start, end) : stop]
        end = max(end, stop)
    return b"".join(parts)


_CORRECTIONS: dict[Format, Sequence[Callable[[bytes], bytes]]] = {
    Format.JPEG: (
        complete_jpeg,
        partial(drop_excess_metadata, Format.JPEG),
        partial(drop_malformed_metadata, Format.JPEG),
        _standardize_jpeg_orientation,
        _remove_missing_claims,
    ),
    Format.PNG: (
        repair_checksums,
        partial(drop_excess_metadata, Format.PNG),
        partial(drop_malformed_metadata, Format.PNG),
        _standardize_png_orientation,
    ),
    Format.WEBP: (
        partial(drop_excess_metadata, Format.WEBP),
        partial(drop_malformed_metadata, Format.WEBP),
    ),
    Format.GIF: (partial(drop_excess_metadata, Format.GIF),),
}
