"""What a worker can be asked to do: an entry of a table of tasks, and how such a table is found.

A table is a module with two names: `TASKS`, a mapping from names to `Task`s, and `warm_up`, a
function which makes every later import, allocation and lazy start happen before the cage closes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

from attrs import frozen

from imagehost_core.workers import messages as wire
from imagehost_core.workers.frames import FrameError


@frozen
class Task:
    """One thing that a worker can do.

    Attributes:
        arguments: The kinds of the arguments before the blob, as attrs classes, enums or plain types.
        run: What is called with them and the blob; it returns the outcome, and blobs beside it.
    """

    arguments: tuple[type, ...]
    run: Callable[..., tuple[object, list[bytes]]]

    def __call__(self, arguments: wire.Json, blob: bytes) -> tuple[wire.Json, list[bytes]]:
        """Run on arguments as they crossed the pipe; return the outcome as it is to cross back.

        Raises:
            FrameError: The arguments are not of the kinds that the task takes.
        """
        if not isinstance(arguments, list) or len(arguments) != len(self.arguments):
            raise FrameError(f"expected {len(self.arguments)} arguments but received {arguments!r:.60}")
        values: list[object] = [
            wire.from_json(value, kind) for value, kind in zip(arguments, self.arguments, strict=True)
        ]
        outcome, blobs = self.run(*values, blob)
        return wire.to_json(outcome), blobs


def load_tasks(module: str) -> Mapping[str, Task]:
    """Import a table of tasks, warm it up and return it.

    Args:
        module: The dotted name of the module.
    """
    table = importlib.import_module(module)
    table.warm_up()
    tasks: Mapping[str, Task] = table.TASKS
    return tasks
