"""OpenTelemetry spans: one for each attempt, in programs that have imported the OpenTelemetry API.

Names and attributes follow the semantic conventions for HTTP clients
(https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-client-span). This module does not
import OpenTelemetry unless the program has, which it must do to configure an exporter.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from imagehost_client._config import __version__
from imagehost_client._exchange import Failure, Reply, Send
from imagehost_client._redact import redact_url

if TYPE_CHECKING:
    from opentelemetry.trace import Span

API = "opentelemetry.trace"
REDACTED = "REDACTED"
"""The replacement of secrets in `url.full`, as the conventions require."""
PORTS = {"http": 80, "https": 443}


class NullSpan:
    """A span that records nothing.

    Attributes:
        headers: Headers that propagate the trace context to the host.
    """

    headers: Mapping[str, str] = {}

    def finish(self, outcome: Reply | Failure) -> Reply | Failure:
        """Record the outcome of the attempt, and return it."""
        return outcome


class RequestSpan(NullSpan):
    """An OpenTelemetry span of one attempt."""

    def __init__(self, span: Span) -> None:
        from opentelemetry import propagate

        self._span = span
        self.headers = {}
        propagate.inject(self.headers)

    def finish(self, outcome: Reply | Failure) -> Reply | Failure:
        """Record the outcome of the attempt, and return it."""
        if isinstance(outcome, Failure):
            self.mark_failed(outcome.exception_name, outcome.text)
        else:
            self._span.set_attribute("http.response.status_code", outcome.status)
            if outcome.status >= 400:
                self.mark_failed(str(outcome.status))
        return outcome

    def mark_failed(self, kind: str, text: str | None = None) -> None:
        """Set the span's status to error.

        Args:
            kind: The HTTP status, or the qualified name of an exception's class.
            text: The description, if there is more to say than the kind.
        """
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR, text)


@contextmanager
def span(step: Send, http: object = None) -> Iterator[NullSpan]:
    """Record the attempt in the block as the current span, unless OpenTelemetry's instrumentation does so.

    Args:
        step: The attempt.
        http: The HTTP client that sends it.
    """
    if API not in sys.modules or is_instrumented(http):
        yield NullSpan()
        return
    from opentelemetry.trace import SpanKind, get_tracer

    tracer = get_tracer("imagehost_client", __version__)
    with tracer.start_as_current_span(
        step.method,
        kind=SpanKind.CLIENT,
        attributes=_attributes(step),
        record_exception=False,
        set_status_on_exception=False,
    ) as otel_span:
        request_span = RequestSpan(otel_span)
        try:
            yield request_span
        except BaseException as error:
            request_span.mark_failed(qualified_name(type(error)))
            raise


def is_instrumented(http: object) -> bool:
    """Return whether `opentelemetry-instrumentation-httpx` records the requests of an HTTP client.

    It wraps methods of the transports: those of httpx2 for all clients, or those of one client.
    """
    transport = getattr(http, "_transport", None)
    methods = (getattr(transport, f"handle_{kind}request", None) for kind in ("", "async_"))
    return getattr(http, "_is_instrumented_by_opentelemetry", False) or any(
        hasattr(method, "__wrapped__") for method in methods
    )


def qualified_name(kind: type[BaseException]) -> str:
    """Return the qualified name of an exception's class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _attributes(step: Send) -> dict[str, str | int]:
    parts = urlsplit(step.url)
    attributes: dict[str, str | int] = {
        "http.request.method": step.method,
        "server.address": parts.hostname or "",
        "server.port": parts.port or PORTS[parts.scheme],
        "url.full": redact_url(step.url, hidden=REDACTED),
    }
    if step.resend_count:
        attributes["http.request.resend_count"] = step.resend_count
    return attributes
