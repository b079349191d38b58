"""What can happen to an order beside an answer, and which error of the contract that is.

An upload that ends its decoder, or takes it too long, is at fault: 422, as for any damaged file. A
picture that is stored was decoded once already, so a render that fails is trouble of the moment:
503, and another try is worth making. A worker that was ended from outside says nothing about the
picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from imagehost_core.errors import FieldError, ImageHostError, InternalError, UnavailableError, ValidationError


class WorkerFailure(Exception):
    """A worker had an order and gave no answer to it.

    Args:
        words: What the worker left behind, for the log.
        seconds: The deadline that the order had, in seconds.
    """

    def __init__(self, words: str, seconds: float) -> None:
        super().__init__(words)
        self.seconds = seconds


class DeadlineExceeded(WorkerFailure):
    """The deadline came first, and the worker was killed."""


class QueuedTooLong(WorkerFailure):
    """The deadline came first, but more than half of it had gone by in waiting for a worker."""


class WorkerCrashed(WorkerFailure):
    """The worker ended, or talked nonsense."""


class WorkerOutOfMemory(WorkerFailure):
    """The task asked for more memory than the cage has."""


class WorkerKilled(WorkerFailure):
    """Somebody else ended the worker: an operator, or the kernel when the machine had no memory."""


class WorkerStartFailed(WorkerFailure):
    """No worker came so far as to take the order."""


ErrorMapper = Callable[[WorkerFailure], ImageHostError]


def _file(received: str) -> ErrorMapper:
    def error(mishap: WorkerFailure) -> ImageHostError:
        expected = f"an image that can be decoded within {mishap.seconds:g} seconds"
        return ValidationError(errors=[FieldError("the file", expected, received)])

    return error


def _busy(details: str) -> ErrorMapper:
    return lambda _mishap: UnavailableError(details, retry_after=2)


def _ours(_mishap: WorkerFailure) -> ImageHostError:
    return InternalError()


_COMMON: dict[type[WorkerFailure], ErrorMapper] = {
    QueuedTooLong: _busy("expected a free worker in time but all were busy"),
    WorkerKilled: _busy("the work was interrupted"),
    WorkerStartFailed: _ours,
}
UPLOAD_ERRORS: dict[type[WorkerFailure], ErrorMapper] = _COMMON | {
    DeadlineExceeded: _file("one that took longer than that to decode"),
    WorkerCrashed: _file("one on which the decoder failed"),
    WorkerOutOfMemory: _file("one that needs more memory than is allowed"),
}
"""What each mishap means for an upload."""
RENDER_ERRORS: dict[type[WorkerFailure], ErrorMapper] = _COMMON | {
    DeadlineExceeded: _busy("the picture took too long to make"),
    WorkerCrashed: _busy("the picture could not be made"),
    WorkerOutOfMemory: _busy("the picture needs more memory than is allowed"),
}
"""What each mishap means for a render."""


@contextmanager
def mapped_to(verdicts: dict[type[WorkerFailure], ErrorMapper]) -> Iterator[None]:
    """Turn a mishap into the error of the contract, whose cause it is."""
    try:
        yield
    except WorkerFailure as mishap:
        raise verdicts[type(mishap)](mishap) from mishap
