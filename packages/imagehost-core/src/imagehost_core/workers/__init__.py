"""A pool of sandboxed worker processes for image work: tasks, deadlines, admission and queueing."""

from imagehost_core.workers.admission import JobClass, WorkerRequest
from imagehost_core.workers.estimates import avif_speed, classify, estimate_ingest_seconds, render_request
from imagehost_core.workers.executor import ImageExecutor
from imagehost_core.workers.lending import PoolLoad

__all__ = [
    "ImageExecutor",
    "JobClass",
    "PoolLoad",
    "WorkerRequest",
    "avif_speed",
    "classify",
    "estimate_ingest_seconds",
    "render_request",
]
