"""Spans of the work within a request, from the measurements of the host.

The host reports what has ended, and how long it took, in the context of the work. So the current span is that
of the request, and the span of the work is created with its start and its end in the past.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import frozen

from imagehost_core import Measurement
from imagehost_core.observer import TaskEnded, TransactionEnded, WorkerAcquired
from imagehost_server.tracing.api import is_configured, tracer


@frozen
class _Work:
    """A piece of work that has ended.

    Attributes:
        name: The name of its span.
        seconds: How long it took.
        attributes: The attributes of its span.
        error: Why it failed, if it did.
    """

    name: str
    seconds: float
    attributes: Mapping[str, str | bool | float]
    error: str | None = None


def trace_measurement(measurement: Measurement) -> None:
    """Record a span for a measurement within a request that is recorded: an observer of the host."""
    describe = _WORK.get(type(measurement))
    if describe is None or not is_configured():
        return
    from opentelemetry.trace import StatusCode, get_current_span

    if not get_current_span().is_recording():
        return
    work = describe(measurement)
    ended = time.time_ns()
    span = tracer().start_span(
        work.name, attributes=work.attributes, start_time=ended - round(work.seconds * 1e9)
    )
    if work.error is not None:
        span.set_attribute("error.type", work.error)
        span.set_status(StatusCode.ERROR)
    span.end(ended)


def _transaction(measured: TransactionEnded) -> _Work:
    attributes = {
        "imagehost.transaction.wait_seconds": measured.waited_seconds,
        "imagehost.transaction.committed": measured.committed,
    }
    return _Work("database transaction", measured.waited_seconds + measured.seconds, attributes)


def _queue(measured: WorkerAcquired) -> _Work:
    error = None if measured.admitted else "rejected"
    return _Work("image queue", measured.waited_seconds, {"imagehost.task.class": measured.job_class}, error)


def _task(measured: TaskEnded) -> _Work:
    attributes = {"imagehost.task.class": measured.job_class, "imagehost.task.format": measured.format}
    error = None if measured.outcome == "ok" else measured.outcome
    return _Work(f"image {measured.task}", measured.seconds, attributes, error)


_WORK = cast(
    "dict[type[Measurement], Callable[[Any], _Work]]",
    {TransactionEnded: _transaction, WorkerAcquired: _queue, TaskEnded: _task},
)
