"""What can happen to an order beside an answer, and which error of the contract that is.

An upload that ends its decoder, or takes it too long, is at fault: 422, as for any damaged file. A
picture that is stored was decoded once already, so a render that fails is trouble of the moment:
503, and another try is worth making. A worker that was ended from outside says nothing about the
picture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from imagehost_core.errors import Fault, ImageHostError, InternalError, UnavailableError, ValidationError


class MishapError(Exception):
    """A worker had an order and gave no answer to it.

    Args:
        words: What the worker left behind, for the log.
        seconds: The deadline that the order had, in seconds.
    """

    def __init__(self, words: str, seconds: float) -> None:
        super().__init__(words)
        self.seconds = seconds


class TooSlowError(MishapError):
    """The deadline came first, and the worker was killed."""


class HurriedError(MishapError):
    """The deadline came first, but more than half of it had gone by in waiting for a worker."""


class CrashedError(MishapError):
    """The worker ended, or talked nonsense."""


class OutOfMemoryError(MishapError):
    """The task asked for more memory than the cage has."""


class KilledError(MishapError):
    """Somebody else ended the worker: an operator, or the kernel when the machine had no memory."""


class NotStartedError(MishapError):
    """No worker came so far as to take the order."""


Judge = Callable[[MishapError], ImageHostError]


def _file(received: str) -> Judge:
    def error(mishap: MishapError) -> ImageHostError:
        expected = f"an image that can be decoded within {mishap.seconds:g} seconds"
        return ValidationError(faults=[Fault("the file", expected, received)])

    return error


def _busy(details: str) -> Judge:
    return lambda _mishap: UnavailableError(details, retry_after=2)


def _ours(_mishap: MishapError) -> ImageHostError:
    return InternalError()


_COMMON: dict[type[MishapError], Judge] = {
    HurriedError: _busy("expected a free worker in time but all were busy"),
    KilledError: _busy("the work was interrupted"),
    NotStartedError: _ours,
}
UPLOAD: dict[type[MishapError], Judge] = _COMMON | {
    TooSlowError: _file("one that took longer than that to decode"),
    CrashedError: _file("one on which the decoder failed"),
    OutOfMemoryError: _file("one that needs more memory than is allowed"),
}
"""What each mishap means for an upload."""
RENDER: dict[type[MishapError], Judge] = _COMMON | {
    TooSlowError: _busy("the picture took too long to make"),
    CrashedError: _busy("the picture could not be made"),
    OutOfMemoryError: _busy("the picture needs more memory than is allowed"),
}
"""What each mishap means for a render."""


@contextmanager
def judged(verdicts: dict[type[MishapError], Judge]) -> Iterator[None]:
    """Turn a mishap into the error of the contract, whose cause it is."""
    try:
        yield
    except MishapError as mishap:
        raise verdicts[type(mishap)](mishap) from mishap
