"""The table of the tasks that the pool asks for: the two recipes of `imagehost_core.pixels`."""

from __future__ import annotations

import base64

from imagehost_core.formats import FORMATS, Format
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform.geometry import ORIGIN, Plan, Size
from imagehost_core.workers.task import Task

TASKS = {
    "ingest": Task((IngestJob,), ingest),
    "render": Task((RenderJob, Format), render),
}

_SMALLEST = base64.b64decode(
    "R0lGODlhAgACAIEAAP8AAAAA/wAAAAAAACH/C05FVFNDQVBFMi4wAwEAAAAh+QQABQAAACwAAAAAAgACAAAIBgADABgYEAAh"
    "+QQBBQACACwBAAEAAQABAIH/AAAAAP8AAAAAAAAIBAADBAQAOw=="
)
"""A GIF of four pixels, red and blue, in two frames."""


def warm_up() -> None:
    """Bring every decoder and encoder to life once, while files can still be opened."""
    size = Size(3, 1)
    plan = Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size)
    for fmt, traits in FORMATS.items():
        job = RenderJob(plan, fmt, 80 if traits.has_quality else None, animated=True)
        render(job, Format.GIF, _SMALLEST)
        if traits.uploadable:
            _, (master, *_) = ingest(IngestJob(Format.GIF, wanted=fmt), _SMALLEST)
            render(RenderJob(plan, Format.PNG, None), fmt, master or _SMALLEST)
    # Rungs are JPEG or AVIF; the latter is told by its own bytes.
    rung = render(RenderJob(plan, Format.AVIF, 80), Format.GIF, _SMALLEST)[1][0]
    render(RenderJob(plan, Format.PNG, None), Format.AVIF, rung)
