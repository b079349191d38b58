"""A task table without tasks."""

from __future__ import annotations

from imagehost_core.workers.tasks import Task

TASKS: dict[str, Task] = {}


def warm_up() -> None:
    """Do nothing."""
