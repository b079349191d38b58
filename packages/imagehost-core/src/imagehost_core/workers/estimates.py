"""Cost estimates of tasks, the job class that follows from them, and their correction by measurements."""

from __future__ import annotations

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.transform import Size
from imagehost_core.workers.admission import JobClass, WorkerRequest

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
AVIF_QUALITY_FACTORS = {20: 0.65, 40: 0.8, 60: 1.0, 80: 1.25, 90: 1.5, 100: 2.3}
"""CPU seconds of an AVIF up to each quality, relative to the default one (three images of 3 megapixels)."""
AVIF_SPEED_FACTORS = {10: 1, 9: 1, 8: 3.6, 7: 7, 6: 13, 5: 80, 4: 110, 3: 250, 2: 420, 1: 500, 0: 1_100}
"""CPU seconds of an AVIF by the encoder's speed, relative to the default one (libaom, 480×360 pixels)."""
MAX_AVIF_SECONDS = 5.0
"""The estimated CPU seconds, at the default quality, of the largest AVIF that is encoded at the speed of the
settings; larger ones are encoded faster, within the CPU time of a task. Random pixels at quality 100 take six
times as long."""
INGEST_SECONDS = 0.06
"""CPU seconds to ingest a million pixels of an upload: a photograph of 12 megapixels takes 0.7."""
LIGHT_UPLOAD_SECONDS = 1.5
"""Uploads with a lower estimate are light: photographs below 25 megapixels, which took 1.0 to 2.3 s by
format where one of 12 megapixels took 0.8. The costliest upload within the limits has an estimate of 9 s."""
SMOOTHING = 0.8
"""The weight of earlier measurements against the latest."""
INITIAL_SECONDS = 0.5
"""The weight of an uncorrected estimate, as of a task of this duration that took as long as estimated."""


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
    factor = 1.0 if job.avif_speed is None else AVIF_SPEED_FACTORS[job.avif_speed]
    if job.format is Format.AVIF and job.quality is not None:
        factor *= next(value for limit, value in AVIF_QUALITY_FACTORS.items() if job.quality <= limit)
    encode = job.plan.output.pixels * ENCODE_SECONDS[job.format] * factor
    decode = source.pixels * DECODE_SECONDS
    return (decode + encode) * (frames if job.animated else 1) / 1e6


def avif_speed(pixels: int, preferred: int) -> int:
    """Return the speed of the AVIF encoder for a variant: the preferred one, or faster for a large variant.

    Args:
        pixels: The pixels of the variant.
        preferred: The speed for ordinary variants, 0–10.
    """
    base = pixels * ENCODE_SECONDS[Format.AVIF] / 1e6
    fast_enough = (
        speed for speed in range(preferred, 10) if base * AVIF_SPEED_FACTORS[speed] <= MAX_AVIF_SECONDS
    )
    return next(fast_enough, 10)


def estimate_ingest_seconds(size: Size, frames: int) -> float:
    """Return the estimated CPU seconds of an upload.

    Args:
        size: Size of a frame.
        frames: Number of frames.
    """
    return size.pixels * frames * INGEST_SECONDS / 1e6


def classify_upload(seconds: float) -> JobClass:
    """Return the class of an upload, light or heavy.

    Measurements do not correct it: costly files of one account must not make those of others heavy.

    Args:
        seconds: Its estimated CPU seconds.
    """
    return JobClass.UPLOAD if seconds < LIGHT_UPLOAD_SECONDS else JobClass.HEAVY_UPLOAD


def render_request(
    job: RenderJob, source: Size, frames: int, *, until: float, key: str | None = None, flow: str = ""
) -> WorkerRequest:
    """Return the request for the worker process of a render.

    Args:
        job: The render.
        source: Size of the image to decode.
        frames: Number of frames of that image.
        until: When to stop waiting, on the clock of `time.monotonic()`, in seconds.
        key: Identifies the variant.
        flow: The account or client that the variant is for.
    """
    seconds = estimate_seconds(job, source, frames)
    return WorkerRequest(until, classify(job, source, frames), key, seconds, job.format.value, flow)


class Calibration:
    """Corrections of estimates by the measured durations of earlier tasks, for each class and kind of task.

    The durations depend on the machine, and on what else runs on it.

    Attributes:
        factor: How many times as long as estimated tasks take whose class and kind have not been measured.
    """

    def __init__(self) -> None:
        self.factor = 1.0
        self._measured: dict[tuple[JobClass, str], float] = {}
        self._estimated: dict[tuple[JobClass, str], float] = {}

    def seconds(self, request: WorkerRequest) -> float:
        """Return the corrected estimate of a task, in seconds."""
        kind = request.job_class, request.kind
        measured = self._measured.get(kind, self.factor * INITIAL_SECONDS)
        return request.seconds * measured / self._estimated.get(kind, INITIAL_SECONDS)

    def record(self, request: WorkerRequest, seconds: float) -> None:
        """Add the measured duration of a task; recent ones count most."""
        kind = request.job_class, request.kind
        earlier = self._measured.get(kind, self.factor * INITIAL_SECONDS)
        self._measured[kind] = SMOOTHING * earlier + seconds
        self._estimated[kind] = SMOOTHING * self._estimated.get(kind, INITIAL_SECONDS) + request.seconds
