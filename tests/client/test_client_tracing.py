"""OpenTelemetry spans: one for each attempt, and none in programs without OpenTelemetry."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import httpx2
import pytest
from opentelemetry import trace
from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from tests.client.conftest import (
    Behaviour,
    Caller,
    FaultyServer,
    drop_without_response,
    http,
    stall,
    without_delays,
)
from tests.spans import recording

from imagehost_client import APIConnectionError, APITimeoutError, AsyncClient, Client, NotFoundError
from imagehost_client._exchange import Send
from imagehost_client._tracing import span
from imagehost_client.testing import FakeImageHost, make_png

EXPORTER = InMemorySpanExporter()


@pytest.fixture(scope="module", autouse=True)
def _provider() -> Iterator[None]:
    with recording(EXPORTER):
        yield


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    EXPORTER.clear()
    yield
    EXPORTER.clear()


def spans() -> list[ReadableSpan]:
    return [one for one in EXPORTER.get_finished_spans() if one.kind is SpanKind.CLIENT]


def attributes_of(finished: ReadableSpan) -> dict[str, Any]:
    return dict(finished.attributes or {})


def test_a_call_has_a_span_according_to_the_conventions(call: Caller, host: FakeImageHost) -> None:
    call(lambda client: client.albums.create("A"))
    (finished,) = spans()
    assert (finished.name, finished.kind) == ("POST", SpanKind.CLIENT)
    assert attributes_of(finished) == {
        "http.request.method": "POST",
        "server.address": "imagehost.test",
        "server.port": 443,
        "url.full": "https://imagehost.test/v1/albums",
        "http.response.status_code": 201,
    }
    assert finished.status.status_code is StatusCode.UNSET
    assert finished.instrumentation_scope is not None
    assert finished.instrumentation_scope.name == "imagehost_client"


def test_each_attempt_has_a_span_with_its_resend_count(call: Caller, host: FakeImageHost) -> None:
    host.fail(503)
    host.drop()
    call(lambda client: client.account())
    first, second, third = spans()
    assert [attributes_of(one).get("http.request.resend_count") for one in spans()] == [None, 1, 2]
    assert (attributes_of(first)["error.type"], attributes_of(first)["http.response.status_code"]) == (
        "503",
        503,
    )
    assert attributes_of(second)["error.type"] == "httpx2.ConnectError"
    assert "http.response.status_code" not in attributes_of(second)
    assert [one.status.status_code for one in (first, second)] == [StatusCode.ERROR] * 2
    assert third.status.status_code is StatusCode.UNSET


def test_an_error_of_the_host_is_an_error_of_the_span(call: Caller) -> None:
    with pytest.raises(NotFoundError):
        call(lambda client: client.albums.get(7))
    assert attributes_of(spans()[0])["error.type"] == "404"
    assert spans()[0].status.status_code is StatusCode.ERROR


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_connection_error_has_its_type_and_port(kind: str) -> None:
    def assert_failure(
        server: FaultyServer, expected: type[Exception], fault: Behaviour, name: str, **options: Any
    ) -> None:
        server.plan.append(fault)
        caller = Caller(
            lambda: Client(server.url, "t", max_retries=0, **options),
            (lambda: AsyncClient(server.url, "t", max_retries=0, **options)) if kind == "async" else None,
        )
        EXPORTER.clear()
        with pytest.raises(expected):
            caller(lambda client: client.with_options(max_retries=0).account())
        (finished,) = spans()
        assert attributes_of(finished)["error.type"] == name
        assert attributes_of(finished)["server.port"] == int(server.url.split(":")[2].removesuffix("/v1"))

    with FaultyServer(lambda _: http(500)) as server:
        assert_failure(server, APIConnectionError, drop_without_response, "httpx2.RemoteProtocolError")
        assert_failure(server, APITimeoutError, stall, "httpx2.ReadTimeout", timeout=0.2)


def test_an_exception_during_an_upload_is_an_error_of_the_span(call: Caller) -> None:
    class StopError(Exception):
        pass

    def stop(sent: int, total: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        call(lambda client: client.upload(make_png(), progress=stop))
    assert attributes_of(spans()[0])["error.type"].endswith("StopError")
    assert spans()[0].events == ()


def test_a_span_has_its_parent_and_is_propagated_to_the_host(host: FakeImageHost) -> None:
    class RecordingTransport(httpx2.BaseTransport):
        received: list[str]

        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            self.received = [request.headers["traceparent"], request.headers["authorization"]]
            return host.handle_request(request)

    transport = RecordingTransport()
    with (
        without_delays(Client(host.base_url, host.accounts["admin"], transport=transport)) as client,
        trace.get_tracer("test").start_as_current_span("around") as around,
    ):
        client.account()
    finished = spans()[0]
    assert finished.parent is not None
    assert finished.context is not None
    assert finished.parent.span_id == around.get_span_context().span_id
    assert transport.received[0].split("-")[1:3] == [
        format_trace_id(finished.context.trace_id),
        format_span_id(finished.context.span_id),
    ]


def test_no_span_contains_a_token_a_signature_or_a_password() -> None:
    url = "https://u:pw@h/v1/img/a?w=3&sig=abc&token=def"
    with span(Send("GET", url, {"Authorization": "Bearer t"}, None, None)):
        pass
    assert attributes_of(spans()[0])["url.full"] == "https://h/v1/img/a?w=3&sig=REDACTED&token=REDACTED"
    assert "Bearer" not in spans()[0].to_json()


def test_a_program_without_opentelemetry_does_not_import_it() -> None:
    code = """
import sys
import httpx2
from imagehost_client import Client
answer = httpx2.MockTransport(lambda _: httpx2.Response(200, json={"success": True, "data": {}}))
with Client("https://h/v1", "t", transport=answer) as client:
    client.request("POST", "/upload")
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == "[]\n"


@pytest.fixture(params=["all clients", "one client"])
def instrument(request: pytest.FixtureRequest) -> Iterator[Callable[[Any], None]]:
    """A function that lets OpenTelemetry's instrumentation record the requests of an HTTP client."""
    instrumentor = HTTPX2ClientInstrumentor()
    if request.param == "all clients":
        instrumentor.instrument()
        yield lambda _: None
        instrumentor.uninstrument()
    else:
        yield HTTPX2ClientInstrumentor.instrument_client


def test_requests_that_the_instrumentation_of_httpx2_records_have_no_second_span(
    instrument: Callable[[Any], None],
) -> None:
    envelope = json.dumps({"success": True, "data": {}}).encode()
    with FaultyServer(lambda _: http(200, envelope)) as server:
        with httpx2.Client() as transport:
            instrument(transport)
            with Client(server.url, http_client=transport) as client:
                client.request("GET", "/a")
        assert [finished.name for finished in spans()] == ["GET"]
        assert "traceparent" in server.requests[0].headers

        async def asynchronous() -> None:
            async with httpx2.AsyncClient() as transport:
                instrument(transport)
                async with AsyncClient(server.url, http_client=transport) as client:
                    await client.request("GET", "/b")

        EXPORTER.clear()
        anyio.run(asynchronous)
        assert [finished.name for finished in spans()] == ["GET"]
        EXPORTER.clear()
    host = FakeImageHost()
    host.client().account()
    assert len(spans()) == 1
