"""Grouping of a batch's uploads into requests with several files."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Iterable, Sequence

from attrs import evolve

from imagehost_client._calls.uploads import MAX_FILES, FailedFile, UploadedBatch, upload_batch
from imagehost_client._exchange import Environment, Sleep
from imagehost_client._journal import Calls, FinishedUpload, Journal, find_images
from imagehost_client._many import PER_FILE_ERRORS, Batch, BatchState, Job, UploadResult, run_job
from imagehost_client._retry import RetryPolicy, retry_delay
from imagehost_client.errors import (
    BadRequestError,
    ForbiddenError,
    NotFoundError,
    PayloadTooLargeError,
    RateLimitError,
    SourceChangedError,
    UnavailableError,
    UnsupportedMediaTypeError,
    ValidationError,
)
from imagehost_client.models import Image

MAX_BYTES = 52_428_800
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
            if has_journal and self._can_share(job) and size + (job.size or 0) <= MAX_BYTES:
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
        return 1 if left is None or len(self._pending) <= left else MAX_FILES

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
        return [(yield from run_job(jobs[0], journal, state))]
    if state.fatal_error is not None:
        return [UploadResult(job.source, error=state.fatal_error, attempted=False) for job in jobs]
    fingerprints = [job.fingerprint for job in jobs if job.fingerprint is not None]
    key = jobs[0].batch.key if jobs[0].batch else journal.begin_batch(fingerprints)
    responses_before = state.responses
    try:
        uploaded: UploadedBatch = yield upload_batch([job.call for job in jobs], key)
    except NOT_STORED_ERRORS as error:
        if isinstance(error, PayloadTooLargeError):
            state.is_single = True
        journal.end_batch(key, {})
        return (yield from _run_singly(jobs, journal, state))
    except PER_FILE_ERRORS as error:
        state.record(error, responses_before)
        return [UploadResult(job.source, error=error) for job in jobs]
    state.record(None, responses_before)
    images = {
        job.fingerprint: item
        for job, item in zip(jobs, uploaded.items, strict=True)
        if isinstance(item, Image) and job.fingerprint is not None
    }
    journal.end_batch(key, images)
    missing: set[str] = set()
    if jobs[0].batch is not None and uploaded.meta.replayed:
        missing = yield from _find_missing(images.values())
    results: list[UploadResult | None] = []
    for job, item in zip(jobs, uploaded.items, strict=True):
        if isinstance(item, FailedFile):
            failure = item.error()
            is_final = not isinstance(failure, TRANSIENT_ERRORS) or attempt > retry.max_retries
            results.append(UploadResult(job.source, error=failure) if is_final else None)
            if is_final:
                state.record(failure, responses_before)
        else:
            results.append(None if item.id in missing else UploadResult(job.source, item))
    again = [evolve(job, batch=None) for job, result in zip(jobs, results, strict=True) if result is None]
    if again:
        for job in again:
            journal.forget(job.fingerprint or "")
        yield Sleep(retry_delay(retry, attempt, retry_after=None, random=random.random) or 0.0)
        repeated = iter((yield from run_group(again, journal, state, retry, attempt + 1)))
        return [next(repeated) if result is None else result for result in results]
    return [result for result in results if result is not None]


def _run_singly(jobs: Sequence[Job], journal: Journal, state: BatchState) -> Calls[list[UploadResult]]:
    results = []
    for job in jobs:
        result = yield from run_job(evolve(job, batch=None), journal, state)
        results.append(result)
    return results


def _find_missing(images: Iterable[Image]) -> Calls[set[str]]:
    """Return the ids of images that were deleted since; none if the token may not read images."""
    uploads = [FinishedUpload(image.id, image.created_at) for image in images]
    try:
        found = yield from find_images(uploads)
    except ForbiddenError:
        return set()
    return {upload.image_id for upload in uploads} - found.keys()
