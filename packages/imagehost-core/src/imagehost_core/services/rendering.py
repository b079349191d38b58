"""Rendering: choose the stored file that a variant is rendered from, and render it in a worker process.

A variant is rendered from the smallest derivative that is large enough. Derivatives are created at upload.
If none is large enough and decoding the master is a heavy job, the first render creates a lossless derivative
in the variant cache, so that a huge master is decoded once instead of once per variant.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import sha256
from io import BytesIO
from itertools import starmap
from typing import BinaryIO

from attrs import field, frozen

from imagehost_core.errors import InternalError, NotFoundError
from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob, derivative_sizes, pick_derivative, pick_source
from imagehost_core.limits import account_key
from imagehost_core.models import Image
from imagehost_core.pixels import codec_fingerprint
from imagehost_core.steps import QueueSteps
from imagehost_core.storage import MASTER
from imagehost_core.storage.blob_store import derivative_name, recorded_checksum
from imagehost_core.storage.image_files import ImageFiles
from imagehost_core.transform import (
    Size,
    Transform,
    plan,
)
from imagehost_core.workers.costs import Cost, render_cost
from imagehost_core.workers.executor import ImageExecutor
from imagehost_core.workers.lanes import Lane, WorkerRequest
from imagehost_core.workers.process import Worker

log = logging.getLogger(__name__)


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
    """The renderer of a host's variants, in image worker processes."""

    _files: ImageFiles = field(repr=False)
    _executor: ImageExecutor = field(repr=False)
    _timeout_seconds: float = field(repr=False)

    def render(self, image: Image, key: str, job: RenderJob, client: str = "") -> QueueSteps[bytes]:
        """Render a variant and cache it, in steps between waits; return one that another request rendered.

        Args:
            image: The image.
            key: The variant's cache key, from `cache_key`.
            job: What to render.
            client: Who requests it: the renders of a client wait behind each other, and not behind those of
                others. By default the image's owner.

        Raises:
            NotFoundError: The image was deleted meanwhile.
            UnavailableError: The render queue is full, or the render timed out.
            InternalError: The master is damaged.
        """
        until = time.monotonic() + self._timeout_seconds
        source = choose_source(image, job)
        files = [
            partial(self._files.blobs.open, image.id, name, checksum=recorded_checksum(image, name))
            for name in dict.fromkeys((source.name, MASTER))
        ]
        intermediate = source.intermediate
        flow = client or account_key(image.account_id)

        def new_request(cost: Cost, key: str) -> WorkerRequest:
            return cost.request(until - time.monotonic(), key=f"{image.id}/{key}", flow=flow)

        stored = Format(image.format)
        if intermediate is None:
            request = new_request(render_cost(job, stored, source.size, image.frames), key)
            return (yield from self._render(request, image, key, job, stored, files))
        # One after the other: a task that waits for another while it holds a worker process could deadlock.
        first_key = cache_key(intermediate)
        first = new_request(render_cost(intermediate, stored, source.size, image.frames), first_key)
        data = yield from self._render(first, image, first_key, intermediate, stored, files)
        second = new_request(render_cost(job, intermediate.format, intermediate.plan.output), key)
        open_data = partial(BytesIO, data)
        return (yield from self._render(second, image, key, job, intermediate.format, [open_data]))

    def _render(
        self,
        request: WorkerRequest,
        image: Image,
        key: str,
        job: RenderJob,
        source_format: Format,
        files: Sequence[Callable[[], BinaryIO]],
    ) -> QueueSteps[bytes]:
        """Return a variant, in steps.

        Args:
            request: The request for a worker process.
            image: The image.
            key: The variant's cache key.
            job: What to render.
            source_format: The format of the master, or of the intermediate.
            files: Open the file to render from, then the one to use where that is lost or damaged.
        """
        while (data := self._files.variants.get(image.id, key)) is None:
            worker = yield from self._executor.wait(request)
            if worker is None:
                continue  # Another request has rendered the variant.
            with self._executor.completing(request):
                try:
                    data = self._render_from_files(request, image, job, source_format, files, worker)
                finally:
                    # Before the write to the disk, so that the next task can start meanwhile.
                    self._executor.release(worker)
                self._files.variants.put(image.id, key, data)
            return data
        return data

    def _render_from_files(
        self,
        request: WorkerRequest,
        image: Image,
        job: RenderJob,
        source_format: Format,
        files: Sequence[Callable[[], BinaryIO]],
        worker: Worker,
    ) -> bytes:
        first, *others = files
        try:
            return self._render_file(request, job, source_format, first, worker)
        except (NotFoundError, InternalError) as error:
            if not others:
                raise
            data = self._render_file(request, job, source_format, others[0], worker)
            log.warning("derivative lost or damaged image=%s error=%r", image.id, error.__cause__ or error)
            return data

    def _render_file(
        self,
        request: WorkerRequest,
        job: RenderJob,
        source_format: Format,
        open_file: Callable[[], BinaryIO],
        worker: Worker,
    ) -> bytes:
        with open_file() as file:
            length = file.seek(0, os.SEEK_END)
            file.seek(0)
            _, data = self._executor.render(job, source_format, file, length, request, worker=worker)
        return data


def choose_source(image: Image, job: RenderJob) -> RenderSource:
    """Return the stored file that a variant is best rendered from."""
    size = Size(image.width, image.height)
    if job.animated or job.keeps_file:
        return RenderSource(MASTER, size)
    derivative = pick_source(starmap(Size, image.derivatives), job, size)
    if derivative is not None:
        return RenderSource(derivative_name(max(derivative.width, derivative.height)), derivative)
    if render_cost(job, Format(image.format), size).lane is Lane.HEAVY:
        for intermediate in derivative_sizes(size):
            steps = plan(size, Transform(intermediate.width))
            saves_half = 2 * steps.output.pixels <= size.pixels
            if saves_half and pick_derivative([steps.output], job.plan.resize, size) is not None:
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
