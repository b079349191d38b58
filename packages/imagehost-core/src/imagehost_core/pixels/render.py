"""Rendering of variants: from a stored file to the bytes of a variant."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from math import nan

from attrs import frozen
from PIL import Image

from imagehost_core.errors import BadRequestError, ValidationError
from imagehost_core.formats import FORMATS, Format, detect
from imagehost_core.headers.exif import TRANSPOSED, UPRIGHT
from imagehost_core.jobs import RenderJob, RenderResult
from imagehost_core.pixels import resize
from imagehost_core.pixels.animation import read_animation
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.colour import WHITE, flatten_on_white, normalize, to_srgb
from imagehost_core.pixels.decode import correct, open_image
from imagehost_core.pixels.decoder_errors import suppress_warnings
from imagehost_core.pixels.encode import (
    MAX_SUBSAMPLED_PIXELS,
    encode,
    encode_animation,
    encode_lossless,
    lossless_ratio,
)
from imagehost_core.pixels.format_choice import choose_lossless, choose_lossy, is_worth_its_bytes
from imagehost_core.pixels.line_art import is_line_art
from imagehost_core.pixels.source import SourceImage, apply_orientation
from imagehost_core.pixels.strip_metadata import strip_metadata
from imagehost_core.transform import MAX_OUTPUT_PIXELS, Size

LOWER_QUALITIES = (60, 40, 25, 15, 10, 5)
"""The qualities that are tried in order where a file has too many bytes. At the last, a JPEG of 1280×1280
pixels that are black or white at random has 298,000."""
MIN_SAMPLED_PIXELS = 500_000
"""Line art of fewer pixels is encoded with and without loss: its sample would take a quarter of that time."""
CLEAR_RATIO = 1.75
"""A sample of so many times the bytes without loss tells that the whole has more bytes so."""


@frozen
class RenderContext:
    """What the pipeline's steps need beside the frame.

    Attributes:
        job: The variant, with its geometry.
        orientation: The EXIF orientation of the source file, 1–8.
    """

    job: RenderJob
    orientation: int


class DamagedSourceError(Exception):
    """A stored file cannot be decoded, although it was decoded when it was stored."""


Step = Callable[[Image.Image, RenderContext], Image.Image]


def orient(image: Image.Image, context: RenderContext) -> Image.Image:
    """Rotate and mirror the frame to upright."""
    return apply_orientation(image, context.orientation)


def resize_and_crop(image: Image.Image, context: RenderContext) -> Image.Image:
    """Resize in linear light, computing only what the crop keeps; from any mode and profile to 8-bit sRGB."""
    return to_srgb(normalize(image), partial(resize.resize_and_crop, plan=context.job.plan))


def pad(image: Image.Image, context: RenderContext) -> Image.Image:
    """Pad for `fit=contain`: with transparency, or with white where the format has no alpha."""
    job = context.job
    if not job.plan.padded:
        return image
    size = (job.plan.output.width, job.plan.output.height)
    position = (job.plan.pad.left, job.plan.pad.top)
    if not FORMATS[job.format].has_alpha:
        canvas = Image.new("RGB", size, WHITE)
        canvas.paste(flatten_on_white(image), position)
        return canvas
    canvas = Image.new("RGBA", size, (0, 0, 0, 0))
    canvas.paste(image.convert("RGBA"), position)
    return canvas


PIPELINE: tuple[Step, ...] = (
    orient,
    resize_and_crop,
    pad,
)
"""The steps between decoding and encoding, in order, for each frame.

Decoding precedes them: `open_image`, then `shrink_on_load` for a JPEG. Encoding follows: alpha is flattened
or dropped, chroma is subsampled, and the frame is compressed (`encode`). The geometry comes as
`RenderJob.plan`.
"""


def render(job: RenderJob, source_format: Format, data: bytes) -> tuple[RenderResult, list[bytes]]:
    """Render a variant of an image.

    Args:
        job: The variant; its plan is for the upright master.
        source_format: The format of the master. The format of a derivative is detected.
        data: The master, or one of its derivatives: the same image, smaller and upright.

    Returns:
        The size and the number of frames of the variant; and one blob, its bytes.

    Raises:
        DamagedSourceError: The decoder rejects the file.
        BadRequestError: The output exceeds the limit, and the stored file is not upright.
    """
    try:
        return _render(job, detect(data) or source_format, data)
    except ValidationError as error:
        raise DamagedSourceError(f"expected a stored file that can be decoded: {error.details}") from error


def render_upload(job: RenderJob, fmt: Format, data: bytes) -> tuple[RenderResult, list[bytes]]:
    """Render a file that is not stored: it is corrected as an upload is, and damage is an error of the file.

    Raises:
        ValidationError: The decoder rejects the file.
        BadRequestError: As for `render`.
    """
    return _render(job, fmt, correct(fmt, data))


def _render(job: RenderJob, fmt: Format, data: bytes) -> tuple[RenderResult, list[bytes]]:
    with suppress_warnings():
        image = open_image(fmt, data)
        stored = _stored_file(job, image, data) if job.keeps_file else None
        if stored is not None and not _is_within(job, stored):
            stored = None
        if stored is not None and not job.choices:
            return RenderResult(job.plan.output, image.frame_count), [stored]
        if job.animated and image.frame_count > job.frame_step and FORMATS[job.format].animated:
            result, encoded = _render_animation(job, image, CODECS[fmt].is_lossy(data))
        else:
            result = RenderResult(job.plan.output, 1)
            encoded = _render_still(job, image, CODECS[fmt].is_lossy(data))
        if stored is not None and is_worth_its_bytes(stored, encoded):
            return RenderResult(job.plan.output, image.frame_count), [stored]
        return result, [encoded]


def _stored_file(job: RenderJob, image: SourceImage, data: bytes) -> bytes | None:
    """Return the master without its metadata, or `None` if it must be encoded."""
    if image.orientation == UPRIGHT:
        with suppress(ValueError, IndexError):  # a file that decoders accept, as one that ends early
            # Earlier versions stored malformed metadata, too.
            return strip_metadata(image.format, CODECS[image.format].drop_malformed(data))
    if job.plan.output.pixels > MAX_OUTPUT_PIXELS:
        expected = f"at most {MAX_OUTPUT_PIXELS:,} pixels of an image that is not stored upright"
        raise BadRequestError.of("the output", expected, str(job.plan.output))
    return None


def _render_still(job: RenderJob, image: SourceImage, source_is_lossy: bool) -> bytes:
    """Return the variant."""
    target = job.plan.resize
    orientation = image.orientation
    image.shrink_on_load(Size(target.height, target.width) if orientation in TRANSPOSED else target)
    frame = _run_pipeline(image.first_frame(), RenderContext(job, orientation))
    # A photograph may have as few colours as line art, but a lossless encoding of it takes seconds.
    return _encode_still(job, frame, source_is_lossy, line_art=not source_is_lossy and is_line_art(frame))


def _encode_still(job: RenderJob, frame: Image.Image, source_is_lossy: bool, *, line_art: bool) -> bytes:
    """Return the file; of line art, the smaller one of a lossy and of a lossless encoding.

    A sample of line art tells which one that is, where it is clear. What takes the place of a lossless
    master, which has to be turned, is lossless too.
    """
    fmt = choose_lossy(job.choices, frame) if job.choices else job.format
    replaces_file = job.keeps_file and not job.choices and not source_is_lossy
    may_be_exact = (line_art or replaces_file) and FORMATS[fmt].has_quality
    lossless_format = choose_lossless(job.choices or (fmt,)) if may_be_exact else None
    if lossless_format is None:
        return _encode_lossy(job, fmt, frame, source_is_lossy, line_art=line_art)
    if replaces_file:
        return encode_lossless(lossless_format, frame)
    is_sampled = job.max_bytes is None and frame.width * frame.height >= MIN_SAMPLED_PIXELS
    ratio = lossless_ratio(lossless_format, fmt, [frame], job.quality) if is_sampled else nan
    if ratio <= 1:
        return encode_lossless(lossless_format, frame)
    data = _encode_lossy(job, fmt, frame, source_is_lossy, line_art=line_art)
    if ratio >= CLEAR_RATIO:
        return data
    lossless = encode_lossless(lossless_format, frame)
    is_sent = is_worth_its_bytes(lossless, data) if job.choices else len(lossless) < len(data)
    return lossless if is_sent else data


def _encode_lossy(
    job: RenderJob, fmt: Format, frame: Image.Image, source_is_lossy: bool, *, line_art: bool
) -> bytes:
    codec = CODECS[fmt]
    line_art_options = codec.line_art_options if line_art else {}
    options = {**codec.speed_options(job.avif_speed), **line_art_options}
    is_small = frame.width * frame.height <= MAX_SUBSAMPLED_PIXELS
    subsample = (not source_is_lossy or is_small) and not line_art_options
    data = encode(fmt, frame, job.quality, options=options, subsample=subsample)
    if FORMATS[fmt].has_quality:
        for quality in LOWER_QUALITIES:
            if _is_within(job, data):
                break
            data = encode(fmt, frame, quality, options=options, subsample=subsample)
    return data


def _render_animation(
    job: RenderJob, image: SourceImage, source_is_lossy: bool
) -> tuple[RenderResult, bytes]:
    context = RenderContext(job, image.orientation)
    animation = read_animation(image, lambda frame: _run_pipeline(frame, context), job.frame_step)
    data = encode_animation(job.format, animation, job.quality, source_is_lossy=source_is_lossy)
    while job.max_bytes and not _is_within(job, data) and len(animation.frames) > 1:
        animation = animation.thinned(-(-len(data) // job.max_bytes))
        data = encode_animation(job.format, animation, job.quality, source_is_lossy=source_is_lossy)
    # Encoders merge equal consecutive frames, so the frames of the result are counted.
    return RenderResult(job.plan.output, open_image(job.format, data).frame_count), data


def _is_within(job: RenderJob, data: bytes) -> bool:
    return job.max_bytes is None or len(data) <= job.max_bytes


def _run_pipeline(image: Image.Image, context: RenderContext) -> Image.Image:
    for step in PIPELINE:
        image = step(image, context)
    return image
