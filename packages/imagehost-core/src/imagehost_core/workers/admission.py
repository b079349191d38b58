"""Admission control: which tasks get a worker process, which can wait in the queue, and which are rejected.

Every task belongs to a job class: an upload, or a render that is light or heavy by its estimated cost. For
a pool of `size` worker processes:

- There are `size` shared slots, given out in order of arrival. So no job class can starve another.
- While all shared slots are taken, each reserved class (light, upload) has one more slot if no task of that
  class is running. So a thumbnail never waits for a large AVIF or an upload, and an upload never waits for
  renders: they share the CPU instead.
- A quarter of the queue is reserved for light tasks, and a quarter for uploads.

All functions are pure functions of counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum
from itertools import chain, combinations

from attrs import frozen

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.transform import Size

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
RESERVED_SHARE = 4
"""One place of the queue in this many is reserved for each reserved class."""


class JobClass(Enum):
    """A class of tasks: a render by its estimated cost, or an upload."""

    LIGHT = "light"
    HEAVY = "heavy"
    UPLOAD = "upload"


RESERVED_CLASSES = (JobClass.LIGHT, JobClass.UPLOAD)
"""The job classes that have a reserved slot and reserved places in the queue."""


@frozen
class Slot:
    """The right to occupy one worker process.

    Attributes:
        job_class: The class of the task in the slot.
        reserved: Whether the slot is the reserved one of that class instead of a shared one.
    """

    job_class: JobClass
    reserved: bool = False


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


def find_slot(job_class: JobClass, taken: Collection[Slot], size: int) -> Slot | None:
    """Return a free slot for one more task, or `None` if the task must wait.

    Args:
        job_class: The class of the task.
        taken: The slots in use.
        size: The number of shared slots.
    """
    if _shared(taken) < size:
        return Slot(job_class)
    running = any(slot.job_class is job_class for slot in taken)
    return Slot(job_class, reserved=True) if job_class in RESERVED_CLASSES and not running else None


def free_slots(job_class: JobClass, taken: Collection[Slot], size: int) -> int:
    """Return how many tasks of a class could start at once; arguments as for `find_slot`."""
    return max(0, size - _shared(taken)) or int(find_slot(job_class, taken, size) is not None)


def _shared(taken: Collection[Slot]) -> int:
    return sum(not slot.reserved for slot in taken)


def can_enqueue(
    job_class: JobClass, queued: Mapping[JobClass, int], taken: Collection[Slot], size: int, queue: int
) -> bool:
    """Return whether one more task can join the queue.

    A task that can start at once passes through the queue without counting against its length.

    Args:
        job_class: The class of the task.
        queued: Number of tasks in the queue by class.
        taken: The slots in use.
        size: The number of shared slots.
        queue: The most tasks that can wait.
    """
    joined = Counter(queued)
    joined[job_class] += 1
    others = [other for other in RESERVED_CLASSES if other is not job_class]
    # For each set of other reserved classes, the tasks of all remaining classes must fit into the queue
    # without the places that are reserved for that set.
    for excluded in chain.from_iterable(combinations(others, count) for count in range(len(others) + 1)):
        counted = [each for each in joined if each not in excluded and joined[each]]
        startable = max(0, size - _shared(taken)) or sum(
            find_slot(each, taken, size) is not None for each in counted
        )
        waiting = sum(joined[each] for each in counted) - startable
        if waiting > queue - len(excluded) * (queue // RESERVED_SHARE):
            return False
    return True
