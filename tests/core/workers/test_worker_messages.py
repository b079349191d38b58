"""What a header says is understood on the other side, or refused."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.errors import BY_CODE, Fault, ImageHostError, InternalError, ValidationError
from imagehost_core.formats import Format
from imagehost_core.jobs import Ingested, IngestJob, Rendered, RenderJob
from imagehost_core.sandbox.enter import CageLimits, CageStatus
from imagehost_core.transform.geometry import ORIGIN, Plan, Point, Size
from imagehost_core.workers import messages as wire
from imagehost_core.workers.frames import FrameError
from imagehost_core.workers.main import Start

PLAN = Plan(resize=Size(300, 200), crop=Point(3, 0), pad=ORIGIN, output=Size(290, 200))
MESSAGES = [
    wire.Order(3, "render", wire.show([RenderJob(PLAN, Format.WEBP, 80), Format.JPEG])),
    wire.Answer(3, wire.Usage(2**30, 1.5), wire.show(Rendered(Size(1, 2), 3))),
    wire.Answer(
        3, wire.Usage(0, 0.0), failure=wire.Failure("VALIDATION_ERROR", faults=(Fault("a", "b", "c"),))
    ),
    wire.Ready(CageStatus(("landlock",), {"seccomp": "no"})),
    Start(["/a", "/b c"], ["/a/x"], "tasks", 17, CageLimits(memory_bytes=0, seccomp=False)),
]
PLAIN = [
    IngestJob(Format.GIF, wanted=Format.PNG, quality=3, remove_exif=True, ladder=()),
    IngestJob(Format.JPEG),
    Ingested(Format.WEBP, Size(4, 5), 6, True, "abc", False, (Size(2, 2), Size(1, 1))),
    RenderJob(PLAN, Format.PNG, None, animated=True),
    Rendered(Size(7, 8), 1),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_comes_out_as_it_went_in(message: object) -> None:
    assert wire.unpack(wire.pack(message), type(message)) == message


@pytest.mark.parametrize("value", PLAIN, ids=lambda value: type(value).__name__)
def test_a_job_and_its_outcome_come_out_as_they_went_in(value: object) -> None:
    assert wire.read(wire.show(value), type(value)) == value


@given(st.binary(max_size=100))
def test_a_header_that_is_no_message_is_refused(header: bytes) -> None:
    with pytest.raises(FrameError):
        wire.unpack(header, wire.Answer)


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
        wire.unpack(header, wire.Answer)


def test_a_value_that_its_class_refuses_is_refused() -> None:
    with pytest.raises(FrameError):
        wire.read(wire.show({"size": {"width": 0, "height": 1}, "frames": 1}), Rendered)


@pytest.mark.parametrize("kind", BY_CODE.values(), ids=lambda kind: kind.code)
def test_every_error_of_the_contract_crosses(kind: type[ImageHostError]) -> None:
    timed: dict[str, Any] = {"retry_after": 42} if "retry_after" in signature(kind).parameters else {}
    error = kind("because", **timed)
    crossed = wire.rebuilt(wire.unpack(wire.pack(wire.failure(error)), wire.Failure))
    assert type(crossed) is kind
    assert (crossed.message, crossed.details, crossed.faults) == (error.message, error.details, error.faults)
    assert getattr(crossed, "retry_after", None) == getattr(error, "retry_after", None)
    assert crossed.__cause__ is None


def test_the_faults_and_the_message_of_an_error_cross() -> None:
    error = ValidationError(message="Look again", faults=[Fault("a", "b", "c"), Fault("d", "e", "f")])
    crossed = wire.rebuilt(wire.unpack(wire.pack(wire.failure(error)), wire.Failure))
    assert (crossed.message, crossed.details, crossed.faults) == ("Look again", error.details, error.faults)


def test_an_error_that_nobody_raised_on_purpose_shows_its_traceback_to_the_log_alone() -> None:
    try:
        raise LookupError("a secret of the server")
    except LookupError as error:
        crossed = wire.rebuilt(wire.failure(error))
    assert type(crossed) is InternalError
    assert "secret" not in crossed.message + crossed.details + str(crossed)
    assert "a secret of the server" in str(crossed.__cause__)


def test_a_traceback_crosses_with_its_end_where_it_is_long() -> None:
    failed = wire.failure(LookupError("x" * 10**6 + "end"))
    assert len(failed.trace) == wire.TRACE_CHARACTERS
    assert failed.trace.endswith("end\n")


def test_an_error_with_an_unknown_code_is_refused() -> None:
    with pytest.raises(FrameError, match="expected the code of an error"):
        wire.rebuilt(wire.Failure("EVERYTHING_IS_FINE"))
