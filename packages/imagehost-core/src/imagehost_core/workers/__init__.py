"""A pool of sandboxed worker processes for image work: tasks, deadlines, a queue of two lanes, memory."""

from imagehost_core.workers.costs import Cost, avif_speed, ingest_cost, render_cost
from imagehost_core.workers.executor import ImageExecutor
from imagehost_core.workers.lanes import Lane, WorkerRequest
from imagehost_core.workers.memory import MemorySettings

__all__ = [
    "Cost",
    "ImageExecutor",
    "Lane",
    "MemorySettings",
    "WorkerRequest",
    "avif_speed",
    "ingest_cost",
    "render_cost",
]
