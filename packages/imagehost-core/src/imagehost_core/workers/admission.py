"""Admission control: which tasks get a worker process, which can wait in the queue, and which are rejected.

Every task belongs to a job class: an upload or a render, light or heavy by its estimated cost. For a pool of
`size` worker processes:

- There are `size` shared slots. Job classes share them by expected cost, and within a class accounts and
  clients do (`imagehost_core.workers.fair_queueing`). So no class can starve another, and no account either.
- While all shared slots are taken, each reserved class (light renders, light uploads) has one more slot if no
  task of that class is running. So a thumbnail never waits for a large AVIF or an upload, and a photograph
  never waits for renders or for uploads of far more pixels: they share the CPU instead.
- A quarter of the queue is reserved for light renders, and a quarter for uploads.
- If the queue is full, the request of a flow that has fewer in it replaces the last one of the flow that has
  most (longest queue drop: Suter, Lakshman, Stiliadis and Choudhury, "Design Considerations for Supporting
  TCP with Per-flow Queueing", INFOCOM 1998).
- Of the tasks with the same key one runs, and the others wait for its result.
- A task that would probably end after its deadline is rejected at once (`imagehost_core.workers.schedule`).

All functions are pure functions of plain values, so that a pool of one process and a pool that serves several
processes follow the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum
from itertools import chain, combinations

from attrs import frozen

RESERVED_SHARE = 4
"""One place of the queue in this many is reserved for light renders, and one for uploads."""
RESULT_WAITERS_PER_PLACE = 16
"""Requests per place of the queue that can wait for the results of others, which needs no worker process: so
a new image on a popular page is no overload."""


class JobClass(Enum):
    """A class of tasks: a render or an upload by its estimated cost."""

    LIGHT = "light"
    HEAVY = "heavy"
    UPLOAD = "upload"
    HEAVY_UPLOAD = "heavy_upload"


RESERVED_CLASSES = (JobClass.LIGHT, JobClass.UPLOAD)
"""The job classes that have a reserved slot."""
RESERVED_PLACES = (frozenset({JobClass.LIGHT}), frozenset({JobClass.UPLOAD, JobClass.HEAVY_UPLOAD}))
"""The sets of job classes that have reserved places in the queue."""


@frozen
class Slot:
    """The right to occupy one worker process.

    Attributes:
        job_class: The class of the task in the slot.
        reserved: Whether the slot is the reserved one of that class instead of a shared one.
    """

    job_class: JobClass
    reserved: bool = False


@frozen(eq=False)
class WorkerRequest:
    """A request for a worker process. Two requests are never equal.

    Attributes:
        until: When to stop waiting, on the clock of `time.monotonic()`, in seconds. All processes of a
            machine share this clock.
        job_class: The class of the task.
        key: The result of the task; tasks with the same key run once. `None` if it is not shared.
        seconds: The estimated duration of the task.
        kind: The kind of task, such as its output format, by which estimates are corrected.
        flow: The account or client that the task is for. The requests of a flow queue behind each other.
    """

    until: float
    job_class: JobClass = JobClass.HEAVY
    key: str | None = None
    seconds: float = 0.0
    kind: str = ""
    flow: str = ""


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
    others = [classes for classes in RESERVED_PLACES if job_class not in classes]
    # For each choice of the others with reserved places, the tasks of all remaining classes must fit into the
    # queue without those places.
    for excluded in chain.from_iterable(combinations(others, count) for count in range(len(others) + 1)):
        counted = [each for each in joined if joined[each] and each not in chain.from_iterable(excluded)]
        startable = max(0, size - _shared(taken)) or sum(
            find_slot(each, taken, size) is not None for each in counted
        )
        waiting = sum(joined[each] for each in counted) - startable
        if waiting > queue - len(excluded) * (queue // RESERVED_SHARE):
            return False
    return True
