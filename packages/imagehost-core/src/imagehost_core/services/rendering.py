"""How a variant is made: of which bytes, and at what cost.

It is made of the smallest reduction that is large enough. Most are made at upload. Where there is none for
it, because it did not fit its share of the master or is lost, and decoding the whole picture is heavy work,
the first render makes one and keeps it with the variants: without loss, since it has no share to fit, and
bounded as they are. So a huge picture is decoded once, and not once a variant.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from io import BytesIO
from itertools import starmap
from typing import BinaryIO

from attrs import frozen

from imagehost_core.errors import NotFoundError
from imagehost_core.formats import Format
from imagehost_core.jobs import LADDER_SIDES, RenderJob, start_of
from imagehost_core.models import Image
from imagehost_core.pixels import codec_build
from imagehost_core.services.context import Rooms
from imagehost_core.storage.blob_store import MASTER, rung_name
from imagehost_core.transform import Fit, Transform
from imagehost_core.transform.geometry import Size, plan
from imagehost_core.workers import Weight, weigh


@frozen
class Source:
    """What a variant is made of.

    Attributes:
        name: The file's name among the image's.
        size: The size of the picture in it.
        reduction: What has to be made of that file first, or `None`: the file will do.
    """

    name: str
    size: Size
    reduction: RenderJob | None = None


def obtain(rooms: Rooms, image: Image, key: str, job: RenderJob) -> bytes:
    """Return a variant, from wherever it is soonest had.

    Args:
        rooms: Of the host.
        image: Of which image.
        key: The variant's file name, from `key_of`.
        job: What it is.

    Raises:
        NotFoundError: The image was deleted meanwhile.
        UnavailableError: The workers have too much to do, or the work took too long.
    """
    found = rooms.variants.find(image.id, key)
    if found is not None:
        return found
    source = source_of(image, job)
    if source.reduction is None:
        return _made(rooms, image, job, key, source)
    # Both are kept as variants, one after the other: whoever held one's lock while it made the other could
    # wait for somebody who does it the other way round.
    reduction = source.reduction
    small = _made(rooms, image, reduction, key_of(reduction), source)
    weight = weigh(job, reduction.plan.output)
    return rooms.variants.obtain(
        image.id, key, lambda: _render(rooms, job, reduction.format, BytesIO(small), weight), weight
    )


def source_of(image: Image, job: RenderJob) -> Source:
    """Return what a variant is best made of."""
    whole = Size(image.width, image.height)
    if job.animated:
        return Source(MASTER, whole)
    rung = start_of(starmap(Size, image.rungs), job.plan.resize)
    if rung is not None:
        return Source(rung_name(max(rung.width, rung.height)), rung)
    steps = plan(whole, Transform(max(LADDER_SIDES), max(LADDER_SIDES), fit=Fit.INSIDE))
    reduction = RenderJob(steps, Format.PNG, None)
    worth_it = weigh(job, whole) is Weight.HEAVY and weigh(job, steps.output) is Weight.LIGHT
    serves = start_of([steps.output], job.plan.resize) is not None
    return Source(MASTER, whole, reduction if worth_it and serves else None)


def _made(rooms: Rooms, image: Image, job: RenderJob, key: str, source: Source) -> bytes:
    weight = weigh(job, source.size, image.frames)

    def make() -> bytes:
        with _opened(rooms, image, source.name) as file:
            return _render(rooms, job, image.format, file, weight)

    return rooms.variants.obtain(image.id, key, make, weight)


def _opened(rooms: Rooms, image: Image, name: str) -> BinaryIO:
    """Return one of an image's files; the master for a reduction that is lost."""
    try:
        return rooms.files.open(image.id, name)
    except NotFoundError:
        return rooms.files.open(image.id, MASTER)


def _render(rooms: Rooms, job: RenderJob, fmt: Format, file: BinaryIO, weight: Weight) -> bytes:
    deadline = rooms.settings.workers.render_deadline
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    return rooms.workers.render(job, fmt, file, length, deadline=deadline, weight=weight)[1]


@cache
def _build() -> str:
    return codec_build()


def key_of(job: RenderJob) -> str:
    """Return the name of a variant: equal for requests that mean the same picture.

    It covers the plan and not the parameters (w=300 alone, and with the height that follows from it,
    are one), the quality that takes effect, and the codecs, so that another build makes it anew.
    """
    return sha256(repr((job, _build())).encode()).hexdigest()[:32]
