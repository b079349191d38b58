"""Encoding of the master: the stored file from which variants are rendered.

The upload's own bytes are kept where neither its format, its quality nor its metadata has to change.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen
from PIL import Image

from imagehost_core.errors import FieldError, ValidationError
from imagehost_core.formats import FORMATS, Format
from imagehost_core.jobs import IngestJob
from imagehost_core.pixels.animation import encode_animation
from imagehost_core.pixels.decode import decoder_errors
from imagehost_core.pixels.decoded_upload import DecodedUpload
from imagehost_core.pixels.encode import NO_OPTIONS, encode
from imagehost_core.pixels.strip_metadata import strip_metadata
from imagehost_core.transform import Size

MASTER_OPTIONS: dict[Format, Mapping[str, object]] = {
    Format.JPEG: {"progressive": True},
    Format.PNG: {"compress_level": 6},
}
"""Encoder options for masters: they are encoded once and stored, so they get more time than variants."""

REORIENTED_QUALITY = 95
"""The quality of an upload that is re-encoded only because its EXIF orientation is removed."""

LOSSLESS_EFFORT = 60
"""The effort of lossless WebP, 0–100, which the encoder takes as its quality."""

LINE_ART_MAX_COLOURS = 4_096
"""An image with no more colours in its sample may be line art."""
LINE_ART_SAMPLE_SIDE = 256
"""The maximum side of the sample, in pixels."""


@frozen
class Master:
    """An encoded master.

    Attributes:
        format: The format of the file.
        data: The file, or `None` where the upload's own bytes are kept.
    """

    format: Format
    data: bytes | None


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
    options = upload.jpeg_options if fmt is job.format and job.quality is None else NO_OPTIONS
    return Master(fmt, _encode(upload, fmt, job.quality, options))


def _encode_if_smaller(job: IngestJob, upload: DecodedUpload, preferred: Format) -> Master:
    """Return the first re-encoded master that is smaller than the upload, or else the upload."""
    original = _original_or_stripped(job, upload)
    limit = len(upload.data if original is None else original)
    for fmt in dict.fromkeys((preferred, job.format)):
        is_candidate = fmt is preferred or (job.quality is not None and FORMATS[fmt].has_quality)
        if is_candidate and max(upload.first.size) <= FORMATS[fmt].max_side:
            data = _encode(upload, fmt, job.quality)
            if len(data) < limit:
                return Master(fmt, data)
    return Master(job.format, original)


def _original_or_stripped(job: IngestJob, upload: DecodedUpload) -> bytes | None:
    """Return the upload in its own format, without metadata if requested; `None` where it is unchanged."""
    repaired = upload.data if upload.is_repaired else None
    if not job.remove_exif:
        return repaired
    if upload.orientation == 1:
        with decoder_errors(upload.format):
            data = strip_metadata(upload.format, upload.data)
        return repaired if data == upload.data else data
    # Without EXIF the orientation is lost, so the upright frames are re-encoded.
    options = upload.jpeg_options if upload.format is Format.JPEG else NO_OPTIONS
    return _encode(upload, upload.format, REORIENTED_QUALITY, options)


def _encode(
    upload: DecodedUpload, fmt: Format, quality: int | None, options: Mapping[str, object] = NO_OPTIONS
) -> bytes:
    if max(upload.first.size) > FORMATS[fmt].max_side:
        expected = f"sides of at most {FORMATS[fmt].max_side:,} pixels in {fmt.value}"
        raise ValidationError(errors=[FieldError("the image", expected, str(Size(*upload.first.size)))])
    if upload.is_animated and FORMATS[fmt].animated:
        allow_mixed = fmt is Format.WEBP and upload.format is not Format.WEBP
        animation_options = {"allow_mixed": True} if allow_mixed else NO_OPTIONS
        return encode_animation(
            fmt, upload.animation, quality, metadata=upload.metadata, options=animation_options
        )
    image = upload.first_in_srgb() if fmt is Format.GIF else upload.first
    options = {**MASTER_OPTIONS.get(fmt, NO_OPTIONS), **options}
    quality = upload.quality if quality is None else quality
    data = encode(fmt, image, quality, metadata=upload.metadata, options=options)
    if fmt is Format.WEBP and may_be_line_art(upload):
        lossless = encode(fmt, image, LOSSLESS_EFFORT, metadata=upload.metadata, options={"lossless": True})
        return min(data, lossless, key=len)
    return data


def may_be_line_art(upload: DecodedUpload) -> bool:
    """Return whether lossless WebP may be smaller: a lossless upload with few colours.

    Trying it on a photograph would take longer than the rest of the upload.
    """
    if upload.format is Format.JPEG:
        return False
    sample = upload.first.convert("RGB")
    sample.thumbnail((LINE_ART_SAMPLE_SIDE, LINE_ART_SAMPLE_SIDE), Image.Resampling.NEAREST)
    return sample.getcolors(LINE_ART_MAX_COLOURS) is not None
