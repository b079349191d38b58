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
from imagehost_core.jobs import DERIVATIVE_SIDES, RenderJob, pick_derivative
from imagehost_core.models import Image
from imagehost_core.pixels import codec_fingerprint
from imagehost_core.services.context import HostContext
from imagehost_core.storage.blob_store import MASTER, derivative_name
from imagehost_core.transform import Fit, Transform
from imagehost_core.transform.geometry import Size, plan
from imagehost_core.workers import JobClass, classify


@frozen
class RenderSource:
    """What a variant is made of.

    Attributes:
        name: The file's name among the image's.
        size: The size of the picture in it.
        reduction: What has to be made of that file first, or `None`: the file will do.
    """

    name: str
    size: Size
    reduction: RenderJob | None = None


def get_or_render(context: HostContext, image: Image, key: str, job: RenderJob) -> bytes:
    """Return a variant, from wherever it is soonest had.

    Args:
        context: Of the host.
        image: Of which image.
        key: The variant's file name, from `key_of`.
        job: What it is.

    Raises:
        NotFoundError: The image was deleted meanwhile.
        UnavailableError: The workers have too much to do, or the work took too long.
    """
    found = context.variants.get(image.id, key)
    if found is not None:
        return found
    source = choose_source(image, job)
    if source.reduction is None:
        return _render_cached(context, image, job, key, source)
    # Both are kept as variants, one after the other: whoever held one's lock while it made the other could
    # wait for somebody who does it the other way round.
    reduction = source.reduction
    small = _render_cached(context, image, reduction, cache_key(reduction), source)
    weight = classify(job, reduction.plan.output)
    return context.variants.get_or_create(
        image.id, key, lambda: _render(context, job, reduction.format, BytesIO(small), weight), weight
    )


def choose_source(image: Image, job: RenderJob) -> RenderSource:
    """Return what a variant is best made of."""
    whole = Size(image.width, image.height)
    if job.animated:
        return RenderSource(MASTER, whole)
    rung = pick_derivative(starmap(Size, image.derivatives), job.plan.resize)
    if rung is not None:
        return RenderSource(derivative_name(max(rung.width, rung.height)), rung)
    steps = plan(whole, Transform(max(DERIVATIVE_SIDES), max(DERIVATIVE_SIDES), fit=Fit.INSIDE))
    reduction = RenderJob(steps, Format.PNG, None)
    worth_it = classify(job, whole) is JobClass.HEAVY and classify(job, steps.output) is JobClass.LIGHT
    serves = pick_derivative([steps.output], job.plan.resize) is not None
    return RenderSource(MASTER, whole, reduction if worth_it and serves else None)


def _render_cached(
    context: HostContext, image: Image, job: RenderJob, key: str, source: RenderSource
) -> bytes:
    weight = classify(job, source.size, image.frames)

    def make() -> bytes:
        with _open_source(context, image, source.name) as file:
            return _render(context, job, image.format, file, weight)

    return context.variants.get_or_create(image.id, key, make, weight)


def _open_source(context: HostContext, image: Image, name: str) -> BinaryIO:
    """Return one of an image's files; the master for a reduction that is lost."""
    try:
        return context.blobs.open(image.id, name)
    except NotFoundError:
        return context.blobs.open(image.id, MASTER)


def _render(context: HostContext, job: RenderJob, fmt: Format, file: BinaryIO, weight: JobClass) -> bytes:
    deadline = context.settings.rendering.render_timeout_seconds
    length = file.seek(0, os.SEEK_END)
    file.seek(0)
    return context.executor.render(job, fmt, file, length, deadline=deadline, job_class=weight)[1]


@cache
def _build() -> str:
    return codec_fingerprint()


def cache_key(job: RenderJob) -> str:
    """Return the name of a variant: equal for requests that mean the same picture.

    It covers the plan and not the parameters (w=300 alone, and with the height that follows from it,
    are one), the quality that takes effect, and the codecs, so that another build makes it anew.
    """
    return sha256(repr((job, _build())).encode()).hexdigest()[:32]
