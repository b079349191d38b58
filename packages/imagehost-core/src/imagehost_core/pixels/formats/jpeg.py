"""JPEG: its quantisation tables, segments of metadata, further images, and a missing end."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from io import BytesIO
from types import MappingProxyType

from PIL import ImageChops, JpegImagePlugin

from imagehost_core.formats import Format
from imagehost_core.headers import jpeg
from imagehost_core.headers.exif import PREFIX, TRANSPOSED, standard_exif
from imagehost_core.headers.further_images import MPF_LABEL
from imagehost_core.headers.metadata_blocks import IPTC_RESOURCE
from imagehost_core.headers.reader import HeaderReader
from imagehost_core.headers.xmp import XMP_EXTENSION_LABEL, XMP_LABEL, blank_claims
from imagehost_core.pixels import quantisation
from imagehost_core.pixels.colour import is_icc_profile
from imagehost_core.pixels.decoder_errors import decoder_errors
from imagehost_core.pixels.formats.codec import (
    EXIF,
    FURTHER_IMAGES,
    HUGE_PIXELS,
    ICC,
    MAX_LABEL,
    SHOWN,
    Codec,
    IsKept,
)
from imagehost_core.pixels.save import Metadata
from imagehost_core.pixels.source import PillowImage, SourceImage, open_whole

MAX_SEGMENT = 65_533
"""The maximum content of one JPEG segment, in bytes; EXIF cannot be split over several segments."""

XMP_HEADER_BYTES = 29
"""The length of the XMP namespace that precedes the packet in a JPEG segment."""

_JPEG_END = b"\xff\xd9"
_ENTROPY = b"\xee\xb7\xdd\xbe" * 192
"""Bytes that a decoder takes as pixels if it lacks some, and skips else. Unlike the zeros that it takes for
missing ones, most of their bits are ones."""
_APP2, _ICC_LABEL = 0xE2, b"ICC_PROFILE\0"
_GAIN_MAP_LABEL = b"urn:iso:std:iso:ts:21496:-1\0"
"""The label of the segment that says that the file has a gain map (ISO 21496-1)."""
_JPEG_EOI, _JPEG_SOS, _JPEG_COM = 0xD9, 0xDA, 0xFE
_JPEG_MARKER = re.compile(rb"\xff[\xc0-\xc7\xc9-\xcf\xd8-\xef\xfe]")
"""The markers of segments and of the end; the header scan explains the others. Decoders skip fill bytes, and
other bytes between segments."""
_JPEG_APPS = range(0xE0, 0xF0)
_JPEG_SHOWN_APPS = {0xE0: b"JFIF\0", 0xEE: b"Adobe"}
"""The application segments that affect how the image is shown, by marker, with the start of their content."""
_JPEG_LABELS = {(0xE1, b"Exif"): EXIF, (0xE2, b"ICC_PROFILE"): ICC}


class JpegCodec(Codec):
    """Lossy, by tables of quantisation; metadata is in segments before and between its scans."""

    format = Format.JPEG
    plugin = "JPEG"
    options = MappingProxyType({"optimize": True, "progressive": True})
    chroma_mode = "YCbCr"
    large_options = MappingProxyType({"progressive": False})
    master_options = MappingProxyType({"progressive": True})
    max_master_pixels = HUGE_PIXELS
    is_always_lossy = True
    keeps_large_derivatives = False

    def complete(self, data: bytes) -> bytes:
        return complete_jpeg(data)

    def drop_malformed(self, data: bytes) -> bytes:
        return _drop_incomplete_profile(data)

    def standardize(self, data: bytes) -> bytes:
        return _remove_missing_claims(_standardize_orientation(data))

    def filter(self, data: bytes, is_kept: IsKept) -> bytes:
        view = memoryview(data)
        parts = [view[:2]]
        offset, in_pixels = 2, False
        while True:
            found = _JPEG_MARKER.search(data, offset)
            if found is None:
                raise ValueError(f"expected a marker after byte {offset} but received none")
            start = found.start()
            if in_pixels:
                parts.append(view[offset:start])
            marker = data[start + 1]
            if marker == _JPEG_EOI:
                end = len(data) if is_kept(FURTHER_IMAGES, len(data) - start - 2) else start + 2
                parts.append(view[start:end])
                return b"".join(parts)
            offset = start + 2 + max(2, int.from_bytes(data[start + 2 : start + 4], "big"))
            label = data[start + 4 : min(offset, start + 4 + MAX_LABEL)]
            if is_kept(_jpeg_kind(marker, label), offset - start):
                parts.append(view[start:offset])
            # Metadata can follow after the pixels of each scan.
            in_pixels = marker == _JPEG_SOS

    def luminance_table(self, source: SourceImage) -> list[int] | None:
        assert isinstance(source, PillowImage)
        assert isinstance(source.opened, JpegImagePlugin.JpegImageFile)
        return source.opened.quantization.get(0)

    def own_options(self, source: SourceImage) -> Mapping[str, object]:
        """Return the quantisation tables and chroma subsampling, transposed as the orientation does."""
        assert isinstance(source, PillowImage)
        image = source.opened
        assert isinstance(image, JpegImagePlugin.JpegImageFile)
        if image.mode != "RGB" or not image.quantization:
            return {"subsampling": 0}
        tables = [list(table) for _, table in sorted(image.quantization.items())]
        sampling = JpegImagePlugin.get_sampling(image)
        if source.orientation in TRANSPOSED:
            tables = [
                [table[8 * column + row] for row in range(8) for column in range(8)] for table in tables
            ]
            sampling = 0 if sampling == 1 else sampling
        # At quality 50, libjpeg uses the tables unscaled.
        return {"quality": 50, "qtables": tables, "subsampling": max(0, sampling)}

    def quality_options(self, quality: int) -> Mapping[str, object]:
        return quantisation.quality_options(quality)

    def metadata_options(self, metadata: Metadata) -> dict[str, object]:
        options = super().metadata_options(metadata)
        exif = PREFIX + (metadata.exif or b"").removeprefix(PREFIX)
        if "exif" in options and len(exif) <= MAX_SEGMENT:
            options["exif"] = exif
        else:
            options.pop("exif", None)
        if metadata.xmp and len(metadata.xmp) > MAX_SEGMENT - XMP_HEADER_BYTES:
            del options["xmp"]
        if metadata.iptc:
            options["extra"] = _iptc_segment(metadata.iptc)
        return options


def _iptc_segment(data_sets: bytes) -> bytes:
    """Return a JPEG segment with data sets of IPTC, which came from such a segment and so fit in one."""
    padding = b"\0" * (len(data_sets) % 2)
    resource = b"8BIM" + struct.pack(">HHI", IPTC_RESOURCE, 0, len(data_sets)) + data_sets + padding
    content = b"Photoshop 3.0\0" + resource
    return b"\xff\xed" + struct.pack(">H", 2 + len(content)) + content


def complete_jpeg(data: bytes) -> bytes:
    """Return a JPEG with its end-of-image marker; `data` itself if it has one.

    Raises:
        ValidationError: Pixels are missing, too: bytes in place of the marker change the image.
    """
    if data.endswith(_JPEG_END):
        return data
    data = data.removesuffix(b"\xff")
    with decoder_errors(Format.JPEG):
        one, other = (open_whole(data + more + _JPEG_END, "JPEG") for more in (b"", _ENTROPY))
        if ImageChops.difference(one, other).getbbox() is not None:
            raise EOFError("expected all pixels of a JPEG but received a part of them")
    return data + _JPEG_END


def _standardize_orientation(data: bytes) -> bytes:
    """Return a JPEG whose orientation all browsers apply: of its first EXIF, as SHORT after one label."""
    span = jpeg.find_exif(HeaderReader(BytesIO(data), len(data)))
    exif = standard_exif(data[slice(*span)]) if span else None
    if span is None or exif is None:
        return data
    start, end = span
    # Of the same length: the offsets of MPF count from a later segment.
    return data[:start] + (PREFIX + exif).ljust(end - start, b"\0") + data[end:]


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


def _drop_incomplete_profile(data: bytes) -> bytes:
    """Return a JPEG without the segments of an ICC profile unless each of them is there (ICC.1:2022, B.4)."""
    spans = [
        (start - 2, end)
        for marker, start, end in jpeg.segments(HeaderReader(BytesIO(data), len(data)))
        if marker == _APP2 and data.startswith(_ICC_LABEL, start + 2)
    ]
    header = 4 + len(_ICC_LABEL)
    # Each has its number and that of all of them, before its part of the profile.
    parts = sorted((data[start + header : end] for start, end in spans), key=lambda part: part[:1])
    is_complete = [tuple(part[:2]) for part in parts] == [(n + 1, len(parts)) for n in range(len(parts))]
    if not parts or (is_complete and is_icc_profile(b"".join(part[2:] for part in parts))):
        return data
    starts = (0, *(end for _, end in spans))
    ends = (*(start for start, _ in spans), len(data))
    return b"".join(data[start:end] for start, end in zip(starts, ends, strict=True))


def _jpeg_kind(marker: int, label: bytes) -> bytes:
    if marker == _JPEG_COM:
        return b"comment"
    if marker not in _JPEG_APPS or label.startswith(_JPEG_SHOWN_APPS.get(marker, b"\xff\xff")):
        return SHOWN
    label = label.partition(b"\0")[0]
    return _JPEG_LABELS.get((marker, label), b"%d %b" % (marker, label))
