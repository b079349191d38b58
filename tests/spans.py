"""A tracer provider for the tests of one module; others in the same process go without one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once
from tests.waiting import PATIENCE


class AwaitedSpans(InMemorySpanExporter):
    """Finished spans in memory, for which a test can wait: the span of a request ends after its response."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with self._changed:
            result = super().export(spans)
            self._changed.notify_all()
        return result

    def wait_for(self, matches: Callable[[ReadableSpan], bool]) -> ReadableSpan:
        """Return the first span that matches, once there is one."""

        def find() -> ReadableSpan | None:
            return next((span for span in self.get_finished_spans() if matches(span)), None)

        with self._changed:
            found = self._changed.wait_for(find, PATIENCE)
        assert found is not None, "expected a span"
        return found


@contextmanager
def recording(exporter: InMemorySpanExporter) -> Iterator[None]:
    """Export the spans of this process in the block.

    The exporter is not shut down: a process that runs a part of a module's tests, and later another part,
    uses it twice.
    """
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    try:
        yield
    finally:
        # A process has only one provider, and the API has no function to remove it.
        trace._TRACER_PROVIDER = None
        trace._TRACER_PROVIDER_SET_ONCE = Once()
