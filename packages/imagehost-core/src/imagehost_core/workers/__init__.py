"""Pixel work in caged processes: a pool of them, what each may use, and how busy they are."""

from imagehost_core.sandbox.enter import CageLimits, CageStatus
from imagehost_core.workers.admission import Weight, weigh
from imagehost_core.workers.executor import WorkerPool
from imagehost_core.workers.pool import Load

__all__ = ["CageLimits", "CageStatus", "Load", "Weight", "WorkerPool", "weigh"]
