"""Failures of a worker process without a task result, and the error that the caller gets for each.

An upload that crashes its decoder or exceeds its limits is invalid: 422, as for any damaged file. A stored
image was decoded once before, so a failed render is a temporary error: 503, and a retry can succeed. A
worker process that was killed from outside, or that hangs without using the CPU, says nothing about the
image: 503 in both cases.

A failed render is not repeated for the requests that wait for its result: they get the error, too. Only a
deadline and a worker process that was killed from outside say nothing about what the others would get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from imagehost_core.errors import ImageHostError, InternalError, UnavailableError, ValidationError
from imagehost_core.workers.messages import TaskError, from_exception


class WorkerFailure(Exception):
    """A worker process returned no result for a task.

    Args:
        message: The cause for the log: exit status and standard error of the process.
        seconds: The deadline of the task, in seconds; or its limit of CPU time, if it exceeded that.

    Attributes:
        outcome: The outcome of the task, for measurements.
    """

    outcome: ClassVar[str]

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class DeadlineExceeded(WorkerFailure):
    """The deadline passed and the worker process was killed."""

    outcome = "timeout"


class WorkerHung(DeadlineExceeded):
    """The deadline passed, and the worker process did not use the CPU for most of it."""


class CpuTimeExceeded(WorkerFailure):
    """The worker process was killed because the task took too much CPU time."""

    outcome = "timeout"


class QueuedTooLong(WorkerFailure):
    """The deadline passed, but the task spent more than half of it waiting for a worker process."""

    outcome = "timeout"


class WorkerCrashed(WorkerFailure):
    """The worker process exited, or sent an invalid message."""

    outcome = "crashed"


class WorkerOutOfMemory(WorkerFailure):
    """The task exceeded the memory limit of the sandbox, or may need more memory than the budget.

    Args:
        message: The cause for the log.
        seconds: The deadline of the task, in seconds.
        limit_bytes: The limit.
        setting: The name of its setting.
    """

    outcome = "out_of_memory"

    def __init__(self, message: str, seconds: float, limit_bytes: int = 0, setting: str = "") -> None:
        super().__init__(message, seconds)
        self.limit_bytes, self.setting = limit_bytes, setting


class WorkerKilled(WorkerFailure):
    """The worker process was killed from outside: by an operator, or by the kernel's OOM killer."""

    outcome = "killed"


class WorkerStartFailed(WorkerFailure):
    """The worker process exited before it was ready for a task."""

    outcome = "not_started"


class SharedFailure(Exception):
    """The task of another request, whose result a request waited for, has failed.

    Args:
        error: The error of that request.
    """

    def __init__(self, error: TaskError) -> None:
        super().__init__(error.code)
        self.error = error


WORK_RETRY_SECONDS = 2
"""`Retry-After` of a render that failed: the next one may find more time or memory."""
ErrorMapper = Callable[[WorkerFailure], ImageHostError]
"""Returns the error for a failure."""


def _invalid_file(received: str, unit: str = "") -> ErrorMapper:
    def error(failure: WorkerFailure) -> ImageHostError:
        expected = f"an image that can be processed{f' within {failure.seconds:g} {unit}' if unit else ''}"
        return ValidationError.of("the file", expected, received)

    return error


def _too_large(failure: WorkerFailure) -> ImageHostError:
    assert isinstance(failure, WorkerOutOfMemory)
    expected = (
        f"an image that can be processed with {failure.limit_bytes} bytes of memory ({failure.setting})"
    )
    return ValidationError.of("the file", expected, "one that needs more")


def _unavailable(details: str) -> ErrorMapper:
    return lambda _failure: UnavailableError(details, retry_after=WORK_RETRY_SECONDS)


def _internal(_failure: WorkerFailure) -> ImageHostError:
    return InternalError()


_COMMON_ERRORS: dict[type[WorkerFailure], ErrorMapper] = {
    QueuedTooLong: _unavailable("expected a free worker in time but all were busy"),
    WorkerKilled: _unavailable("the work was interrupted"),
    WorkerHung: _unavailable("expected a worker to process the image but it hangs"),
    WorkerStartFailed: _internal,
}
UPLOAD_ERRORS: dict[type[WorkerFailure], ErrorMapper] = _COMMON_ERRORS | {
    DeadlineExceeded: _invalid_file("one that took longer", "seconds"),
    CpuTimeExceeded: _invalid_file("one that takes longer", "seconds of CPU time"),
    WorkerCrashed: _invalid_file("one on which the decoder failed"),
    WorkerOutOfMemory: _too_large,
}
"""The error of each failure in an upload."""
RENDER_ERRORS: dict[type[WorkerFailure], ErrorMapper] = _COMMON_ERRORS | {
    DeadlineExceeded: _unavailable("rendering the image took too long"),
    CpuTimeExceeded: _unavailable("rendering the image takes too much CPU time"),
    WorkerCrashed: _unavailable("rendering the image failed"),
    WorkerOutOfMemory: _unavailable("rendering the image needs more memory than is allowed"),
}
"""The error of each failure in a render."""


@contextmanager
def mapped_to(errors: Mapping[type[WorkerFailure], ErrorMapper]) -> Iterator[None]:
    """Raise the mapped error for a `WorkerFailure` of the block, with the failure as its cause."""
    try:
        yield
    except WorkerFailure as failure:
        raise errors[type(failure)](failure) from failure


_OF_ONE_REQUEST = (DeadlineExceeded, QueuedTooLong, WorkerKilled)


def shared_error(error: Exception) -> TaskError | None:
    """Return the error for the requests that wait for the result of a failed task.

    Args:
        error: The error of the request whose task has failed; the cause is a `WorkerFailure` if it had one.

    Returns:
        `None` if the task of one of those requests may succeed.
    """
    if isinstance(error.__cause__, _OF_ONE_REQUEST):
        return None
    return from_exception(error)
