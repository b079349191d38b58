"""Pixel work in caged processes: a pool of them, what each may use, and how busy they are."""

from imagehost_core.sandbox.enter import SandboxLimits, SandboxStatus
from imagehost_core.workers.admission import JobClass, classify
from imagehost_core.workers.executor import ImageExecutor
from imagehost_core.workers.pool import PoolLoad

__all__ = ["ImageExecutor", "JobClass", "PoolLoad", "SandboxLimits", "SandboxStatus", "classify"]
