"""Batch uploads: jobs, their calls, and results."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from attrs import define, evolve, field, frozen

from imagehost_client._calls.arguments import require_integer
from imagehost_client._calls.call import Call
from imagehost_client._calls.images import get_image
from imagehost_client._calls.uploads import MAX_FILES, upload
from imagehost_client._config import Config
from imagehost_client._journal import Calls, FinishedUpload, Journal, find_images, identify
from imagehost_client._types import BatchProgress, Source, UploadOptions
from imagehost_client.errors import (
    APIConnectionError,
    ConfigurationError,
    ForbiddenError,
    ImageHostError,
    InsufficientStorageError,
    NotFoundError,
    RateLimitError,
    SourceChangedError,
    UnauthorizedError,
    UnavailableError,
)
from imagehost_client.files import expand_sources
from imagehost_client.models import Image

PER_FILE_ERRORS = (ImageHostError, OSError, TypeError)
"""The errors of a single source, which do not stop the batch."""


@frozen
class UploadResult:
    """The result of one source of a batch.

    Attributes:
        image: The image, if the upload succeeded.
        error: The error, if the upload failed.
        resumed: Whether the image is from an earlier run, according to the journal and the host.
        attempted: Whether the upload was attempted; otherwise `error` is the reason why it was not.
    """

    source: Source = field(repr=False)
    image: Image | None = None
    error: Exception | None = None
    resumed: bool = False
    attempted: bool = True

    def unwrap(self) -> Image:
        """Return the image, or raise the error."""
        if self.error is not None:
            raise self.error
        assert self.image is not None
        return self.image


@frozen
class RepeatedBatch:
    """The request with several files in which an earlier run has sent a file.

    Attributes:
        key: The request's idempotency key.
        position: The file's position in the request.
    """

    key: str
    position: int


@frozen
class Job:
    """One upload of a batch.

    Attributes:
        size: The file's size in bytes; `None` if it is not known before the file is opened.
        fingerprint: The file's key in the journal; `None` without a journal, and for sources that are not
            paths.
        is_repeated: Whether an earlier run has started the upload, and not finished it.
        batch: The request of several files that an earlier run has started, and not finished.
        result: The result, where no upload is needed or possible.
    """

    source: Source
    call: Call[Image]
    size: int | None = None
    fingerprint: str | None = None
    is_repeated: bool = False
    batch: RepeatedBatch | None = None
    result: UploadResult | None = None


FATAL_ERRORS = (UnauthorizedError, ForbiddenError, InsufficientStorageError)
"""The errors that all further uploads would have too: the batch stops."""
UNAVAILABLE_ERRORS = (APIConnectionError, UnavailableError)
"""The errors of uploads that the host has not answered, with all their retries."""
MAX_UNAVAILABLE = 2
"""The number of uploads in succession without a response of the host that stop the batch. A single one may
fail because of its file, such as one that a proxy rejects by closing the connection."""


@define
class BatchState:
    """The state that the uploads of a batch share.

    Attributes:
        max_retry_after: The longest `Retry-After` that is waited for, in seconds.
        fatal_error: The error that stops the batch.
        responses: The number of uploads that the host has answered.
        unavailable: The number of uploads since then that it has not answered.
        is_single: Whether each request has one file, because one with several was too large.
    """

    max_retry_after: float
    fatal_error: ImageHostError | None = None
    responses: int = 0
    unavailable: int = 0
    is_single: bool = False

    def record(self, error: Exception | None, responses_before: int) -> None:
        """Record the outcome of an upload, which may stop the batch.

        Args:
            error: Its error, or `None`.
            responses_before: The value of `responses` when the upload began.
        """
        if isinstance(error, UNAVAILABLE_ERRORS):
            if self.responses == responses_before:
                self.unavailable += 1
                is_unreachable = isinstance(error, APIConnectionError) and not error.is_sent
                if is_unreachable or self.unavailable >= MAX_UNAVAILABLE:
                    self.fatal_error = error
        elif error is None or (
            isinstance(error, ImageHostError) and not isinstance(error, SourceChangedError)
        ):
            self.responses, self.unavailable = self.responses + 1, 0
            is_limited = isinstance(error, RateLimitError) and (error.retry_after or 0) > self.max_retry_after
            if isinstance(error, FATAL_ERRORS) or is_limited:
                self.fatal_error = error


@define(kw_only=True)
class Batch:
    """A batch upload.

    Attributes:
        total: The number of files, once they are planned.

    Raises:
        ValueError: The options are invalid.
        TypeError: An option has the wrong type.
    """

    sources: Iterable[Source] | Source
    options: UploadOptions
    config: Config
    parallel: int
    files_per_request: int | None
    journal: str | os.PathLike[str] | None
    progress: BatchProgress | None
    state: BatchState = field(init=False)
    total: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        require_integer("parallel", self.parallel, 1)
        if self.files_per_request is not None:
            require_integer("files_per_request", self.files_per_request, 1, MAX_FILES)
        upload(b"", **self.options)  # raises an error of the options also for a batch without files
        self.state = BatchState(self.config.retry.max_retry_after)

    def plan(self) -> list[Job]:
        """Return the uploads, in the order of the sources, with directories and patterns expanded."""
        jobs = [self._job(source) for source in expand_sources(self.sources)]
        self.total = len(jobs)
        return jobs

    def _job(self, source: Source) -> Job:
        def report(sent: int, total: int) -> None:
            assert self.progress is not None
            self.progress(source, sent, total)

        call = upload(source, progress=report if self.progress else None, **self.options)
        fingerprint = None if self.journal is None else _fingerprint(source, call)
        return Job(source, call, _size_of(source), fingerprint)


def prepare(jobs: list[Job], journal: Journal, config: Config) -> Calls[list[Job]]:
    """Return the jobs with what earlier runs have started, and with the results that need no upload.

    The journal is bound to the client's account first. Uploads that an earlier run has finished are
    results if their images exist, and are repeated if they were deleted. Where the host does not tell, the
    error is the result.

    Raises:
        ConfigurationError: The journal is one of another host or account.
    """
    if not journal.is_enabled():
        return jobs
    try:
        journal.bind((yield from identify(config)))
    except ConfigurationError:
        raise
    except ImageHostError as error:
        return [_with_error(job, error) for job in jobs]
    finished = [journal.finished(job.fingerprint) for job in jobs if job.fingerprint is not None]
    try:
        images = yield from find_images(upload for upload in finished if upload is not None)
    except ImageHostError as error:
        return _repeated(
            [_with_error(job, error) if _finished(job, journal) else job for job in jobs], journal
        )
    return _repeated([_resumed(job, journal, images) for job in jobs], journal)


def run_job(job: Job, journal: Journal, state: BatchState) -> Calls[UploadResult]:
    """Run the upload of a job, record its image in the journal, and return the job's result.

    A response that the host replays from an earlier run may be that of an image deleted since: the image is
    requested, and uploaded again if it does not exist. After a fatal error of another upload nothing is sent.
    """
    if job.result is not None:
        return job.result
    if state.fatal_error is not None:
        return UploadResult(job.source, error=state.fatal_error, attempted=False)
    responses_before = state.responses
    call = job.call if job.fingerprint is None else evolve(job.call, key=journal.key(job.fingerprint))
    try:
        image: Image = yield call
        if job.is_repeated and image.meta.replayed and job.fingerprint is not None:
            try:
                yield get_image(image.id)
            except NotFoundError:
                journal.forget(job.fingerprint)
                image = yield evolve(call, key=journal.key(job.fingerprint))
            except ForbiddenError:
                pass  # a token for uploads only
    except PER_FILE_ERRORS as error:
        state.record(error, responses_before)
        return UploadResult(job.source, error=error)
    state.record(None, responses_before)
    if job.fingerprint is not None:
        journal.record(job.fingerprint, image)
    return UploadResult(job.source, image)


def _finished(job: Job, journal: Journal) -> FinishedUpload | None:
    return None if job.fingerprint is None else journal.finished(job.fingerprint)


def _with_error(job: Job, error: ImageHostError) -> Job:
    return evolve(job, result=UploadResult(job.source, error=error, attempted=False))


def _repeated(jobs: list[Job], journal: Journal) -> list[Job]:
    """Return the jobs with the requests that earlier runs have started, and not finished.

    A request with several files can be repeated only with all of them. Otherwise they are uploaded anew,
    because the response of the earlier request cannot be requested.
    """
    pending = {job.fingerprint for job in jobs if job.result is None}
    batches = {
        fingerprint: RepeatedBatch(key, position)
        for key, fingerprints in journal.unfinished_batches().items()
        if pending.issuperset(fingerprints)
        for position, fingerprint in enumerate(fingerprints)
    }
    seen: set[str] = set()
    repeated = []
    for job in jobs:
        if job.fingerprint is not None and job.result is None:
            is_first = job.fingerprint not in seen
            seen.add(job.fingerprint)
            batch = batches.get(job.fingerprint) if is_first else None
            job = evolve(job, is_repeated=journal.is_started(job.fingerprint), batch=batch)
        repeated.append(job)
    return repeated


def _resumed(job: Job, journal: Journal, images: Mapping[str, Image]) -> Job:
    """Return the job with its image, if an earlier run has uploaded it and it exists."""
    finished = _finished(job, journal)
    if finished is not None and finished.image_id in images:
        return evolve(job, result=UploadResult(job.source, images[finished.image_id], resumed=True))
    if finished is not None and job.fingerprint is not None:
        journal.forget(job.fingerprint)
    return job


def _fingerprint(source: Source, call: Call[Image]) -> str | None:
    """Return a hash of a file's path, size, modification time and upload options."""
    if not isinstance(source, (str, os.PathLike)):
        return None
    path = Path(source)
    try:
        status = path.stat()
    except OSError:
        return None
    identity = [str(path.resolve()), status.st_size, status.st_mtime_ns, call.fields]
    return sha256(json.dumps(identity).encode()).hexdigest()


def _size_of(source: Source) -> int | None:
    """Return the size of bytes or of a readable file, in bytes; `None` for other sources."""
    content: object = source[1] if isinstance(source, tuple) else source
    if isinstance(content, (bytes, bytearray)):
        return len(content)
    if isinstance(content, memoryview):
        return content.nbytes
    if isinstance(content, (str, os.PathLike)):
        path = Path(content)
        if path.is_file() and os.access(path, os.R_OK):
            return path.stat().st_size
    return None
