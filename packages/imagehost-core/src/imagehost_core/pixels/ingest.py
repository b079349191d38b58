"""Ingest of an upload: it is decoded once, and everything stored is derived from the decoded frames."""

from __future__ import annotations

from PIL import Image

from imagehost_core.formats import FORMATS, Format
from imagehost_core.jobs import IngestJob, IngestResult, derivative_sizes
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.colour import flatten_on_white
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.decoded_upload import DecodedUpload, decode_upload
from imagehost_core.pixels.decoder_errors import suppress_warnings
from imagehost_core.pixels.derivatives import ByteBudget, Derivatives, make_derivatives
from imagehost_core.pixels.master import Master, encode_master, may_be_line_art
from imagehost_core.pixels.thumbhash import thumbhash
from imagehost_core.transform import Fit, Size, Transform, plan


def ingest(job: IngestJob, data: bytes) -> tuple[IngestResult, list[bytes]]:
    """Convert an upload to what is stored of it.

    Args:
        job: The upload's format and options.
        data: The uploaded file, without any bytes after the image's end.

    Returns:
        The image's properties; and the blobs: the master (empty where the upload's own bytes are kept), then
        the derivatives in the order of the result.

    Raises:
        ValidationError: The decoder rejects the file, or the image exceeds the maximum side of the requested
            format.
    """
    with suppress_warnings():
        upload = decode_upload(job, data)
        master = encode_master(job, upload)
        preview = _render_preview(upload, master)
        derivatives = _make_derivatives(job, upload, master, preview)
        placeholder = thumbhash(derivatives.smallest)
        result = _describe(upload, master, derivatives, placeholder)
    return result, [master.data or b"", *(blob for _, blob in derivatives.derivatives)]


def _render_preview(upload: DecodedUpload, master: Master) -> Image.Image:
    """Return the first frame, without alpha where the master has none."""
    return upload.first if FORMATS[master.format].has_alpha else flatten_on_white(upload.first)


def _make_derivatives(
    job: IngestJob, upload: DecodedUpload, master: Master, preview: Image.Image
) -> Derivatives:
    """Return the derivatives of a still master.

    Animations have none, nor has line art: JPEG would blur its lines. A JPEG has none of about its own size,
    which would save no time.
    """
    budget = ByteBudget.of(len(upload.data), len(master.data or upload.data))
    has_none = _is_animated(upload, master.format) or may_be_line_art(upload)
    size = Size(*preview.size)
    sizes = () if has_none else _derivative_sizes(job, size)
    if not CODECS[master.format].keeps_large_derivatives:
        sizes = tuple(smaller for smaller in sizes if 5 * smaller.pixels <= 4 * size.pixels)
    return make_derivatives(preview, sizes, budget, upload.profile)


def _derivative_sizes(job: IngestJob, size: Size) -> tuple[Size, ...]:
    if job.derivative_sides is None:
        return derivative_sizes(size)
    sizes = (plan(size, Transform(side, side, fit=Fit.INSIDE)).resize for side in job.derivative_sides)
    return tuple(derivative for derivative in sizes if derivative.pixels <= size.pixels)


def _describe(
    upload: DecodedUpload, master: Master, derivatives: Derivatives, placeholder: str
) -> IngestResult:
    is_animated = _is_animated(upload, master.format)
    frames = upload.animation.frames if is_animated else upload.animation.frames[:1]
    return IngestResult(
        format=master.format,
        size=Size(*upload.first.size),
        frames=_count_frames(master.format, master.data or upload.data) if is_animated else 1,
        has_alpha=FORMATS[master.format].has_alpha and any(frame.mode == "RGBA" for frame in frames),
        placeholder=placeholder,
        unchanged=master.data is None,
        derivatives=tuple(size for size, _ in derivatives.derivatives),
    )


def _is_animated(upload: DecodedUpload, fmt: Format) -> bool:
    """Return whether the master has all frames: PNG keeps them only as the upload's own format."""
    return upload.is_animated and (FORMATS[fmt].animated or fmt is upload.format)


def _count_frames(fmt: Format, data: bytes) -> int:
    """Return the number of frames of the encoded file: encoders merge equal consecutive frames."""
    return open_image(fmt, data).frame_count
