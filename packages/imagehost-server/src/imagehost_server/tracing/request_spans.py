"""Spans of requests, by the semantic conventions for HTTP servers.

https://opentelemetry.io/docs/specs/semconv/http/http-spans/#http-server-span. The query, the headers and the
body may contain secrets, so no attribute has them, but for `User-Agent`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from imagehost_server.tracing.api import is_configured, tracer

if TYPE_CHECKING:
    from litestar.types import HTTPScope
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

KNOWN_METHODS = frozenset(
    ("CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "QUERY", "TRACE")
)
"""The methods that the conventions know: RFC 9110, RFC 5789 and QUERY."""
OTHER_METHOD, OTHER_METHOD_NAME = "_OTHER", "HTTP"
"""The attribute and the span's name of all other methods."""
UNTRACED_PATHS = frozenset(("/healthz", "/readyz", "/metrics"))
"""Paths that programs request again and again."""
MAX_TEXT = 1_024
"""The longest value of an attribute that a client chooses, in characters."""
PORTS = {"http": 80, "https": 443}


class RequestSpan:
    """The span of a request; the current span from its creation until `end`.

    Args:
        span: The span of the API.
        context: The context of the trace that the request continues.
        name: The name of the span without the route.
    """

    def __init__(self, span: Span, context: Context, name: str) -> None:
        from opentelemetry.context import attach
        from opentelemetry.trace import set_span_in_context

        self._span, self._name = span, name
        self._token = attach(set_span_in_context(span, context))

    def end(self, route: str | None, status: int, failure: BaseException | None) -> None:
        """End the span.

        Args:
            route: The template of the request's route, if it has one.
            status: The status of the response; 0 = none was sent.
            failure: What has cut off the response.
        """
        from opentelemetry.context import detach
        from opentelemetry.trace import StatusCode

        span = self._span
        if route is not None:
            span.set_attribute("http.route", route)
            span.update_name(f"{self._name} {route}")
        if status:
            span.set_attribute("http.response.status_code", status)
        if failure is not None or status >= 500:
            kind = type(failure)
            error = str(status) if failure is None else f"{kind.__module__}.{kind.__qualname__}"
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR)
        detach(self._token)
        span.end()


class RequestTracer:
    """Starts the spans of requests.

    Args:
        base_url: The public URL of the API, which names the server; `Host` could be forged.
    """

    def __init__(self, base_url: str | None = None) -> None:
        self._server: dict[str, str | int] = {}
        if base_url is not None:
            parts = urlsplit(base_url)
            self._server = {
                "server.address": parts.hostname or "",
                "server.port": parts.port or PORTS[parts.scheme],
            }

    def start(
        self, scope: HTTPScope, *, ip_address: str, over_https: bool, request_id: str
    ) -> RequestSpan | None:
        """Start the span of a request; return `None` for probes, and where no tracer provider is set.

        Args:
            scope: The request, before any layer has changed its path.
            ip_address: The client's IP address.
            over_https: Whether the client has used HTTPS.
            request_id: The request id.
        """
        if not is_configured() or scope["path"] in UNTRACED_PATHS:
            return None
        from opentelemetry.propagate import extract
        from opentelemetry.trace import SpanKind

        headers: dict[str, list[str]] = {}
        for header, value in scope["headers"]:
            headers.setdefault(header.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        method = str(scope["method"])
        is_known = method in KNOWN_METHODS
        attributes: dict[str, str | int] = {
            **self._server,
            "http.request.method": method if is_known else OTHER_METHOD,
            "url.scheme": "https" if over_https else "http",
            "url.path": scope["path"][:MAX_TEXT],
            "client.address": ip_address,
            "network.protocol.version": scope["http_version"],
            "imagehost.request_id": request_id,
        }
        if not is_known:
            attributes["http.request.method_original"] = method[:MAX_TEXT]
        if "user-agent" in headers:
            attributes["user_agent.original"] = headers["user-agent"][0][:MAX_TEXT]
        context = extract(headers)
        name = method if is_known else OTHER_METHOD_NAME
        span = tracer().start_span(name, context, kind=SpanKind.SERVER, attributes=attributes)
        return RequestSpan(span, context, name)
