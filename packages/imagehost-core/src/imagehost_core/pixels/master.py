"""Encoding of the master: the stored file from which variants are rendered.

The upload's own bytes are kept where neither its format, its quality nor its metadata has to change. An image
of more than `HUGE_PIXELS` is encoded once at most if no format is requested: a sample shows which encoding is
smallest, or that none is smaller than the upload.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from PIL import Image

from imagehost_core.errors import ValidationError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.headers.exif import UPRIGHT, exif_of_orientation
from imagehost_core.jobs import IngestJob
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.decoded_upload import DecodedUpload
from imagehost_core.pixels.decoder_errors import decoder_errors
from imagehost_core.pixels.encode import LOSSLESS_EFFORT, encode, encode_animation
from imagehost_core.pixels.formats.codec import HUGE_PIXELS
from imagehost_core.pixels.formats.png_file import with_exif
from imagehost_core.pixels.line_art import is_line_art, sample_tiles
from imagehost_core.pixels.save import NO_METADATA, NO_OPTIONS, Metadata
from imagehost_core.pixels.strip_metadata import strip_metadata
from imagehost_core.transform import Size

REORIENTED_QUALITY = 95
"""The quality of an upload that is re-encoded only because browsers would not show it upright."""

HUGE_LOSSLESS_EFFORT = 20
"""The effort of lossless WebP for huge images, 0–100."""

MAX_CONVERTED_PIXELS = 64_000_000
"""Animations of more pixels over all frames keep their format if none is requested: encoding a WebP takes up
to 0.14 s a megapixel."""

TILE_SIDE = 256
"""The side of the tiles in the sample of a huge image, in pixels."""
SAMPLE_MARGIN = 1.25
"""A huge image is encoded unless its sample predicts so many times the bytes of the upload."""


@frozen
class Master:
    """An encoded master.

    Attributes:
        format: The format of the file.
        data: The file, or `None` where the upload's own bytes are kept.
    """

    format: Format
    data: bytes | None


@frozen
class _Encoding:
    """An encoding of a still image."""

    format: Format
    quality: int
    options: Mapping[str, object]

    def encode(self, image: Image.Image, metadata: Metadata = NO_METADATA) -> bytes:
        return encode(self.format, image, self.quality, metadata=metadata, options=self.options)


def encode_master(job: IngestJob, upload: DecodedUpload) -> Master:
    """Encode the master of an upload.

    The format is the requested one; else WebP where that is smaller and `convert_to_webp` is set; else the
    upload's own. An upload that browsers do not display is always re-encoded, whatever its size.

    Raises:
        ValidationError: The image exceeds the maximum side of the requested format.
    """
    fmt = job.requested_format or (Format.WEBP if job.convert_to_webp else job.format)
    quality = job.quality if FORMATS[fmt].has_quality else None
    if not job.is_displayable:
        return _encode_displayable(job, upload, fmt)
    if fmt is job.format and quality is None:
        return Master(fmt, _original_or_stripped(job, upload))
    if job.requested_format is not None:
        return Master(fmt, _encode(upload, fmt, quality))
    return _encode_if_smaller(job, upload, fmt)


def _encode_displayable(job: IngestJob, upload: DecodedUpload, fmt: Format) -> Master:
    """Return the re-encoded master of an upload that browsers do not display.

    It is a JPEG if the image is too large for WebP and no format is requested.
    """
    if job.requested_format is None and max(upload.first.size) > FORMATS[fmt].max_side:
        fmt = job.format
    # The upload's own quantisation adds the least loss; a lossless JPEG has none.
    options = upload.own_options if fmt is job.format and job.quality is None else NO_OPTIONS
    return Master(fmt, _encode(upload, fmt, job.quality, options))


def _encode_if_smaller(job: IngestJob, upload: DecodedUpload, preferred: Format) -> Master:
    """Return the first re-encoded master that is smaller than the upload, or else the upload."""
    original = _original_or_stripped(job, upload)
    limit = len(upload.data if original is None else original)
    for fmt in dict.fromkeys((preferred, job.format)):
        is_candidate = fmt is preferred or (job.quality is not None and FORMATS[fmt].has_quality)
        if not is_candidate or max(upload.first.size) > FORMATS[fmt].max_side:
            continue
        if _may_be_smaller(upload, fmt, job.quality, limit):
            data = _encode(upload, fmt, job.quality)
            if len(data) < limit:
                return Master(fmt, data)
    return Master(job.format, original)


def _original_or_stripped(job: IngestJob, upload: DecodedUpload) -> bytes | None:
    """Return the upload in its own format, upright in browsers; without metadata if requested.

    Returns:
        `None` where the upload is unchanged.
    """
    repaired = upload.data if upload.is_repaired else None
    if upload.orientation != UPRIGHT and (job.remove_exif or not FORMATS[upload.format].turned_by_exif):
        return _turn_upright(upload)
    if not job.remove_exif:
        return repaired
    data = _strip(upload)
    return repaired if data == upload.data else data


def _turn_upright(upload: DecodedUpload) -> bytes:
    """Return the upright frames, re-encoded in the format of the upload; without losses if it has none."""
    fmt = upload.format
    if upload.is_animated and not FORMATS[fmt].animated:
        return with_exif(_strip(upload), exif_of_orientation(upload.orientation))
    codec = CODECS[fmt]
    if codec.is_lossless(upload.data):
        return _encode(upload, fmt, LOSSLESS_EFFORT, codec.lossless_options)
    return _encode(upload, fmt, REORIENTED_QUALITY, upload.own_options)


def _strip(upload: DecodedUpload) -> bytes:
    with decoder_errors(upload.format):
        return strip_metadata(upload.format, upload.data)


def _encode(
    upload: DecodedUpload, fmt: Format, quality: int | None, options: Mapping[str, object] = NO_OPTIONS
) -> bytes:
    if max(upload.first.size) > FORMATS[fmt].max_side:
        expected = f"sides of at most {FORMATS[fmt].max_side:,} pixels in {fmt.value}"
        raise ValidationError.of("the image", expected, str(Size(*upload.first.size)))
    if upload.is_animated and FORMATS[fmt].animated:
        lossy = CODECS[upload.format].is_lossy(upload.data)
        frames, metadata = upload.animation, upload.metadata
        return encode_animation(
            fmt, frames, quality, metadata=metadata, options=options, source_is_lossy=lossy
        )
    image = upload.first if CODECS[fmt].keeps_profile else upload.first_in_srgb()
    encodings = _encodings(upload, fmt, quality, options)
    if len(encodings) > 1 and upload.pixels > HUGE_PIXELS:
        sample = sample_tiles(image, TILE_SIDE)
        encodings = [min(encodings, key=lambda encoding: len(encoding.encode(sample)))]
    return min((encoding.encode(image, upload.metadata) for encoding in encodings), key=len)


def _encodings(
    upload: DecodedUpload, fmt: Format, quality: int | None, options: Mapping[str, object] = NO_OPTIONS
) -> list[_Encoding]:
    """Return the encodings of a still master in a format, the smallest of which is stored."""
    pixels = upload.pixels
    codec = CODECS[fmt]
    if pixels <= codec.max_master_pixels:
        options = {**codec.master_options, **options}
    # The options of the codec are those for the whole image, also for its sample.
    options = {**codec.options_for(pixels), **options}
    encodings = [_Encoding(fmt, upload.quality if quality is None else quality, options)]
    if codec.lossless_options and "lossless" not in options and may_be_line_art(upload):
        effort = LOSSLESS_EFFORT if pixels <= HUGE_PIXELS else HUGE_LOSSLESS_EFFORT
        encodings.append(_Encoding(fmt, effort, {**options, **codec.lossless_options}))
    return encodings


def _may_be_smaller(upload: DecodedUpload, fmt: Format, quality: int | None, limit: int) -> bool:
    """Return whether a master in a format may have less than `limit` bytes, and can be encoded in time."""
    if upload.is_animated and FORMATS[fmt].animated:
        return upload.pixels * len(upload.animation.frames) <= MAX_CONVERTED_PIXELS
    if upload.pixels <= HUGE_PIXELS:
        return True
    sample = sample_tiles(upload.first, TILE_SIDE)
    smallest = min(len(encoding.encode(sample)) for encoding in _encodings(upload, fmt, quality))
    return smallest * upload.pixels < limit * SAMPLE_MARGIN * sample.width * sample.height


def may_be_line_art(upload: DecodedUpload) -> bool:
    """Return whether lossless WebP may be smaller: a lossless upload with few colours.

    Trying it on a photograph would take longer than the rest of the upload.
    """
    return not CODECS[upload.format].is_always_lossy and is_line_art(upload.first)
