"""What a header says is understood on the other side, or refused."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import BY_CODE, FieldError, ImageHostError, InternalError, ValidationError
from imagehost_core.formats import Format
from imagehost_core.jobs import IngestJob, IngestResult, RenderJob, RenderResult
from imagehost_core.sandbox.enter import SandboxLimits, SandboxStatus
from imagehost_core.transform.geometry import ORIGIN, Plan, Point, Size
from imagehost_core.workers import messages as wire
from imagehost_core.workers.frames import FrameError
from imagehost_core.workers.main import WorkerArgs

PLAN = Plan(resize=Size(300, 200), crop=Point(3, 0), pad=ORIGIN, output=Size(290, 200))
MESSAGES = [
    wire.TaskRequest(3, "render", wire.to_json([RenderJob(PLAN, Format.WEBP, 80), Format.JPEG])),
    wire.TaskResult(3, wire.ResourceUsage(2**30, 1.5), wire.to_json(RenderResult(Size(1, 2), 3))),
    wire.TaskResult(
        3,
        wire.ResourceUsage(0, 0.0),
        failure=wire.TaskError("VALIDATION_ERROR", faults=(FieldError("a", "b", "c"),)),
    ),
    wire.Ready(SandboxStatus(("landlock",), {"seccomp": "no"})),
    WorkerArgs(["/a", "/b c"], ["/a/x"], "tasks", 17, SandboxLimits(memory_bytes=0, seccomp=False)),
]
PLAIN = [
    IngestJob(Format.GIF, wanted=Format.PNG, quality=3, remove_exif=True, derivative_sides=()),
    IngestJob(Format.JPEG),
    IngestResult(Format.WEBP, Size(4, 5), 6, True, "abc", False, (Size(2, 2), Size(1, 1))),
    RenderJob(PLAN, Format.PNG, None, animated=True),
    RenderResult(Size(7, 8), 1),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_out_as_it_went_in(message: object) -> None:
    assert wire.decode(wire.encode(message), type(message)) == message


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_a_job_and_its_outcome_come_out_as_they_went_in(value: object) -> None:
    assert wire.from_json(wire.to_json(value), type(value)) == value


@given(st.binary(max_size=100))
def test_a_header_that_is_no_message_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError):
        wire.decode(header, wire.TaskResult)


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
def test_a_header_that_is_json_but_no_answer_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError, match="expected"):
        wire.decode(header, wire.TaskResult)


def test_a_value_that_its_class_refuses_is_refused() -> None:
    with pytest.raises(FrameError):
        wire.from_json(wire.to_json({"size": {"width": 0, "height": 1}, "frames": 1}), RenderResult)


@pytest.mark.parametrize("kind", BY_CODE.values(), ids=lambda kind: kind.code)
def test_every_error_of_the_contract_crosses(kind: type[ImageHostError]) -> None:
    timed: dict[str, Any] = {"retry_after": 42} if "retry_after" in signature(kind).parameters else {}
    error = kind("because", **timed)
    crossed = wire.to_exception(wire.decode(wire.encode(wire.from_exception(error)), wire.TaskError))
    assert type(crossed) is kind
    assert (crossed.message, crossed.details, crossed.errors) == (error.message, error.details, error.errors)
    assert getattr(crossed, "retry_after", None) == getattr(error, "retry_after", None)
    assert crossed.__cause__ is None


def test_the_faults_and_the_message_of_an_error_cross() -> None:
    error = ValidationError(
        message="Look again", errors=[FieldError("a", "b", "c"), FieldError("d", "e", "f")]
    )
    crossed = wire.to_exception(wire.decode(wire.encode(wire.from_exception(error)), wire.TaskError))
    assert (crossed.message, crossed.details, crossed.errors) == ("Look again", error.details, error.errors)


def test_an_error_that_nobody_raised_on_purpose_shows_its_traceback_to_the_log_alone() -> None:
    try:
        raise LookupError("a secret of the server")
    except LookupError as error:
        crossed = wire.to_exception(wire.from_exception(error))
    assert type(crossed) is InternalError
    assert "secret" not in crossed.message + crossed.details + str(crossed)
    assert "a secret of the server" in str(crossed.__cause__)


def test_a_traceback_crosses_with_its_end_where_it_is_long() -> None:
    failed = wire.from_exception(LookupError("x" * 10**6 + "end"))
    assert len(failed.trace) == wire.TRACE_CHARACTERS
    assert failed.trace.endswith("end\n")


def test_an_error_with_an_unknown_code_is_refused() -> None:
    with pytest.raises(FrameError, match="expected the code of an error"):
        wire.to_exception(wire.TaskError("EVERYTHING_IS_FINE"))
