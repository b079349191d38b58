"""The speed of the machine, measured in a worker process when a pool starts.

Estimates of tasks are made for a reference machine. Until tasks of a kind have been measured, this raises
them on a slower one, so that the first burst of costly renders is admitted and rejected as later ones are.
"""

from __future__ import annotations

import logging
import time
from io import BytesIO

from imagehost_core.errors import UnavailableError
from imagehost_core.workers import messages
from imagehost_core.workers.admission import JobClass, WorkerRequest
from imagehost_core.workers.frames import FrameError
from imagehost_core.workers.lending import WorkerPool
from imagehost_core.workers.messages import Json
from imagehost_core.workers.process import WorkerLost

log = logging.getLogger("imagehost.workers")

BENCHMARK = "benchmark"
"""The name of the task that measures. It returns the seconds that it took."""
REFERENCE_SECONDS = 0.1
"""The seconds that the benchmark takes on the machine that the estimates are made for."""
TIMEOUT_SECONDS = 30.0
"""Seconds after which the measurement is given up."""
MIN_FACTOR, MAX_FACTOR = 1.0, 10.0
"""The limits of a factor: a measurement beyond them is treated as one of them. None lowers the estimates:
those that are too low admit requests that are rejected late, with a `Retry-After` that is too short; those
that are too high only reject a few more until the first task of a kind has ended."""


def measure_machine(pool: WorkerPool) -> float | None:
    """Return how many times as long as on the reference machine tasks take; `None` if that is not known.

    Args:
        pool: The pool whose worker process runs the benchmark.
    """
    until = time.monotonic() + TIMEOUT_SECONDS
    try:
        with pool.acquire(WorkerRequest(until, JobClass.LIGHT)) as worker:
            timer = pool.watchdog.call_at(until, worker.kill)
            try:
                result, _ = worker.request(BENCHMARK, Json([]), BytesIO(), 0)
            finally:
                worker.retired |= not pool.watchdog.cancel(timer)
        if result.error is not None:
            return None
        seconds = messages.from_json(result.value, float)
    except (UnavailableError, WorkerLost, FrameError) as error:
        if not pool.closed:
            log.warning("speed of the machine not measured error=%r", error)
        return None
    return min(max(seconds / REFERENCE_SECONDS, MIN_FACTOR), MAX_FACTOR)
