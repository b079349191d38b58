"""Tests of messages: they are decoded as they were encoded, and invalid ones are rejected."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import BY_CODE, FieldError, ImageHostError, InternalError, ValidationError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, IngestResult, RenderJob, RenderResult
from imagehost_core.sandbox import SandboxLimits, SandboxStatus
from imagehost_core.transform import ORIGIN, Plan, Point, Size
from imagehost_core.workers import messages
from imagehost_core.workers.frames import FrameError

PLAN = Plan(resize=Size(300, 200), crop=Point(3, 0), pad=ORIGIN, output=Size(290, 200))
MESSAGES = [
    messages.TaskRequest(3, "render", messages.to_json([RenderJob(PLAN, Format.WEBP, 80), Format.JPEG])),
    messages.TaskResult(3, messages.ResourceUsage(2**30, 1.5), messages.to_json(RenderResult(Size(1, 2), 3))),
    messages.TaskResult(
        3,
        messages.ResourceUsage(0, 0.0),
        error=messages.TaskError("VALIDATION_ERROR", errors=(FieldError("a", "b", "c"),)),
    ),
    messages.Ready(SandboxStatus(("landlock",), {"seccomp": "no"})),
    messages.WorkerArgs(["/a", "/b c"], "tasks", 17, 10, SandboxLimits(seccomp=False)),
]
JOBS_AND_RESULTS = [
    IngestJob(Format.GIF, requested_format=Format.PNG, quality=3, remove_exif=True, derivative_sides=()),
    IngestJob(Format.JPEG),
    IngestResult(Format.WEBP, Size(4, 5), 6, True, "abc", False, (Size(2, 2), Size(1, 1))),
    RenderJob(PLAN, Format.PNG, None, animated=True),
    RenderResult(Size(7, 8), 1),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_decoded_as_it_was_encoded(message: object) -> None:
    assert messages.decode(messages.encode(message), type(message)) == message


@pytest.mark.parametrize("value", JOBS_AND_RESULTS, ids=lambda value: type(value).__name__)
def test_a_job_and_its_result_are_decoded_as_they_were_encoded(value: object) -> None:
    assert messages.from_json(messages.to_json(value), type(value)) == value


@given(st.binary(max_size=100))
def test_a_header_that_is_no_message_is_rejected(header: bytes) -> None:
    with pytest.raises(FrameError):
        messages.decode(header, messages.TaskResult)


@pytest.mark.parametrize(
    "header",
    [
        b"[" * 100_000,
        b"{}",
        b"null",
        b'{"number": "one", "usage": {"peak_bytes": 0, "cpu_seconds": 0}}',
        b'{"number": 1, "usage": {"peak_bytes": 0, "cpu_seconds": 0}, "more": 1}',
        b'{"number": 1, "usage": 5}',
    ],
)
def test_a_header_that_is_json_but_no_task_result_is_rejected(header: bytes) -> None:
    with pytest.raises(FrameError, match="expected"):
        messages.decode(header, messages.TaskResult)


def test_a_value_that_its_class_rejects_is_rejected() -> None:
    with pytest.raises(FrameError):
        messages.from_json(messages.to_json({"size": {"width": 0, "height": 1}, "frames": 1}), RenderResult)


@pytest.mark.parametrize("kind", BY_CODE.values(), ids=lambda kind: kind.code)
def test_every_error_class_is_decoded_as_it_was_encoded(kind: type[ImageHostError]) -> None:
    options: dict[str, Any] = {"retry_after": 42} if "retry_after" in signature(kind).parameters else {}
    error = kind("because", **options)
    decoded = messages.to_exception(
        messages.decode(messages.encode(messages.from_exception(error)), messages.TaskError)
    )
    assert type(decoded) is kind
    assert (decoded.message, decoded.details, decoded.errors) == (error.message, error.details, error.errors)
    assert getattr(decoded, "retry_after", None) == getattr(error, "retry_after", None)
    assert decoded.__cause__ is None


def test_the_field_errors_and_the_message_of_an_error_are_kept() -> None:
    error = ValidationError(
        message="Look again", errors=[FieldError("a", "b", "c"), FieldError("d", "e", "f")]
    )
    decoded = messages.to_exception(
        messages.decode(messages.encode(messages.from_exception(error)), messages.TaskError)
    )
    assert (decoded.message, decoded.details, decoded.errors) == ("Look again", error.details, error.errors)


def test_the_traceback_of_an_unexpected_error_is_only_in_its_cause() -> None:
    try:
        raise LookupError("a secret of the server")
    except LookupError as error:
        decoded = messages.to_exception(messages.from_exception(error))
    assert type(decoded) is InternalError
    assert "secret" not in decoded.message + decoded.details + str(decoded)
    assert "a secret of the server" in str(decoded.__cause__)


def test_a_long_traceback_is_cut_to_its_end() -> None:
    task_error = messages.from_exception(LookupError("x" * 10**6 + "end"))
    assert len(task_error.traceback) == messages.MAX_TRACEBACK_CHARS
    assert task_error.traceback.endswith("end\n")


def test_an_error_with_an_unknown_code_is_rejected() -> None:
    with pytest.raises(FrameError, match="expected the code of an error"):
        messages.to_exception(messages.TaskError("EVERYTHING_IS_FINE"))
