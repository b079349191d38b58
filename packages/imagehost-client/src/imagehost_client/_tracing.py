"""Spans of OpenTelemetry: one for each request that is sent, for programs that have loaded its API.

Names and attributes are those of the semantic conventions for HTTP clients
(https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-client-span). Nothing is imported here
for its sake: a program that wants spans has loaded the API itself, to say where they are to go, and for
all others a look at the loaded modules is all that this costs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from imagehost_client._exchange import Failure, Reply, Send
from imagehost_client._redact import redact_url
from imagehost_client._version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span

API = "opentelemetry.trace"
REDACTED = "REDACTED"
"""What stands for a secret in `url.full`, as the conventions ask."""
PORTS = {"http": 80, "https": 443}


class NullSpan:
    """A request that nobody watches.

    Attributes:
        headers: What is sent along, so that the host's spans become children of this one.
    """

    headers: Mapping[str, str] = {}

    def finish(self, outcome: Reply | Failure) -> Reply | Failure:
        """Take note of what came of it, and return that."""
        return outcome


class RequestSpan(NullSpan):
    """A request with a span."""

    def __init__(self, span: Span) -> None:
        from opentelemetry import propagate

        self._span = span
        self.headers = {}
        propagate.inject(self.headers)

    def finish(self, outcome: Reply | Failure) -> Reply | Failure:
        """Take note of what came of it, and return that."""
        if isinstance(outcome, Failure):
            self.mark_failed(outcome.exception_name, outcome.text)
        else:
            self._span.set_attribute("http.response.status_code", outcome.status)
            if outcome.status >= 400:
                self.mark_failed(str(outcome.status))
        return outcome

    def mark_failed(self, kind: str, text: str | None = None) -> None:
        """Mark the span as that of an error.

        Args:
            kind: The status, or the full name of an exception.
            text: What happened, where the kind does not say it.
        """
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("error.type", kind)
        self._span.set_status(StatusCode.ERROR, text)


@contextmanager
def span(step: Send) -> Iterator[NullSpan]:
    """Watch a request that is sent within the block; a span is current there."""
    if API not in sys.modules:
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
    ) as opened:
        watched = RequestSpan(opened)
        try:
            yield watched
        except BaseException as error:
            watched.mark_failed(qualified(type(error)))
            raise


def qualified(kind: type[BaseException]) -> str:
    """Return the full name of an exception's class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _attributes(step: Send) -> dict[str, str | int]:
    parts = urlsplit(step.url)
    attributes: dict[str, str | int] = {
        "http.request.method": step.method,
        "server.address": parts.hostname or "",
        "server.port": parts.port or PORTS[parts.scheme],
        "url.full": redact_url(step.url, hidden=REDACTED),
    }
    if step.resends:
        attributes["http.request.resend_count"] = step.resends
    return attributes
