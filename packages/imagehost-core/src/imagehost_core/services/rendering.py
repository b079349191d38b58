"""Rendering: choose the stored file that a variant is rendered from, and render it in a worker process.

A variant is rendered from the smallest derivative that is large enough. Derivatives are created at upload.
If none is large enough and decoding the master is a heavy job, the first render creates a lossless derivative
in the variant cache, so that a huge master is decoded once instead of once per variant.
"""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from io import BytesIO
from itertools import starmap
from typing import BinaryIO

from attrs import field, frozen

from imagehost_core.errors import NotFoundError
from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob, derivative_sizes, pick_derivative
from imagehost_core.models import Image
from imagehost_core.pixels import codec_fingerprint
from imagehost_core.storage import MASTER, BlobStore
from imagehost_core.storage.blob_store import derivative_name
from imagehost_core.storage.variant_cache import VariantCache
from imagehost_core.transform import Size, Transform, plan
from imagehost_core.workers import ImageExecutor, JobClass, classify


@frozen
class RenderSource:
    """The stored file that a variant is rendered from.

    Attributes:
        name: The file's name among the image's files.
        size: Pixels of the image in it.
        intermediate: A derivative to be rendered from that file first, or `None`.
    """

    name: str
    size: Size
    intermediate: RenderJob | None = None


@frozen
class RenderingService:
    """The renderer of a host: the variant cache in front of the image worker processes."""

    _blobs: BlobStore = field(repr=False)
    _variants: VariantCache = field(repr=False)
    _executor: ImageExecutor = field(repr=False)
    _timeout_seconds: float = field(repr=False)

    def get_or_render(self, image: Image, key: str, job: RenderJob) -> bytes:
        """Return the bytes of a variant, from the cache or rendered now.

        Args:
            image: The image.
            key: The variant's cache key, from `cache_key`.
            job: What to render.

        Raises:
            NotFoundError: The image was deleted meanwhile.
            UnavailableError: The render queue is full, or the render timed out.
            InternalError: The stored file is damaged.
        """
        cached = self._variants.get(image.id, key)
        if cached is not None:
            return cached
        source = choose_source(image, job)
        if source.intermediate is None:
            return self._render_cached(image, key, job, source)
        # One cache entry after the other: rendering the second while holding the lock of the first could
        # deadlock with a thread that does it in the opposite order.
        intermediate = source.intermediate
        data = self._render_cached(image, cache_key(intermediate), intermediate, source)
        job_class = classify(job, intermediate.plan.output)
        return self._variants.get_or_create(
            image.id, key, lambda: self._render(job, intermediate.format, BytesIO(data), job_class), job_class
        )

    def _render_cached(self, image: Image, key: str, job: RenderJob, source: RenderSource) -> bytes:
        job_class = classify(job, source.size, image.frames)

        def create() -> bytes:
            with self._open_source(image, source.name) as file:
                return self._render(job, image.format, file, job_class)

        return self._variants.get_or_create(image.id, key, create, job_class)

    def _open_source(self, image: Image, name: str) -> BinaryIO:
        """Open one of an image's files; the master in place of a derivative that is lost."""
        try:
            return self._blobs.open(image.id, name)
        except NotFoundError:
            return self._blobs.open(image.id, MASTER)

    def _render(self, job: RenderJob, fmt: Format, file: BinaryIO, job_class: JobClass) -> bytes:
        length = file.seek(0, os.SEEK_END)
        file.seek(0)
        return self._executor.render(
            job, fmt, file, length, deadline=self._timeout_seconds, job_class=job_class
        )[1]


def choose_source(image: Image, job: RenderJob) -> RenderSource:
    """Return the stored file that a variant is best rendered from."""
    size = Size(image.width, image.height)
    if job.animated:
        return RenderSource(MASTER, size)
    derivative = pick_derivative(starmap(Size, image.derivatives), job.plan.resize)
    if derivative is not None:
        return RenderSource(derivative_name(max(derivative.width, derivative.height)), derivative)
    if classify(job, size) is JobClass.HEAVY:
        for largest in derivative_sizes(size)[:1]:
            steps = plan(size, Transform(largest.width))
            is_light = classify(job, steps.output) is JobClass.LIGHT
            if is_light and pick_derivative([steps.output], job.plan.resize) is not None:
                return RenderSource(MASTER, size, RenderJob(steps, Format.PNG, None))
    return RenderSource(MASTER, size)


@cache
def _fingerprint() -> str:
    return codec_fingerprint()


def cache_key(job: RenderJob) -> str:
    """Return the cache key of a variant: equal for requests that result in the same bytes.

    It covers the plan instead of the parameters (w=300 alone and with the height that follows from it are one
    variant), the effective quality, and the codecs' versions, so that another build renders anew.
    """
    return sha256(repr((job, _fingerprint())).encode()).hexdigest()[:32]
