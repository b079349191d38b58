"""JPEG: segments from marker to marker, up to the first end of image.

Sources: ITU-T T.81, annex B (markers); where it says nothing, the behaviour of libjpeg-turbo,
which decodes the files: bytes between segments are skipped up to the next marker.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import partial

from imagehost_core.errors import ValidationError
from imagehost_core.formats import Format
from imagehost_core.headers.exif import LABEL, PREFIX, scan_orientation
from imagehost_core.headers.further_images import MPF_LABEL, find_further_images
from imagehost_core.headers.header import FoundMetadata, ImageHeader, MetadataKind
from imagehost_core.headers.jpeg_frame import FRAMES, UNSUPPORTED_FRAMES, JpegFrame, read_frame
from imagehost_core.headers.reader import HeaderReader, damaged_file
from imagehost_core.headers.xmp import XMP_EXTENSION_LABEL, XMP_LABEL

MAX_SEGMENTS = 2_048
"""The most segments of a JPEG. 100 scans with six tables each, an ICC profile in 255 segments and 50 MB of
other metadata in full segments are about 1,800."""

MAX_PADDING_BYTES = 65_536
"""The most fill bytes (0xFF) before markers, and other bytes between segments, of a JPEG. Encoders write few,
for alignment; decoders read them one by one, and again from the first one for each part of the file."""

_MARKER = re.compile(rb"\xff[\xc0-\xc7\xc9-\xcf\xd8-\xef\xfe\xff]")
"""The markers that start a segment or end the image, and fill bytes. Of the others, 0xFF00 is a stuffed byte
of the pixels, 0xFF01 and 0xFFD0 to 0xFFD7 (restarts) have no segment, and the rest is reserved: decoders stop
there."""

_START_OF_IMAGE, _END_OF_IMAGE = b"\xff\xd8", b"\xff\xd9"
_FILL = 0xFF
_SOI, _EOI, _SOS, _COM = 0xD8, 0xD9, 0xDA, 0xFE
_APP = range(0xE0, 0xF0)
XMP_MARKER, MPF_MARKER = 0xE1, 0xE2

_LABELS = (
    (0xE1, LABEL, MetadataKind.EXIF),
    (0xE1, XMP_LABEL, MetadataKind.XMP),
    (0xE1, XMP_EXTENSION_LABEL, MetadataKind.XMP),
    (0xE2, b"ICC_PROFILE\0", MetadataKind.ICC),
    (0xED, b"Photoshop 3.0\0", MetadataKind.IPTC),
)
"""Segments of metadata: the marker, the first bytes of the content, and the kind."""
_LONGEST_LABEL = max(len(label) for _, label, _ in _LABELS)


def read(reader: HeaderReader) -> ImageHeader:
    """Return the header of a JPEG.

    The image ends at the first end-of-image marker: thumbnails are within segments. Without that marker it
    ends with the file if pixels come before: only a decoder can tell whether some are missing.

    Raises:
        ValidationError: The structure is damaged.
    """
    frame: JpegFrame | None = None
    first_pixels = 0
    least_bits = 0
    scans = 0
    metadata = FoundMetadata()
    exif_span: tuple[int, int] | None = None
    mpf_span: tuple[int, int] | None = None
    in_pixels = False
    for code, start, end in segments(reader):
        if in_pixels and scans == 1 and 8 * (start - 2 - first_pixels) < least_bits:
            expected = f"at least {-(-least_bits // 8):,} bytes for the pixels of the first scan of a JPEG"
            raise damaged_file(expected, f"{start - 2 - first_pixels:,}")
        in_pixels = code == _SOS
        if code == _SOI:
            raise damaged_file("one start-of-image marker in a JPEG", f"a second one at offset {start - 2:,}")
        if code in FRAMES or code in UNSUPPORTED_FRAMES:
            if frame is not None:
                raise damaged_file("one frame in a JPEG", f"a second one at offset {start - 2:,}")
            frame = read_frame(reader, code, start, end)
        elif code == _SOS:
            if frame is None:
                raise damaged_file("a frame header before a JPEG's pixels", "none")
            scans += 1
            if scans == 1:
                first_pixels = end
                least_bits = frame.least_bits(reader.read_exactly(start, end - start))
                exif_span = metadata.exif_span
        elif code in _APP or code == _COM:
            content = reader.peek(start + 2, _LONGEST_LABEL)
            metadata.add(_metadata_kind(code, content), start + 2, end)
            if code == MPF_MARKER and content.startswith(MPF_LABEL) and mpf_span is None:
                mpf_span = start + 2 + len(MPF_LABEL), end
    if frame is None or not scans:
        raise damaged_file("a JPEG with pixels", "one that ends before them")
    orientation = scan_orientation(reader, exif_span)
    further = find_further_images(
        reader, end, mpf_span, _xmp_packet(reader, metadata), partial(_end_of_image, reader)
    )
    return ImageHeader(
        format=Format.JPEG,
        width=frame.width,
        height=frame.height,
        orientation=orientation.value,
        is_upright_in_browsers=orientation.is_applied_by_browsers(len(PREFIX)),
        end_offset=max(end, *(stop for _, stop in further.spans)) if further.spans else end,
        further_images=further,
        scans=scans,
        is_displayable=frame.is_displayable,
        metadata=metadata.kinds,
        metadata_spans=metadata.spans,
    )


def find_exif(reader: HeaderReader) -> tuple[int, int] | None:
    """Return the offsets of the first EXIF block, with its label, and of its end; `None` if there is none.

    One that follows the pixels does not count: decoders have returned the image by then.

    Raises:
        ValidationError: The structure before the pixels is damaged.
    """
    for code, start, end in segments(reader):
        if code in (_SOS, _EOI):
            break
        if code in _APP and _metadata_kind(code, reader.peek(start + 2, len(LABEL))) is MetadataKind.EXIF:
            return start + 2, end
    return None


def _xmp_packet(reader: HeaderReader, metadata: FoundMetadata) -> bytes:
    """Return the first XMP packet, with its label: the one that is not divided into segments."""
    for kind, start, end in metadata.spans:
        if kind is MetadataKind.XMP and reader.peek(start, len(XMP_LABEL)) == XMP_LABEL:
            return reader.peek(start, end - start)
    return b""


def _end_of_image(reader: HeaderReader, start: int, stop: int) -> int | None:
    """Return the offset of the end of the image that begins at `start` and ends at `stop` or before.

    Returns:
        `None` if there is none.
    """
    reader = reader.until(stop)
    if reader.peek(start, 2) != _START_OF_IMAGE:
        return None
    try:
        *_, (code, _, end) = segments(reader, start + 2)
    except ValidationError:
        return None
    return end if code == _EOI and reader.peek(end - 2, 2) == _END_OF_IMAGE else None


def segments(reader: HeaderReader, offset: int = 2) -> Iterator[tuple[int, int, int]]:
    """Yield the marker of each segment and the offsets of its length and of its end; last those of EOI.

    If the end-of-image marker is missing, it is yielded with the end of the file.

    Args:
        reader: The file.
        offset: Offset of the first byte after the start-of-image marker.
    """
    padding = 0
    in_pixels = False
    while True:
        start = reader.search(_MARKER, offset, 2)
        if start is None and not in_pixels:
            raise damaged_file("a JPEG with an end-of-image marker", "one cut short before it")
        code = _EOI if start is None else reader.read_exactly(start, 2)[1]
        start = reader.size if start is None else start
        padding += (code == _FILL) + (0 if in_pixels else start - offset)
        if padding > MAX_PADDING_BYTES:
            raise damaged_file(f"at most {MAX_PADDING_BYTES:,} bytes between the segments of a JPEG", "more")
        if code == _FILL:
            # The next byte may begin a marker.
            offset = start + 1
            continue
        reader.count_parts(MAX_SEGMENTS)
        if code in (_EOI, _SOI):
            yield code, start + 2, min(start + 2, reader.size)
            return
        end = start + 2 + max(2, struct.unpack(">H", reader.read_exactly(start + 2, 2))[0])
        reader.require_length(end)
        yield code, start + 2, end
        in_pixels = code == _SOS
        offset = end


def _metadata_kind(code: int, content: bytes) -> MetadataKind | None:
    for marker, label, kind in _LABELS:
        if code == marker and content.startswith(label):
            return kind
    return None
