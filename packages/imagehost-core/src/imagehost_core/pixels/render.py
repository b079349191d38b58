"""The variant recipe: one fixed row of steps from stored bytes to the bytes of a variant."""

from __future__ import annotations

from collections.abc import Callable

from PIL import Image, ImageFile

from imagehost_core.formats import FORMATS, SNIFF_BYTES, Format, sniff
from imagehost_core.jobs import RenderJob, RenderResult
from imagehost_core.pixels.animation import encode_animation, read_animation
from imagehost_core.pixels.colour import WHITE, flatten_on_white, normalize, to_srgb
from imagehost_core.pixels.decode import (
    TRANSPOSED,
    apply_orientation,
    decoder_errors,
    first_frame,
    frame_count,
    image_orientation,
    open_image,
    shrink_on_load,
    suppress_warnings,
)
from imagehost_core.pixels.encode import encode
from imagehost_core.pixels.resize import resize_and_crop
from imagehost_core.transform.geometry import Size

AVIF_MARK = b"ftypavif"
"""What an AVIF begins with after four bytes of length. No upload does; a rung may."""

Step = Callable[[RenderJob, Image.Image], Image.Image]


def _colour(_job: RenderJob, image: Image.Image) -> Image.Image:
    """Contract 7: *CMYK and other spaces are converted*."""
    return to_srgb(normalize(image))


def _resize(job: RenderJob, image: Image.Image) -> Image.Image:
    """Resize and crop at once: only what the crop keeps is computed."""
    return resize_and_crop(image, job.plan)


def _pad(job: RenderJob, image: Image.Image) -> Image.Image:
    """Contract 7: *contain pads with transparency, or white where the format has none*."""
    if not job.plan.padded:
        return image
    size = (job.plan.output.width, job.plan.output.height)
    place = (job.plan.pad.left, job.plan.pad.top)
    if not FORMATS[job.format].has_alpha:
        paper = Image.new("RGB", size, WHITE)
        paper.paste(flatten_on_white(image), place)
        return paper
    canvas = Image.new("RGBA", size, (0, 0, 0, 0))
    canvas.paste(image.convert("RGBA"), place)
    return canvas


PIPELINE: tuple[Step, ...] = (_colour, _resize, _pad)
"""What is done to each frame between decoding and encoding. Orientation comes before, with the
decoder; white under what is transparent comes after, with the encoder."""


def render(job: RenderJob, source_format: Format, data: bytes) -> tuple[RenderResult, list[bytes]]:
    """Return a variant of a picture.

    Args:
        job: What is wanted; its plan is for the upright master.
        source_format: What the master is. A rung is told by its own bytes.
        data: The master, or one of its rungs: the same whole picture, smaller and upright.

    Returns:
        The size and frames of the variant, and one blob: its bytes.

    Raises:
        ValidationError: The decoder refuses the bytes.
    """
    with suppress_warnings():
        image = open_image(_detect_format(data) or source_format, data)
        if job.animated and frame_count(image) > 1 and FORMATS[job.format].animated:
            return _animated(job, image)
        return _still(job, image)


def _detect_format(data: bytes) -> Format | None:
    """Return what the bytes say they are: a rung need not be of the master's format."""
    return Format.AVIF if data[4:12] == AVIF_MARK else sniff(data[:SNIFF_BYTES])


def _still(job: RenderJob, image: ImageFile.ImageFile) -> tuple[RenderResult, list[bytes]]:
    resize = job.plan.resize
    with decoder_errors(image):
        image.seek(first_frame(image))
        sideways = image_orientation(image) in TRANSPOSED
        shrink_on_load(image, Size(resize.height, resize.width) if sideways else resize)
        image.load()
    picture = _run_pipeline(job, apply_orientation(image, image_orientation(image)))
    return RenderResult(job.plan.output, 1), [encode(job.format, picture, job.quality, subsample=True)]


def _animated(job: RenderJob, image: ImageFile.ImageFile) -> tuple[RenderResult, list[bytes]]:
    orientation = image_orientation(image)
    animation = read_animation(image, lambda frame: _run_pipeline(job, apply_orientation(frame, orientation)))
    data = encode_animation(job.format, animation, job.quality)
    return RenderResult(job.plan.output, frame_count(open_image(job.format, data))), [data]


def _run_pipeline(job: RenderJob, image: Image.Image) -> Image.Image:
    for step in PIPELINE:
        image = step(job, image)
    return image
