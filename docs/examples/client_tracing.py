from contextlib import suppress

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from imagehost_client import Client, NotFoundError

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)

with Client() as client, suppress(NotFoundError):
    client.images.get("0" * 16)

for span in spans.get_finished_spans():
    attributes = span.attributes or {}
    print(span.name, attributes["http.response.status_code"], attributes["error.type"])
# GET 404 404
