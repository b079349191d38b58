"""What a task costs by the headers of its image: the lane that it waits in, and the memory that it needs.

Only the order of magnitude of the time matters. The memory must not be exceeded: it is checked against the
measured peaks of worker processes (`tests/core/workers/test_memory_peaks.py`).
"""

from __future__ import annotations

import time

from attrs import frozen

from imagehost_core.formats import FORMATS, Format
from imagehost_core.jobs import RenderJob
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_core.transform import MAX_OUTPUT_PIXELS, Size
from imagehost_core.workers.lanes import Lane, WorkerRequest

MIB = 2**20

LIGHT_SECONDS = 0.25
"""The most CPU time of a light task: an upload of 4 megapixels, or a variant of a derivative."""
LIGHT_MEMORY_BYTES = 128 * MIB
"""The most memory of a light task."""
INGEST_SECONDS = 0.06
"""CPU seconds to ingest a million pixels of an upload: a photograph of 12 megapixels takes 0.7."""
DECODE_SECONDS = 0.05
"""CPU seconds to decode a million pixels and to resize them in linear light."""
AVIF_SPEED_FACTORS = {10: 1, 9: 1, 8: 3.6, 7: 7, 6: 13, 5: 80, 4: 110, 3: 250, 2: 420, 1: 500, 0: 1_100}
"""CPU seconds of an AVIF by the encoder's speed, relative to the default one (libaom, 480×360 pixels)."""
MAX_AVIF_SECONDS = 5.0
"""The estimated CPU seconds, at the default quality, of the largest AVIF that is encoded at the speed of the
settings; larger ones are encoded faster, within the CPU time of a task. Random pixels at quality 100 take six
times as long."""


BASELINE_BYTES = 14
"""The most bytes of memory for each pixel of an upload that is a JPEG of one scan, whose coefficients are not
kept, unless it is converted to GIF."""
ANIMATION_BYTES = 52
"""The same of an animation, whatever its frames cover: for each pixel of the canvas."""
FRAME_BYTES = 8
"""What an animation needs besides: for each pixel of all frames, which are in memory until it is encoded."""
FILE_COPIES = 3
"""How many times the bytes of a file are in memory."""
FIXED_BYTES = 24 * MIB
"""What a task needs beside its pixels: also the parts of a file, of which it can have 200,000."""


@frozen
class Cost:
    """The cost of a task.

    Attributes:
        lane: The lane that it waits in.
        memory_bytes: The most memory that it needs, beside that of an idle worker process.
    """

    lane: Lane
    memory_bytes: int

    def request(self, timeout_seconds: float, *, key: str | None = None, flow: str = "") -> WorkerRequest:
        """Return the request for a worker process for the task, made now.

        Args:
            timeout_seconds: Seconds, waiting included, after which the worker process is killed.
            key: See `WorkerRequest`.
            flow: See `WorkerRequest`.
        """
        until = time.monotonic() + timeout_seconds
        return WorkerRequest(until, self.lane, key, flow, self.memory_bytes, timeout_seconds)

    @classmethod
    def of(cls, seconds: float, memory_bytes: int) -> Cost:
        """Return the cost of a task that takes a CPU time, in seconds, and memory."""
        is_light = seconds < LIGHT_SECONDS and memory_bytes <= LIGHT_MEMORY_BYTES
        return cls(Lane.LIGHT if is_light else Lane.HEAVY, memory_bytes)


def ingest_cost(
    fmt: Format,
    size: Size,
    *,
    frames: int = 1,
    has_alpha: bool = True,
    length: int = 0,
    scans: int = 0,
    requested: Format | None = None,
) -> Cost:
    """Return the cost of an upload.

    Args:
        fmt: The format of the file.
        size: The size of the canvas that contains all frames.
        frames: The number of frames.
        has_alpha: Whether pixels can be transparent.
        length: The size of the file in bytes.
        scans: The number of scans of a JPEG; 0 if it is not known.
        requested: The requested format.
    """
    seconds = size.pixels * frames * INGEST_SECONDS / 1e6
    memory = FORMATS[fmt].memory
    still_bytes = memory.alpha_upload if has_alpha else memory.opaque_upload
    if fmt is Format.JPEG and scans == 1 and requested is not Format.GIF:
        still_bytes = BASELINE_BYTES
    pixel_bytes = still_bytes if frames == 1 else ANIMATION_BYTES + FRAME_BYTES * frames
    return Cost.of(seconds, size.pixels * pixel_bytes + FILE_COPIES * length + FIXED_BYTES)


def render_cost(job: RenderJob, fmt: Format, source: Size, frames: int = 1) -> Cost:
    """Return the cost of a render.

    Args:
        job: The render.
        fmt: The format of the image to decode.
        source: The size of the image to decode.
        frames: The number of frames of that image.
    """
    if job.keeps_file and job.plan.output.pixels > MAX_OUTPUT_PIXELS:
        return Cost(Lane.HEAVY, FILE_COPIES * MAX_FILE_BYTES + FIXED_BYTES)
    factor = 1.0 if job.avif_speed is None else AVIF_SPEED_FACTORS[job.avif_speed]
    output, frames = job.plan.output.pixels, frames if job.animated else 1
    rendered = -(-frames // job.frame_step)
    encoders = [FORMATS[choice] for choice in job.choices or (job.format,)]
    encode = output * max(info.encode_seconds for info in encoders) * factor
    decode = source.pixels * DECODE_SECONDS
    encoded = max(info.memory.encoded for info in encoders)
    memory = source.pixels * FORMATS[fmt].memory.decoded + output * encoded
    if frames > 1:
        memory += output * FRAME_BYTES * rendered
    return Cost.of((decode * frames + encode * rendered) / 1e6, memory + FIXED_BYTES)


def avif_speed(pixels: int, preferred: int) -> int:
    """Return the speed of the AVIF encoder for a variant: the preferred one, or faster for a large variant.

    Args:
        pixels: The pixels of the variant.
        preferred: The speed for ordinary variants, 0–10.
    """
    base = pixels * FORMATS[Format.AVIF].encode_seconds / 1e6
    fast_enough = (
        speed for speed in range(preferred, 10) if base * AVIF_SPEED_FACTORS[speed] <= MAX_AVIF_SECONDS
    )
    return next(fast_enough, 10)
