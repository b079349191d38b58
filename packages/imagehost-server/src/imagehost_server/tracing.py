"""OpenTelemetry traces of requests, made by OpenTelemetry's own ASGI instrumentation where it is installed.

A program that embeds the application sets a tracer provider before `create_app`; `configure` does so in the
processes of `imagehost serve`. Without a provider, nothing of OpenTelemetry is imported and nothing traced.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from threading import Thread
from typing import TYPE_CHECKING, Any

from imagehost_core.tokens import hide_tokens

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Message, Receive, Scope, Send

API = "opentelemetry.trace"
REQUESTED_BY = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""The variables of which one must be set before a server process makes traces."""
DEFAULTS = {
    "OTEL_SERVICE_NAME": "imagehost-server",
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_METRICS_EXPORTER": "none",
    "OTEL_LOGS_EXPORTER": "none",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_SEMCONV_STABILITY_OPT_IN": "http",
}
"""What a server process adds to the variables that are set: metrics and logs have their own ways out."""
EXCLUDED_URLS = "/healthz$,/readyz$,/metrics$"
"""Patterns of URLs that programs request again and again."""
SHUTDOWN_SECONDS = 3.0
"""How long the end of the process waits for the export of the last spans."""
NO_FIELDS: Mapping[str, str] = {}
logger = logging.getLogger("imagehost.server")


def configure(variables: MutableMapping[str, str]) -> Callable[[], None]:
    """Set a tracer provider if environment variables ask for one.

    A server that cannot do so logs a warning and serves without traces. Return a function that exports the
    last spans, within `SHUTDOWN_SECONDS`; it must be called before the process ends.

    Args:
        variables: The environment variables of this process, to which `DEFAULTS` are added.
    """
    exporters = variables.get("OTEL_TRACES_EXPORTER") or DEFAULTS["OTEL_TRACES_EXPORTER"]
    is_disabled = variables.get("OTEL_SDK_DISABLED", "").lower() == "true" or exporters == "none"
    if is_disabled or not any(map(variables.get, REQUESTED_BY)) or is_configured():
        return lambda: None
    for name, value in DEFAULTS.items():
        variables[name] = variables.get(name) or value
    try:
        import opentelemetry.instrumentation.asgi  # noqa: F401 - `instrument` needs it
        from opentelemetry.instrumentation.auto_instrumentation import initialize

        initialize(swallow_exceptions=False)
        if not is_configured():
            raise LookupError("expected the package opentelemetry-distro, or another with a configurator")
    except Exception as error:
        logger.warning(
            "requests are not traced; install imagehost-server[otel] and check the OTEL_* variables",
            extra={"fields": {"error": error}},
        )
    return _export_rest


def is_configured() -> bool:
    """Return whether the program has set a tracer provider, so that spans can be recorded."""
    if API not in sys.modules:
        return False
    from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider, get_tracer_provider

    return not isinstance(get_tracer_provider(), ProxyTracerProvider | NoOpTracerProvider)


def instrument(app: ASGIApp) -> ASGIApp:
    """Return an application that makes a span of each request to another one; itself without a provider."""
    if not is_configured():
        return app
    try:
        from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
        from opentelemetry.util.http import sanitize_method
    except ImportError:
        return app

    def name(scope: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        # The path has too many values to be in a name.
        method = sanitize_method(scope["method"])
        return ("HTTP" if method == "_OTHER" else method), {}

    async def described(scope: Any, receive: Receive, send: Send) -> None:
        original = scope["imagehost.scope"]

        async def send_described(message: Message) -> None:
            # The span ends with the last message.
            if message["type"] == "http.response.start":
                _describe(original, name(scope)[0])
            await send(message)

        await app(original, receive, send_described)

    async def without_query(scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            # The query may contain a signature, and the path the token of a share.
            hidden = {"query_string": b"", "path": hide_tokens(scope["path"])}
            await traced({**scope, **hidden, "imagehost.scope": scope}, receive, send)
        else:
            await app(scope, receive, send)

    traced: Any = OpenTelemetryMiddleware(
        described,
        excluded_urls=EXCLUDED_URLS,
        default_span_details=name,
        exclude_spans=["receive", "send"],
    )
    return without_query


def log_fields() -> Mapping[str, str]:
    """Return `trace_id` and `span_id` of the current span, for log messages; empty without a span."""
    trace = sys.modules.get(API)
    context = None if trace is None else trace.get_current_span().get_span_context()
    if trace is None or context is None or not context.is_valid:
        return NO_FIELDS
    return {
        "trace_id": trace.format_trace_id(context.trace_id),
        "span_id": trace.format_span_id(context.span_id),
    }


def _describe(scope: Scope, name: str) -> None:
    """Add to the current span what only the application knows."""
    from opentelemetry.trace import get_current_span

    state, span = scope["state"], get_current_span()
    span.set_attribute("imagehost.request_id", state["request_id"])
    # That of the scope may be a proxy's.
    span.set_attribute("client.address", state["ip_address"])
    route = state.get("route") or scope.get("path_template")
    if route is not None:
        span.set_attribute("http.route", route)
        span.update_name(f"{name} {route}")


def _export_rest() -> None:
    """Export the last spans. A receiver that does not respond must not keep the process."""
    from opentelemetry.trace import get_tracer_provider

    shut_down = getattr(get_tracer_provider(), "shutdown", None)
    if shut_down is not None:
        thread = Thread(target=shut_down, name="traces", daemon=True)
        thread.start()
        thread.join(SHUTDOWN_SECONDS)
