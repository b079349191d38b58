"""Cost estimates of renders, and the job class that follows from them."""

from __future__ import annotations

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.transform import Size
from imagehost_core.workers.admission import JobClass

LIGHT_SECONDS = 0.5
"""Renders with a lower estimate are light. A thumbnail of a derivative takes a tenth of this."""
DECODE_SECONDS = 0.05
"""CPU seconds to decode a million pixels and to resize them in linear light."""
ENCODE_SECONDS = {
    Format.JPEG: 0.017,
    Format.WEBP: 0.04,
    Format.AVIF: 0.08,
    Format.PNG: 0.09,
    Format.GIF: 0.05,
}
"""CPU seconds to encode a million pixels. Only the order of magnitude matters here."""


def classify(job: RenderJob, source: Size, frames: int = 1) -> JobClass:
    """Return the class of a render, light or heavy.

    Args:
        job: The render.
        source: Size of the image to decode.
        frames: Number of frames of that image.
    """
    return JobClass.LIGHT if estimate_seconds(job, source, frames) < LIGHT_SECONDS else JobClass.HEAVY


def estimate_seconds(job: RenderJob, source: Size, frames: int = 1) -> float:
    """Return the estimated CPU seconds of a render; arguments as for `classify`."""
    decode, encode = source.pixels * DECODE_SECONDS, job.plan.output.pixels * ENCODE_SECONDS[job.format]
    return (decode + encode) * (frames if job.animated else 1) / 1e6
