"""The tasks of a worker process: the type of a task, the default task table, and loading a table by name.

A task table is a module with two names: `TASKS`, a mapping from names to `Task`s, and `warm_up`, a function
that triggers every later import, allocation and lazy initialisation before the process enters the sandbox.
"""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable, Mapping

from attrs import frozen

from imagehost_core.formats import FORMATS, Format
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render, render_upload
from imagehost_core.transform import ORIGIN, Plan, Size
from imagehost_core.workers import messages
from imagehost_core.workers.frames import FrameError
from imagehost_core.workers.messages import Json


@frozen
class Task:
    """A function that a worker process can run.

    Attributes:
        argument_types: Types of the arguments before the blob: attrs classes, enums or plain types.
        run: The function. It gets the arguments and the blob, and returns a result and blobs.
    """

    argument_types: tuple[type, ...]
    run: Callable[..., tuple[object, list[bytes]]]

    def __call__(self, arguments: Json, blob: bytes) -> tuple[Json, list[bytes]]:
        """Run the task with arguments in their wire format; return the result in its wire format.

        Raises:
            FrameError: The arguments do not have the types that the task takes.
        """
        if not isinstance(arguments, list) or len(arguments) != len(self.argument_types):
            raise FrameError(f"expected {len(self.argument_types)} arguments but received {arguments!r:.60}")
        values: list[object] = [
            messages.from_json(value, kind)
            for value, kind in zip(arguments, self.argument_types, strict=True)
        ]
        result, blobs = self.run(*values, blob)
        return messages.to_json(result), blobs


_TINY_GIF = base64.b64decode(
    "R0lGODlhAgACAIEAAP8AAAAA/wAAAAAAACH/C05FVFNDQVBFMi4wAwEAAAAh+QQABQAAACwAAAAAAgACAAAIBgADABgYEAAh"
    "+QQBBQACACwBAAEAAQABAIH/AAAAAP8AAAAAAAAIBAADBAQAOw=="
)
"""A GIF of four pixels, red and blue, in two frames."""

TASKS = {
    "ingest": Task((IngestJob,), ingest),
    "render": Task((RenderJob, Format), render),
    "render_upload": Task((RenderJob, Format), render_upload),
}


def warm_up() -> None:
    """Run every decoder and encoder once, while files can still be opened."""
    size = Size(3, 1)
    plan = Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size)
    for fmt, info in FORMATS.items():
        job = RenderJob(plan, fmt, 80 if info.has_quality else None, animated=True)
        render(job, Format.GIF, _TINY_GIF)
        if info.stored:
            _, (master, *_) = ingest(IngestJob(Format.GIF, requested_format=fmt), _TINY_GIF)
            render(RenderJob(plan, Format.PNG, None), fmt, master or _TINY_GIF)
    # Derivatives are JPEG or AVIF; the renderer detects AVIF by content.
    _, (avif,) = render(RenderJob(plan, Format.AVIF, 80), Format.GIF, _TINY_GIF)
    render(RenderJob(plan, Format.PNG, None), Format.AVIF, avif)


def load_tasks(module: str) -> Mapping[str, Task]:
    """Import a task table, warm it up and return its tasks.

    Args:
        module: Dotted name of the module.
    """
    table = importlib.import_module(module)
    table.warm_up()
    tasks: Mapping[str, Task] = table.TASKS
    return tasks
