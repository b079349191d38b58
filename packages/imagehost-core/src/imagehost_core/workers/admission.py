"""Which orders may have a worker, and which may wait for one, so that no kind of work starves another.

An order is light or heavy, by what it is expected to cost, or an upload. The rule, for a pool of `size`
workers:

- There are `size` shared desks to work at, and whoever came first gets the next that is free. So nothing,
  however much there is of it, holds up other work for ever.
- While those are taken there is one desk more for a light order, unless one is at work already, and one for
  an upload likewise. So a thumbnail waits for no huge AVIF and for no upload, and an upload for no variant:
  they share the processor instead.
- A quarter of the queue is kept for light orders, and a quarter for uploads.

Everything here is a pure function of counts.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from itertools import chain, combinations

from attrs import evolve, frozen

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.transform.geometry import Size

LIGHT_SECONDS = 0.5
"""An order that is expected to take less is light. A thumbnail from a rung takes a tenth of it."""
DECODE_SECONDS = 0.05
"""What decoding a million pixels and reducing them in linear light costs, in seconds of one core."""
ENCODE_SECONDS = {
    Format.JPEG: 0.017,
    Format.WEBP: 0.04,
    Format.AVIF: 0.08,
    Format.PNG: 0.09,
    Format.GIF: 0.05,
}
"""What encoding a million pixels costs, in seconds of one core (`bench/render.py`). Only
the order of magnitude matters here."""
RESERVED_SHARE = 4
"""Of each kind of order that has some, one place of the queue in so many is kept for it."""


class JobClass(Enum):
    """What an order is expected to cost, well below a second or more; or that it is an upload."""

    LIGHT = "light"
    HEAVY = "heavy"
    UPLOAD = "upload"


RESERVED_CLASSES = (JobClass.LIGHT, JobClass.UPLOAD)
"""The kinds of orders that have a desk of their own, and places of the queue."""


@frozen
class Slot:
    """Where an order is worked on.

    Attributes:
        weight: The order's kind.
        own: Whether the desk is that kind's own, and none of the shared ones.
    """

    job_class: JobClass
    reserved: bool = False


@frozen
class QueueCounts:
    """How many orders there are of each kind.

    Attributes:
        light: Light ones.
        heavy: Heavy ones.
        upload: Uploads.
    """

    light: int = 0
    heavy: int = 0
    upload: int = 0

    @property
    def all(self) -> int:
        """All together."""
        return self.light + self.heavy + self.upload

    def of(self, weight: JobClass) -> int:
        """Return how many there are of a kind."""
        return {JobClass.LIGHT: self.light, JobClass.HEAVY: self.heavy, JobClass.UPLOAD: self.upload}[weight]


def classify(job: RenderJob, source: Size, frames: int = 1) -> JobClass:
    """Return what a render is expected to cost.

    Args:
        job: What is to be made.
        source: The size of the picture that is decoded for it.
        frames: How many frames that has.
    """
    return JobClass.LIGHT if estimate_seconds(job, source, frames) < LIGHT_SECONDS else JobClass.HEAVY


def estimate_seconds(job: RenderJob, source: Size, frames: int = 1) -> float:
    """Return how long a render is expected to take on one core, in seconds; arguments as for `weigh`."""
    decoded, encoded = source.pixels * DECODE_SECONDS, job.plan.output.pixels * ENCODE_SECONDS[job.format]
    return (decoded + encoded) * (frames if job.animated else 1) / 1e6


def find_slot(weight: JobClass, taken: Collection[Slot], size: int) -> Slot | None:
    """Return where one more order can be worked on, or `None` where it must wait.

    Args:
        weight: Its kind.
        taken: The desks at which there is work.
        size: How many shared desks there are.
    """
    if _shared(taken) < size:
        return Slot(weight)
    at_work = any(desk.job_class is weight for desk in taken)
    return Slot(weight, reserved=True) if weight in RESERVED_CLASSES and not at_work else None


def free_slots(weight: JobClass, taken: Collection[Slot], size: int) -> int:
    """Return how many orders of a kind could begin at once; arguments as for `desk_for`."""
    return max(0, size - _shared(taken)) or int(find_slot(weight, taken, size) is not None)


def _shared(taken: Collection[Slot]) -> int:
    return sum(not desk.reserved for desk in taken)


def can_enqueue(weight: JobClass, line: QueueCounts, taken: Collection[Slot], size: int, queue: int) -> bool:
    """Return whether one more order may join the line.

    Whoever can have a worker at once passes through the line, and takes no place of the queue.

    Args:
        weight: The order's kind.
        line: What stands in line.
        taken: The desks at which there is work.
        size: How many shared desks there are.
        queue: How many orders may wait.
    """
    joined = evolve(line, **{weight.value: line.of(weight) + 1})
    others = [kind for kind in RESERVED_CLASSES if kind is not weight]
    # Whichever of these are left out of the count, the places that are kept for them stay free.
    for left_out in chain.from_iterable(combinations(others, count) for count in range(len(others) + 1)):
        counted = [kind for kind in JobClass if kind not in left_out and joined.of(kind)]
        able = max(0, size - _shared(taken)) or sum(bool(find_slot(kind, taken, size)) for kind in counted)
        if sum(map(joined.of, counted)) - able > queue - len(left_out) * (queue // RESERVED_SHARE):
            return False
    return True
