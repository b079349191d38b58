"""The OpenTelemetry SDK of a server process, where the environment variables ask for traces.

`opentelemetry-instrument` configures only the program that it starts, and `imagehost serve` starts others.
The variables are those of https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/;
those not named here are read by the SDK and its exporters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from threading import Thread
from typing import TYPE_CHECKING, cast

from imagehost_server.tracing.api import is_configured

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
DEFAULT_PROTOCOL = "http/protobuf"
"""The default of the specification of OTLP exporters."""
OTLP_EXPORTERS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
"""The names of the OTLP exporters' entry points, by protocol."""
SHUTDOWN_SECONDS = 3.0
"""How long the end of the process waits for the export of the last spans; the supervisor waits 10 s more."""
SERVICE_NAME = "imagehost-server"
"""The default of `service.name`."""
logger = logging.getLogger("imagehost.server")


def exporter_names(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the exporters that environment variables ask for; empty variables count as unset.

    Args:
        variables: The environment variables.

    Raises:
        ValueError: The protocol of OTLP is unknown.
    """
    default = "otlp" if _first(variables, ENDPOINTS) else "none"
    names = (variables.get("OTEL_TRACES_EXPORTER") or default).split(",")
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return ()
    stripped = (name.strip() for name in names)
    return tuple(
        _otlp_exporter(variables) if name == "otlp" else name for name in stripped if name not in ("", "none")
    )


def configure_sdk(variables: Mapping[str, str]) -> Callable[[], None]:
    """Set a tracer provider with the exporters that environment variables ask for, if they ask for any.

    A server that cannot do so logs a warning and serves without traces. Return a function that exports the
    last spans, within `SHUTDOWN_SECONDS`; it must be called before the process ends.

    Args:
        variables: The environment variables of this process.
    """
    try:
        names = exporter_names(variables)
        if names and not is_configured():
            return partial(_shut_down, _set_provider(names, variables))
    except Exception as error:
        logger.warning(
            "requests are not traced; install imagehost-server[otel] and check the OTEL_* variables",
            extra={"fields": {"error": error}},
        )
    return _do_nothing


def _set_provider(names: tuple[str, ...], variables: Mapping[str, str]) -> TracerProvider:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import set_tracer_provider

    exporters = [_load_exporter(name)() for name in names]
    is_named = variables.get("OTEL_SERVICE_NAME") or "service.name=" in variables.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if is_named else {"service.name": SERVICE_NAME})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    set_tracer_provider(provider)
    return provider


def _shut_down(provider: TracerProvider) -> None:
    """Export the last spans. A receiver that does not respond must not keep the process."""
    thread = Thread(target=provider.shutdown, name="traces", daemon=True)
    thread.start()
    thread.join(SHUTDOWN_SECONDS)


def _do_nothing() -> None:
    """Do nothing: without a provider there are no spans."""


def _load_exporter(name: str) -> Callable[[], SpanExporter]:
    found = tuple(entry_points(group="opentelemetry_traces_exporter", name=name))
    if not found:
        raise LookupError(f"expected an installed exporter of traces but received {name}")
    return cast("Callable[[], SpanExporter]", found[0].load())


def _otlp_exporter(variables: Mapping[str, str]) -> str:
    protocol = _first(variables, PROTOCOLS) or DEFAULT_PROTOCOL
    if protocol not in OTLP_EXPORTERS:
        raise ValueError(f"expected a protocol of {', '.join(OTLP_EXPORTERS)} but received {protocol}")
    return OTLP_EXPORTERS[protocol]


def _first(variables: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((variables[name] for name in names if variables.get(name)), "")
