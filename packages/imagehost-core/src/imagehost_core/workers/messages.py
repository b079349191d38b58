"""The messages between the pool and a worker process, encoded as JSON in the headers of frames."""

from __future__ import annotations

import json
import traceback
from typing import NewType, TypeVar

from attrs import frozen
from cattrs import BaseValidationError
from cattrs.preconf.json import make_converter

from imagehost_core.errors import BY_CODE, FieldError, ImageHostError, InternalError
from imagehost_core.sandbox import SandboxLimits, SandboxStatus
from imagehost_core.workers.frames import FrameError

OUT_OF_MEMORY = "OUT_OF_MEMORY"
"""The error code of a task that reached the memory limit of the sandbox; it is never sent to clients."""
MAX_TRACEBACK_CHARS = 16_000
"""The most characters of a traceback that are sent, from its end."""
MAX_TEXT_CHARS = 4_000
"""The most characters of an error's message and of its details that are sent."""
MAX_FIELD_ERRORS = 16
"""The most field errors that are sent."""

Json = NewType("Json", object)
"""A JSON value whose type is checked later, by `from_json`."""

T = TypeVar("T")

_converter = make_converter(forbid_extra_keys=True)
_converter.register_structure_hook(Json, lambda value, _kind: value)


class WorkerTaskError(Exception):
    """An unexpected error in a worker process, for the log: its traceback."""


@frozen
class WorkerArgs:
    """The configuration of a worker process, passed as JSON in its first argument.

    Attributes:
        path: `sys.path` of the parent: the worker process can import the same modules.
        tasks: Dotted name of the task table's module.
        parent: Process ID of the parent.
        niceness: How much lower than the parent's the CPU priority is, 0 to 19.
        limits: Limits of the sandbox.
    """

    path: list[str]
    tasks: str
    parent: int
    niceness: int
    limits: SandboxLimits


@frozen
class TaskRequest:
    """A request to run a task on the one blob of the frame.

    Attributes:
        number: Sequence number of the request; the result repeats it.
        task: Name in the task table.
        arguments: The arguments before the blob.
    """

    number: int
    task: str
    arguments: Json


@frozen
class TaskError:
    """An error raised by a task.

    Attributes:
        code: A code of `imagehost_core.errors.BY_CODE`, or `OUT_OF_MEMORY`.
        message: The error's short text.
        details: The error's long text.
        errors: The error's field errors.
        retry_after: Whole seconds, if the error has them.
        traceback: The traceback of an unexpected error.
    """

    code: str
    message: str = ""
    details: str = ""
    errors: tuple[FieldError, ...] = ()
    retry_after: int | None = None
    traceback: str = ""


@frozen
class ResourceUsage:
    """The resources that a worker process has used since its start.

    Attributes:
        peak_bytes: Peak resident memory, in bytes; 0 if the system does not report it.
        cpu_seconds: CPU time of all threads, in seconds.
    """

    peak_bytes: int
    cpu_seconds: float


@frozen
class TaskResult:
    """The result of a task: a value and the frame's blobs, or an error and no blobs."""

    number: int
    usage: ResourceUsage
    value: Json = Json(None)
    error: TaskError | None = None


@frozen
class Ready:
    """The first message of a worker process, sent when it has entered the sandbox."""

    sandbox: SandboxStatus


def encode(message: object) -> bytes:
    """Return a message, an attrs object, as the header of a frame."""
    return json.dumps(_converter.unstructure(message), separators=(",", ":")).encode()


def decode(header: bytes, kind: type[T]) -> T:
    """Return the header of a frame as a message of type `kind`.

    Raises:
        FrameError: The header is not such a message.
    """
    try:
        value = json.loads(header)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"expected JSON for a header but received {header[:60]!r}") from error
    return from_json(value, kind)


def to_json(value: object) -> Json:
    """Return `value`, an attrs object or a collection of them, as JSON."""
    return Json(_converter.unstructure(value))


def from_json(value: Json, kind: type[T]) -> T:
    """Return JSON as an object of type `kind`.

    Raises:
        FrameError: The value does not have that type.
    """
    try:
        return _converter.structure(value, kind)
    except (BaseValidationError, ValueError, TypeError, KeyError, AttributeError) as error:
        excerpt = json.dumps(value)[:60]
        raise FrameError(f"expected {kind.__name__} for a message but received {excerpt}") from error


def from_exception(error: BaseException) -> TaskError:
    """Return an exception as a message; an unexpected one becomes `InternalError` with its traceback."""
    if isinstance(error, MemoryError):
        return TaskError(code=OUT_OF_MEMORY)
    if not isinstance(error, ImageHostError):
        text = "".join(traceback.format_exception(error))
        return TaskError(code=InternalError.code, traceback=text[-MAX_TRACEBACK_CHARS:])
    return TaskError(
        code=error.code,
        message=error.message[:MAX_TEXT_CHARS],
        details=error.details[:MAX_TEXT_CHARS],
        errors=error.errors[:MAX_FIELD_ERRORS],
        retry_after=error.retry_after,
    )


def to_exception(task_error: TaskError) -> ImageHostError:
    """Return the exception that a task raised; a traceback becomes its cause.

    Raises:
        FrameError: The error code is unknown.
    """
    kind = BY_CODE.get(task_error.code)
    if kind is None:
        raise FrameError(f"expected the code of an error but received {task_error.code[:60]!r}")
    error = kind.__new__(kind)
    ImageHostError.__init__(
        error,
        task_error.details,
        message=task_error.message or None,
        errors=task_error.errors,
        retry_after=task_error.retry_after,
    )
    if task_error.traceback:
        error.__cause__ = WorkerTaskError(task_error.traceback)
    return error
