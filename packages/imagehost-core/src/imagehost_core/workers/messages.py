"""What the headers of frames say: the order that a worker gets, and the answers that it gives."""

from __future__ import annotations

import json
import traceback
from typing import NewType, TypeVar

from attrs import frozen
from cattrs import BaseValidationError
from cattrs.preconf.json import make_converter

from imagehost_core.errors import BY_CODE, FieldError, ImageHostError, InternalError
from imagehost_core.sandbox.enter import SandboxStatus
from imagehost_core.workers.frames import FrameError

OUT_OF_MEMORY = "OUT_OF_MEMORY"
"""The code of a task that met the cage's limit of memory; no request is answered with it."""
TRACE_CHARACTERS = 16_000
"""How much of a traceback crosses, from its end."""
TEXT_CHARACTERS = 4_000
"""How much of an error's message and details crosses."""

Json = NewType("Json", object)
"""A value that JSON can say; what it should be is looked at later, by `read`."""

T = TypeVar("T")

_converter = make_converter(forbid_extra_keys=True)
_converter.register_structure_hook(Json, lambda value, _kind: value)


class WorkerTaskError(Exception):
    """What a worker stumbled over, for the log: the traceback that it sent, or its last words."""


@frozen
class TaskRequest:
    """What a worker is asked to do with the one blob of the frame.

    Attributes:
        number: Counts the orders to this worker; the answer repeats it.
        task: A name of the table of tasks.
        arguments: What the task gets before the blob, as JSON.
    """

    number: int
    task: str
    arguments: Json


@frozen
class TaskError:
    """An error on its way to the pool.

    Attributes:
        code: A code of `imagehost_core.errors.BY_CODE`, or `OUT_OF_MEMORY`.
        message: The short text.
        details: The longer explanation.
        faults: The single faults.
        retry_after: Whole seconds, where the error has them.
        trace: The traceback of an error that nobody raised on purpose.
    """

    code: str
    message: str = ""
    details: str = ""
    faults: tuple[FieldError, ...] = ()
    retry_after: int | None = None
    trace: str = ""


@frozen
class ResourceUsage:
    """What a worker has used since it was started.

    Attributes:
        peak_bytes: The most memory that it ever held, in bytes; 0 where the system does not say.
        cpu_seconds: The processor time of all its threads, in seconds.
    """

    peak_bytes: int
    cpu_seconds: float


@frozen
class TaskResult:
    """What came of an order: an outcome and the frame's blobs, or a failure and no blobs."""

    number: int
    usage: ResourceUsage
    outcome: Json = Json(None)
    failure: TaskError | None = None


@frozen
class Ready:
    """The first thing that a worker says, once it is warm and its cage is closed."""

    sandbox: SandboxStatus


def encode(message: object) -> bytes:
    """Return a message, an attrs object, as a frame's header."""
    return json.dumps(_converter.unstructure(message), separators=(",", ":")).encode()


def decode(header: bytes, kind: type[T]) -> T:
    """Return a frame's header as the message that it should be.

    Raises:
        FrameError: It is something else.
    """
    try:
        value = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"expected JSON for a header but received {header[:60]!r}") from error
    return from_json(value, kind)


def to_json(value: object) -> Json:
    """Return `value`, an attrs object or something that holds some, as JSON."""
    return Json(_converter.unstructure(value))


def from_json(value: Json, kind: type[T]) -> T:
    """Return JSON as an object of the kind that it should be.

    Raises:
        FrameError: It is something else.
    """
    try:
        return _converter.structure(value, kind)
    except (BaseValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        shown = json.dumps(value)[:60]
        raise FrameError(f"expected {kind.__name__} for a message but received {shown}") from error


def from_exception(error: BaseException) -> TaskError:
    """Return an error as it crosses to the pool; what nobody raised on purpose becomes our own fault."""
    if isinstance(error, MemoryError):
        return TaskError(code=OUT_OF_MEMORY)
    if not isinstance(error, ImageHostError):
        return TaskError(
            code=InternalError.code, trace="".join(traceback.format_exception(error))[-TRACE_CHARACTERS:]
        )
    return TaskError(
        code=error.code,
        message=error.message[:TEXT_CHARACTERS],
        details=error.details[:TEXT_CHARACTERS],
        faults=error.errors[:16],
        retry_after=getattr(error, "retry_after", None),
    )


def to_exception(failed: TaskError) -> ImageHostError:
    """Return the error that a worker raised; its traceback, if one crossed, is the cause.

    Raises:
        FrameError: There is no error of that code.
    """
    kind = BY_CODE.get(failed.code)
    if kind is None:
        raise FrameError(f"expected the code of an error but received {failed.code[:60]!r}")
    error = kind.__new__(kind)
    ImageHostError.__init__(error, failed.details, message=failed.message or None, errors=failed.faults)
    if failed.retry_after is not None:
        error.__dict__["retry_after"] = failed.retry_after
    if failed.trace:
        error.__cause__ = WorkerTaskError(failed.trace)
    return error
