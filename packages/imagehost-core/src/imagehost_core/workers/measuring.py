"""Measurements of tasks: the wait for a worker process, and the run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from imagehost_core.errors import UnavailableError
from imagehost_core.observer import Observer, TaskEnded, WorkerAcquired
from imagehost_core.workers.admission import JobClass, WorkerRequest
from imagehost_core.workers.failures import WorkerFailure


@contextmanager
def observing_wait(observe: Observer, request: WorkerRequest, started: float | None = None) -> Iterator[None]:
    """Measure a block that waits for a worker process.

    Args:
        observe: Receives the measurement.
        request: The request for the worker process.
        started: When the wait began, on the clock of `time.monotonic()`; by default now.
    """
    since = time.monotonic() if started is None else started
    admitted = True
    try:
        yield
    except UnavailableError:
        admitted = False
        raise
    finally:
        observe(WorkerAcquired(request.job_class.value, time.monotonic() - since, admitted))


@contextmanager
def observing_task(observe: Observer, task: str, job_class: JobClass, fmt: str) -> Iterator[None]:
    """Measure a block that runs a task, whose failures are `WorkerFailure`.

    Args:
        observe: Receives the measurement.
        task: The name of the task.
        job_class: Its class.
        fmt: The format of the variant or of the upload.
    """
    started, outcome = time.monotonic(), "error"
    try:
        yield
        outcome = "ok"
    except WorkerFailure as failure:
        outcome = failure.outcome
        raise
    finally:
        observe(TaskEnded(task, job_class.value, fmt, time.monotonic() - started, outcome))
