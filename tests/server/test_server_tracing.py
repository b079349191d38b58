"""OpenTelemetry traces of the server: a span of each request."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.spans import AwaitedSpans, recording
from tests.waiting import PATIENCE, wait_until

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.logging_config import FORMATTERS
from imagehost_server.middleware.requests import RequestMiddleware
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import running
from imagehost_server.tracing import configure, instrument, is_configured

EXPORTER = AwaitedSpans()
SETTINGS = ServerSettings(base_url="https://images.example/v1", trusted_proxies=("127.0.0.1",))
PROXIED = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https", "User-Agent": "probe/1"}
TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01", "tracestate": "vendor=opaque"}


@pytest.fixture(scope="module", autouse=True)
def _provider() -> Iterator[None]:
    with recording(EXPORTER):
        yield


@pytest.fixture(autouse=True)
def _fresh() -> None:
    EXPORTER.clear()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> ImageHost:
    path = tmp_path_factory.mktemp("tracing") / "data"
    return open_host(path, settings=SETTINGS)


@pytest.fixture(scope="module")
def token(host: ImageHost) -> str:
    return host.keys.create(owner="admin").token


@pytest.fixture(scope="module")
def client(host: ImageHost, token: str) -> Iterator[httpx2.Client]:
    with (
        serving(host, SETTINGS) as origin,
        httpx2.Client(
            base_url=origin, headers={**PROXIED, "Authorization": f"Bearer {token}"}, timeout=PATIENCE
        ) as client,
    ):
        yield client


def spans() -> list[ReadableSpan]:
    return list(EXPORTER.get_finished_spans())


def span_of(response: httpx2.Response) -> ReadableSpan:
    """Return the span of a request, once it has ended."""
    request_id = response.headers["x-request-id"]
    return EXPORTER.wait_for(lambda span: attributes_of(span).get("imagehost.request_id") == request_id)


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_request_has_a_span_by_the_conventions(client: httpx2.Client) -> None:
    response = client.get("/v1/images/0000000000000000")
    span = span_of(response)
    assert (span.name, span.parent) == ("GET /v1/images/{image_id}", None)
    attributes = attributes_of(span)
    assert attributes["http.route"] == "/v1/images/{image_id}"
    assert attributes["client.address"] == "192.0.2.7"
    assert attributes["imagehost.request_id"] == response.headers["x-request-id"]
    assert span.status.status_code is StatusCode.UNSET


def test_a_request_continues_the_trace_of_its_client(client: httpx2.Client) -> None:
    span = span_of(client.get("/v1/images", headers=PARENT))
    assert span.parent is not None
    assert span.context is not None
    assert (format_trace_id(span.context.trace_id), format_span_id(span.parent.span_id)) == (
        TRACE_ID,
        PARENT_ID,
    )
    assert span.context.trace_state.to_header() == "vendor=opaque"


def test_a_request_of_a_trace_that_is_not_sampled_has_no_spans(client: httpx2.Client) -> None:
    not_sampled = f"00-{TRACE_ID}-{PARENT_ID}-00"
    client.post("/v1/albums", json={"name": "A"}, headers={"traceparent": not_sampled})
    later = span_of(client.get("/v1/images"))
    assert later.context is not None
    assert {span.context.trace_id for span in spans() if span.context} == {later.context.trace_id}


@pytest.mark.parametrize("parent", ["", "00-0-0-00", f"00-{'0' * 32}-{PARENT_ID}-01", "é" * 5_000])
def test_an_invalid_traceparent_begins_a_new_trace(client: httpx2.Client, parent: str) -> None:
    response = client.get("/v1/images", headers={b"traceparent": parent.encode()})
    assert span_of(response).parent is None


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
def test_probes_have_no_spans(client: httpx2.Client, path: str) -> None:
    client.get(path)
    later = span_of(client.get("/v1/images"))
    assert [span for span in spans() if span.kind is SpanKind.SERVER] == [later]


def test_an_unknown_method_and_path_make_no_new_span_name(client: httpx2.Client) -> None:
    span = span_of(client.request("PURGE", "/coffee"))
    assert span.name == "HTTP"
    assert "http.route" not in attributes_of(span)


def test_no_attribute_has_a_secret_of_the_request(client: httpx2.Client, token: str) -> None:
    secrets = "w=3&exp=1&sig=secret-1&token=secret-2"
    span_of(client.get(f"/img/0000000000000000?{secrets}", headers={"Cookie": "a=secret-3"}))
    span_of(client.post("/v1/session", json={"username": "admin", "password": "secret-4"}))
    span_of(client.get(f"/s/{token}"))
    text = "".join(span.to_json() for span in spans())
    assert "secret" not in text
    assert "?" not in text
    assert token not in text


def raising(error: Exception, *, begins: bool) -> Any:
    """Return an application that raises an error, before or after it has begun a response."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        if begins:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    return app


async def _request(app: Any, method: str = "GET") -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(_message: Any) -> None:
        pass

    scope: Any = {
        "type": "http", "method": method, "path": "/v1/images", "query_string": b"", "scheme": "http",
        "headers": [(b"host", b"h")], "client": ("127.0.0.1", 9), "http_version": "1.1",
    }  # fmt: skip
    await instrument(RequestMiddleware(app))(scope, receive, send)


def test_an_internal_error_is_an_error_of_the_span() -> None:
    asyncio.run(_request(raising(RuntimeError("secret"), begins=False)))
    (span,) = spans()
    assert span.status.status_code is StatusCode.ERROR


def test_a_response_that_is_cut_off_is_an_error_of_the_span() -> None:
    with pytest.raises(KeyError):
        asyncio.run(_request(raising(KeyError("x"), begins=True)))
    (span,) = spans()
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


@contextmanager
def access_log(log_format: str, requests: int = 1) -> Iterator[io.StringIO]:
    """Yield the access log, in a format, of so many requests; the line follows the response."""
    stream = io.StringIO()
    handler, logger = logging.StreamHandler(stream), logging.getLogger("imagehost.access")
    handler.setFormatter(FORMATTERS[log_format]())
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield stream
        wait_until(lambda: stream.getvalue().count("\n") >= requests)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def test_log_lines_have_the_identifiers_of_the_span(client: httpx2.Client) -> None:
    with access_log("json") as log:
        span = span_of(client.get("/v1/images", headers=PARENT))
    members = json.loads(log.getvalue())
    assert span.context is not None
    assert (members["trace_id"], members["span_id"]) == (TRACE_ID, format_span_id(span.context.span_id))
    with access_log("line") as log:
        span_of(client.get("/v1/images", headers=PARENT))
    assert f" trace_id={TRACE_ID} span_id=" in log.getvalue()
    with access_log("line", requests=2) as log:
        client.get("/healthz")
        span_of(client.get("/v1/images"))
    probe, request = log.getvalue().splitlines()
    assert ("trace_id" in probe, "trace_id" in request) == (False, True)


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_SERVICE_NAME": "images"},
        {"OTEL_TRACES_EXPORTER": "none", **ENDPOINT},
        {"OTEL_TRACES_EXPORTER": "", "OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"},
    ],
)
def test_a_process_makes_no_traces_unless_variables_ask_for_them(variables: dict[str, str]) -> None:
    before = dict(variables)
    configure(variables)
    assert variables == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [{"OTEL_TRACES_EXPORTER": "missing"}, {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "pigeon"}],
)
def test_a_server_that_cannot_export_says_so_and_serves(tmp_path: Path, variables: dict[str, str]) -> None:
    with running(tmp_path / "data", variables=variables) as server:
        assert httpx2.get(f"{server.origin}/v1/gallery").status_code == 200
    log = server.log.read_text(encoding="utf-8")
    assert "requests are not traced" in log
    assert "missing" in log or "pigeon" in log


def test_a_provider_of_the_program_is_kept() -> None:
    assert is_configured()
    configure({"OTEL_TRACES_EXPORTER": "missing"})
    assert is_configured()


class Receiver(ThreadingHTTPServer):
    """A receiver of OTLP over HTTP.

    Attributes:
        requests: What it has received.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _ReceiverHandler)
        self.requests: list[ExportTraceServiceRequest] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _ReceiverHandler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_a_server_process_exports_the_spans_of_every_request(tmp_path: Path, receiver: Receiver) -> None:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
    with running(tmp_path / "data", variables=variables) as server, httpx2.Client(timeout=PATIENCE) as client:
        upload = client.post(
            f"{server.base_url}/upload",
            files={"image": ("a.png", make_image(300, 200))},
            headers={"Authorization": f"Bearer {server.token}", **PARENT},
        )
        url = f"{server.origin}/img/{upload.json()['data']['id']}?w=50"
        # The last ones are in memory: the HTTP fast path must not hide them.
        assert [client.get(url).status_code for _ in range(4)] == [200] * 4
    found = [span for request in receiver.requests for resource in request.resource_spans
             for scope in resource.scope_spans for span in scope.spans]  # fmt: skip
    names = [span.name for span in found]
    assert names.count("GET image") == 4
    assert set(names) == {"POST /v1/upload", "GET image"}
    (posted,) = [span for span in found if span.name == "POST /v1/upload"]
    assert (posted.trace_id.hex(), posted.parent_span_id.hex()) == (TRACE_ID, PARENT_ID)
    attributes = {pair.key: pair.value for pair in posted.attributes}
    assert attributes["http.request.method"].string_value == "POST"
    assert attributes["http.response.status_code"].int_value == 200
    resource = {
        pair.key: pair.value.string_value
        for pair in receiver.requests[0].resource_spans[0].resource.attributes
    }
    assert resource["service.name"] == "imagehost-server"
    assert f"trace_id={TRACE_ID}" in server.log.read_text(encoding="utf-8")
