"""Batch uploads: their files, the requests with one or several of them, and the results."""

from __future__ import annotations

import json
import os
import random
from collections import Counter, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeVar, cast

from attrs import define, evolve, field, frozen

from imagehost_client._calls.arguments import raise_faults
from imagehost_client._calls.call import Call
from imagehost_client._calls.images import get_image
from imagehost_client._calls.uploads import (
    MAX_FILES_PER_REQUEST,
    FailedFile,
    UploadedBatch,
    upload,
    upload_batch,
)
from imagehost_client._config import Config
from imagehost_client._exchange import Calls, Environment, Sleep
from imagehost_client._journal import FinishedUpload, Journal
from imagehost_client._resumption import find_images, identify, owner_by_token
from imagehost_client._retry import RetryPolicy, retry_delay
from imagehost_client._types import BatchProgress, Source, UploadOptions
from imagehost_client.errors import (
    APIConnectionError,
    BadRequestError,
    ConfigurationError,
    ForbiddenError,
    ImageHostError,
    InsufficientStorageError,
    NotFoundError,
    PayloadTooLargeError,
    RateLimitError,
    SourceChangedError,
    UnauthorizedError,
    UnavailableError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from imagehost_client.files import expand_sources
from imagehost_client.models import Image
from imagehost_client.urls import integer

T = TypeVar("T")

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
OUTAGE_DELAYS = (1.0, 2.0, 4.0, 8.0, 8.0, 8.0)
"""The delays before an upload is sent again while a host that has answered others is down, in seconds: longer
than a restart takes."""
MAX_UNAVAILABLE = 2
"""The number of uploads in succession without a response of the host that stop the batch. A single one may
fail because of its file, such as one that a proxy rejects by closing the connection."""


@define
class BatchState:
    """The state that the uploads of a batch share.

    Attributes:
        max_retry_after: The longest `Retry-After` that is waited for, in seconds.
        fatal_error: The error that stops the batch.
        taken: The number of uploads that were begun.
        responses: The number of uploads that the host has answered.
        unavailable: The number of uploads since then that it has not answered.
        is_single: Whether each request has one file, because one with several was too large.
    """

    max_retry_after: float
    fatal_error: ImageHostError | None = None
    taken: int = 0
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
        faults = [integer(1)("parallel", self.parallel)]
        if self.files_per_request is not None:
            check = integer(1, MAX_FILES_PER_REQUEST)
            faults.append(check("files_per_request", self.files_per_request))
        raise_faults(faults)
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
        return Job(source, call, known_size(source), fingerprint)


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
        if not journal.is_bound_to(owner_by_token(config)):
            journal.bind((yield from identify(config)))
    except ConfigurationError:
        raise
    except ImageHostError as error:
        return [_with_error(job, error) for job in jobs]
    finished = [journal.finished(job.fingerprint) for job in jobs]
    try:
        images = yield from find_images(upload for upload in finished if upload is not None)
    except ImageHostError as error:
        return _repeated(
            [_with_error(job, error) if journal.finished(job.fingerprint) else job for job in jobs], journal
        )
    return _repeated([_resumed(job, journal, images) for job in jobs], journal)


def outlast(call: Call[T], state: BatchState, retry: RetryPolicy) -> Calls[T]:
    """Run an upload, and again with the same key while a host that has answered others is down.

    Raises:
        Exception: The error of the last attempt.
    """
    call = evolve(call, key=call.key or os.urandom(16).hex())
    for delay in OUTAGE_DELAYS if retry.max_retries else ():
        try:
            return cast("T", (yield call))
        except UNAVAILABLE_ERRORS as error:
            if not state.responses or (isinstance(error, APIConnectionError) and error.is_sent):
                raise
        yield Sleep(min(delay, retry.cap), "the host, which is down")
    return cast("T", (yield call))


def run_job(job: Job, journal: Journal, state: BatchState, retry: RetryPolicy) -> Calls[UploadResult]:
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
        image = yield from outlast(call, state, retry)
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
    finished = journal.finished(job.fingerprint)
    if finished is not None and finished.image_id in images:
        return evolve(job, result=UploadResult(job.source, images[finished.image_id], resumed=True))
    if finished is not None:
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


def known_size(source: Source) -> int | None:
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


MAX_FILE_BYTES = 52_428_800
"""The maximum size of the files of a request: that of one file, which every proxy of a host must accept."""
ASSUMED_UPLOADS = 10
"""The upload requests per minute of a host whose limit is not known yet: its default."""
MAX_SKIPPED = 100
"""The number of files that are skipped in search of further ones that fit into a request."""

NOT_STORED_ERRORS = (
    BadRequestError,
    NotFoundError,
    PayloadTooLargeError,
    UnsupportedMediaTypeError,
    ValidationError,
    SourceChangedError,
    OSError,
    TypeError,
)
"""The errors of a request of which no file was stored, because of a file or an option: its files are uploaded
one by one, so that each has its own result."""
TRANSIENT_ERRORS = (UnavailableError, RateLimitError)
"""The errors of single files of a request after which these files are uploaded again."""

Group = list[tuple[int, Job]]
"""The uploads of one request, with their positions in the batch."""


class JobQueue:
    """The uploads of a batch that are not yet taken; not thread-safe.

    Args:
        jobs: The uploads, in the order of the sources.
        batch: The batch.
        environment: The client's clock and rate limit state.
    """

    def __init__(self, jobs: Iterable[Job], batch: Batch, environment: Environment) -> None:
        self._pending = deque(enumerate(jobs))
        self._batch = batch
        self._environment = environment
        counts = Counter(job.fingerprint for _, job in self._pending if job.fingerprint is not None)
        self._repeated_files = {fingerprint for fingerprint, count in counts.items() if count > 1}

    def take(self) -> Group:
        """Return the uploads of the next request; none after the last one."""
        group = self._take()
        self._batch.state.taken += len(group)
        return group

    def _take(self) -> Group:
        if not self._pending:
            return []
        limit = self._files_per_request()
        group = [self._pending.popleft()]
        first = group[0][1]
        if first.batch is not None:
            return self._take_repeated(group, first.batch.key)
        if limit == 1 or not self._can_share(first):
            return group
        size, skipped = first.size or 0, Group()
        while self._pending and len(group) < limit and len(skipped) < MAX_SKIPPED:
            item = self._pending.popleft()
            job = item[1]
            has_journal = (job.fingerprint is None) == (first.fingerprint is None)
            if has_journal and self._can_share(job) and size + (job.size or 0) <= MAX_FILE_BYTES:
                group.append(item)
                size += job.size or 0
            else:
                skipped.append(item)
        self._pending.extendleft(reversed(skipped))
        return group

    def _take_repeated(self, group: Group, key: str) -> Group:
        """Return the uploads of a request that an earlier run has sent, in their order."""
        others: deque[tuple[int, Job]] = deque()
        for item in self._pending:
            batch = item[1].batch
            (group if batch is not None and batch.key == key else others).append(item)
        self._pending = others
        return sorted(group, key=lambda item: item[1].batch.position if item[1].batch else 0)

    def _files_per_request(self) -> int:
        """Return the maximum number of files; several if there are more files than the limit has requests."""
        if self._batch.options.get("checksum") or self._batch.state.is_single:
            return 1
        if self._batch.files_per_request is not None:
            return self._batch.files_per_request
        left = self._environment.pacer.uploads_left(self._environment.now(), ASSUMED_UPLOADS)
        return 1 if left is None or len(self._pending) <= left else MAX_FILES_PER_REQUEST

    def _can_share(self, job: Job) -> bool:
        is_new = job.result is None and not job.is_repeated and job.batch is None
        return is_new and job.size is not None and job.fingerprint not in self._repeated_files


def run_group(
    jobs: Sequence[Job], journal: Journal, state: BatchState, retry: RetryPolicy, attempt: int = 1
) -> Calls[list[UploadResult]]:
    """Run the uploads of one request, and return their results in the same order.

    Each file has its own result. Files that a busy host has not stored are uploaded again, without the
    others. Where no file is stored because of a file or an option, they are uploaded one by one.

    Args:
        jobs: The uploads; of several, none has a result.
        journal: The journal of the batch.
        state: The state of the batch.
        retry: The limits of retries.
        attempt: The number of requests for these uploads, from 1.
    """
    if len(jobs) == 1 and jobs[0].batch is None:
        return [(yield from run_job(jobs[0], journal, state, retry))]
    if state.fatal_error is not None:
        return [UploadResult(job.source, error=state.fatal_error, attempted=False) for job in jobs]
    responses_before = state.responses
    try:
        uploaded = yield from _upload_together(jobs, journal, state, retry)
    except NOT_STORED_ERRORS:
        return (yield from _run_singly(jobs, journal, state, retry))
    except PER_FILE_ERRORS as error:
        return [UploadResult(job.source, error=error) for job in jobs]
    missing = yield from _find_missing(jobs, uploaded)
    is_last = attempt > retry.max_retries
    results = [
        _file_result(job, item, missing, is_last=is_last)
        for job, item in zip(jobs, uploaded.items, strict=True)
    ]
    for result in results:
        if result is not None and result.error is not None:
            state.record(result.error, responses_before)
    again = [evolve(job, batch=None) for job, result in zip(jobs, results, strict=True) if result is None]
    if again:
        for job in again:
            journal.forget(job.fingerprint)
        yield Sleep(retry_delay(retry, attempt, retry_after=None, random=random.random) or 0.0)
        repeated = iter((yield from run_group(again, journal, state, retry, attempt + 1)))
        results = [next(repeated) if result is None else result for result in results]
    return [result for result in results if result is not None]


def _upload_together(
    jobs: Sequence[Job], journal: Journal, state: BatchState, retry: RetryPolicy
) -> Calls[UploadedBatch]:
    """Send one request for several uploads, record its response, and return it.

    Raises:
        Exception: One of `NOT_STORED_ERRORS` or of `PER_FILE_ERRORS`.
    """
    fingerprints = [job.fingerprint for job in jobs if job.fingerprint is not None]
    key = jobs[0].batch.key if jobs[0].batch else journal.begin_batch(fingerprints)
    responses_before = state.responses
    try:
        uploaded = yield from outlast(upload_batch([job.call for job in jobs], key), state, retry)
    except NOT_STORED_ERRORS as error:
        state.is_single = state.is_single or isinstance(error, PayloadTooLargeError)
        journal.end_batch(key, {})
        raise
    except PER_FILE_ERRORS as error:
        state.record(error, responses_before)
        raise
    state.record(None, responses_before)
    images = {
        job.fingerprint: item
        for job, item in zip(jobs, uploaded.items, strict=True)
        if isinstance(item, Image) and job.fingerprint is not None
    }
    journal.end_batch(key, images)
    return uploaded


def _file_result(
    job: Job, item: Image | FailedFile, missing: Collection[str], *, is_last: bool
) -> UploadResult | None:
    """Return the result of a file of a request, or `None` if it is to be uploaded again.

    Args:
        job: The upload.
        item: The image or the error in the response.
        missing: The ids of images that were deleted since.
        is_last: Whether no retry is left.
    """
    if isinstance(item, Image):
        return None if item.id in missing else UploadResult(job.source, item)
    error = item.error()
    return (
        None if isinstance(error, TRANSIENT_ERRORS) and not is_last else UploadResult(job.source, error=error)
    )


def _run_singly(
    jobs: Sequence[Job], journal: Journal, state: BatchState, retry: RetryPolicy
) -> Calls[list[UploadResult]]:
    results = []
    for job in jobs:
        result = yield from run_job(evolve(job, batch=None), journal, state, retry)
        results.append(result)
    return results


def _find_missing(jobs: Sequence[Job], uploaded: UploadedBatch) -> Calls[Collection[str]]:
    """Return the ids of images in a replayed response that were deleted since.

    There are none in another response, or if the token may not read images.
    """
    if jobs[0].batch is None or not uploaded.meta.replayed:
        return ()
    uploads = [FinishedUpload(item.id, item.created_at) for item in uploaded.items if isinstance(item, Image)]
    try:
        found = yield from find_images(uploads)
    except ForbiddenError:
        return ()
    return {upload.image_id for upload in uploads} - found.keys()
