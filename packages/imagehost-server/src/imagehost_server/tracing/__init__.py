"""OpenTelemetry traces: spans of requests, where the program has set a tracer provider.

OpenTelemetry is not imported unless the program has, which it must do to set a provider; `configure_sdk` does
it for `imagehost serve`.
"""

from imagehost_server.tracing.api import is_configured, log_fields
from imagehost_server.tracing.measurements import trace_measurement
from imagehost_server.tracing.request_spans import RequestSpan, RequestTracer
from imagehost_server.tracing.sdk import configure_sdk, exporter_names

__all__ = [
    "RequestSpan",
    "RequestTracer",
    "configure_sdk",
    "exporter_names",
    "is_configured",
    "log_fields",
    "trace_measurement",
]
