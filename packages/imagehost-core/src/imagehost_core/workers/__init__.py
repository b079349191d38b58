"""A pool of sandboxed worker processes for image work: tasks, deadlines, admission and queueing."""

from imagehost_core.workers.admission import JobClass, WorkerRequest
from imagehost_core.workers.estimates import classify, render_request
from imagehost_core.workers.executor import ImageExecutor
from imagehost_core.workers.lending import PoolLoad
from imagehost_core.workers.steps import Finished, QueueSteps, advance, run_steps

__all__ = [
    "Finished",
    "ImageExecutor",
    "JobClass",
    "PoolLoad",
    "QueueSteps",
    "WorkerRequest",
    "advance",
    "classify",
    "render_request",
    "run_steps",
]
