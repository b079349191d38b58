"""The OpenTelemetry API, as far as the program has imported it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

API = "opentelemetry.trace"
NO_FIELDS: Mapping[str, str] = {}


def is_configured() -> bool:
    """Return whether the program has set a tracer provider, so that spans can be recorded."""
    if API not in sys.modules:
        return False
    from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider, get_tracer_provider

    return not isinstance(get_tracer_provider(), ProxyTracerProvider | NoOpTracerProvider)


def tracer() -> Tracer:
    """Return the tracer of this package; only where a tracer provider is set."""
    from opentelemetry.trace import get_tracer

    return get_tracer("imagehost_server", _own_version())


def log_fields() -> Mapping[str, str]:
    """Return `trace_id` and `span_id` of the current span, for log messages; empty without a span."""
    if not is_configured():
        return NO_FIELDS
    from opentelemetry.trace import format_span_id, format_trace_id, get_current_span

    context = get_current_span().get_span_context()
    if not context.is_valid:
        return NO_FIELDS
    return {"trace_id": format_trace_id(context.trace_id), "span_id": format_span_id(context.span_id)}


@cache
def _own_version() -> str:
    return version("imagehost-server")
