"""The security middleware: requests that are passed on, and requests that are rejected unread."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core.tokens import TokenKind, new_token
from imagehost_server.http.response_body import WHOLE_BYTES
from imagehost_server.middleware.header_checks import is_loopback_client
from imagehost_server.middleware.requests import RequestMiddleware

RawHeaders = list[tuple[bytes, bytes]]
HOST: RawHeaders = [(b"host", b"images.example")]


def scope_of(headers: RawHeaders, client: str = "127.0.0.1", scheme: str = "http") -> dict[str, Any]:
    return {
        "type": "http",
        "method": "GET",
        "path": "/v1/images",
        "query_string": b"sig=secret",
        "headers": headers,
        "client": (client, 9),
        "scheme": scheme,
        "http_version": "1.1",
    }


class Exchange:
    """A request to the middleware.

    Attributes:
        reached_app: Whether the request reached the application.
        sent: The messages of the response.
        middleware: The middleware.
    """

    def __init__(
        self, *trusted: str, status: int = 200, error: BaseException | None = None, **options: Any
    ) -> None:
        self.reached_app = False
        self.sent: list[dict[str, Any]] = []
        self._status = status
        self._error = error
        self.middleware = RequestMiddleware(self._app, trusted_proxies=trusted, **options)

    async def _app(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.reached_app = True
        if self._error and not self._status:
            raise self._error
        await send({"type": "http.response.start", "status": self._status, "headers": []})
        if self._error:
            raise self._error
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def run(self, scope: dict[str, Any]) -> int:
        async def receive() -> Any:
            raise AssertionError("expected no read of the body")

        async def send(message: Any) -> None:
            self.sent.append(message)

        await self.middleware(scope, receive, send)  # type: ignore[arg-type]
        return int(self.sent[0]["status"])

    @property
    def error(self) -> dict[str, str]:
        return dict(msgspec.json.decode(self.sent[1]["body"])["error"])


@pytest.mark.anyio
@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
async def test_plain_http_is_allowed_on_loopback(client: str) -> None:
    assert await Exchange().run(scope_of(HOST, client)) == 200


@pytest.mark.anyio
@pytest.mark.parametrize("client", ["192.0.2.7", "10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "", "unix:"])
async def test_plain_http_from_another_machine_is_403_and_unread(client: str) -> None:
    exchange = Exchange()
    headers = [*HOST, (b"x-forwarded-proto", b"https"), (b"x-forwarded-for", b"127.0.0.1")]
    assert await exchange.run(scope_of(headers, client)) == 403
    assert (exchange.reached_app, exchange.error["code"]) == (False, "FORBIDDEN")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("HEAD", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("HEAD", "/readyz", 200),
        ("POST", "/healthz", 403),
        ("OPTIONS", "/readyz", 403),
        ("GET", "/healthz/", 403),
        ("GET", "/v1/healthz", 403),
        ("GET", "//readyz", 403),
    ],
)
async def test_only_probes_are_allowed_over_plain_http_from_other_machines(
    method: str, path: str, status: int
) -> None:
    assert await Exchange().run(scope_of(HOST, "192.0.2.7") | {"method": method, "path": path}) == status
    forwarded = scope_of([*HOST, (b"x-forwarded-proto", b"http")], "10.1.2.3")
    assert await Exchange("10.0.0.0/8").run(forwarded | {"method": method, "path": path}) == status


@pytest.mark.anyio
async def test_tls_is_allowed_from_everywhere() -> None:
    assert await Exchange().run(scope_of(HOST, "192.0.2.7", "https")) == 200


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("client", "forwarded", "status"),
    [
        ("10.1.2.3", [b"https"], 200),
        ("10.1.2.3", [b"HTTPS"], 200),
        ("::ffff:10.1.2.3", [b"https"], 200),
        ("10.1.2.3", [b"http"], 403),
        ("10.1.2.3", [b"https, http"], 403),
        ("10.1.2.3", [b"https", b"http"], 403),
        ("10.1.2.3", [b""], 403),
        ("10.1.2.3", [], 403),
        ("11.1.2.3", [b"https"], 403),
        ("127.0.0.1", [b"https"], 403),
        ("127.0.0.1", [], 200),
    ],
)
async def test_x_forwarded_proto_counts_from_trusted_proxies_only(
    client: str, forwarded: list[bytes], status: int
) -> None:
    headers = [*HOST, *((b"x-forwarded-proto", value) for value in forwarded)]
    assert await Exchange("10.0.0.0/8").run(scope_of(headers, client)) == status


@pytest.mark.anyio
async def test_a_trusted_proxy_on_loopback_that_forwards_plain_http_is_403() -> None:
    headers = [*HOST, (b"x-forwarded-proto", b"http")]
    assert await Exchange("127.0.0.1").run(scope_of(headers)) == 403
    assert await Exchange("127.0.0.1").run(scope_of(HOST)) == 200


@pytest.mark.anyio
@pytest.mark.parametrize("hosts", [[], [b""], [b"a", b"b"], [b"a", b"a"]])
async def test_http_1_1_requires_exactly_one_host(hosts: list[bytes]) -> None:
    exchange = Exchange()
    assert await exchange.run(scope_of([(b"host", host) for host in hosts])) == 400
    assert (exchange.reached_app, exchange.error["code"]) == (False, "BAD_REQUEST")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("hosts", "status"), [([], 200), ([b""], 200), ([b"a"], 200), ([b"a", b"b"], 400), ([b"", b"a"], 400)]
)
@pytest.mark.parametrize("version", ["1.0", "1"])
async def test_http_1_0_does_not_require_a_host(hosts: list[bytes], status: int, version: str) -> None:
    scope = scope_of([(b"host", host) for host in hosts]) | {"http_version": version}
    assert await Exchange().run(scope) == status


@pytest.mark.anyio
async def test_content_length_with_transfer_encoding_is_400() -> None:
    headers = [*HOST, (b"content-length", b"5"), (b"transfer-encoding", b"chunked")]
    assert await Exchange().run(scope_of(headers)) == 400


@pytest.mark.anyio
async def test_every_response_has_its_own_request_id() -> None:
    ids = []
    for headers in (HOST, HOST, []):
        exchange = Exchange()
        await exchange.run(scope_of(headers))
        ids += [value for name, value in exchange.sent[0]["headers"] if name == b"x-request-id"]
    assert len(set(ids)) == 3


@pytest.mark.anyio
async def test_an_unhandled_exception_is_500_with_its_cause_in_the_log_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exchange = Exchange(status=0, error=OSError("disk on fire"))
    assert await exchange.run(scope_of(HOST)) == 500
    assert exchange.error["code"] == "INTERNAL_ERROR"
    assert b"fire" not in exchange.sent[1]["body"]
    (record,) = [record for record in caplog.records if record.name == "imagehost.server"]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "disk on fire"
    request_id = dict(exchange.sent[0]["headers"])[b"x-request-id"].decode()
    assert record.fields["request_id"] == request_id  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_an_exception_after_the_start_of_a_response_is_reraised() -> None:
    exchange = Exchange(error=OSError("disk on fire"))
    with pytest.raises(OSError, match="disk on fire"):
        await exchange.run(scope_of(HOST))
    assert [message["type"] for message in exchange.sent] == ["http.response.start"]


@pytest.mark.anyio
async def test_the_access_log_has_no_query(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await Exchange().run(scope_of(HOST))
    (record,) = [record for record in caplog.records if record.name == "imagehost.access"]
    fields: dict[str, object] = record.fields  # type: ignore[attr-defined]
    assert (fields["method"], fields["path"], fields["status"]) == ("GET", "/v1/images", 200)
    assert "secret" not in str(fields)


@pytest.mark.anyio
async def test_the_access_log_has_no_token_of_a_share(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    token = new_token(TokenKind.SHARE)
    await Exchange().run(scope_of(HOST) | {"path": f"/s/{token}/images.zip"})
    (record,) = [record for record in caplog.records if record.name == "imagehost.access"]
    path = str(record.fields["path"])  # type: ignore[attr-defined]
    assert token not in path
    assert path.startswith("/s/iha_")
    assert path.endswith("/images.zip")


@pytest.mark.anyio
async def test_the_access_log_can_be_turned_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    exchange = Exchange(log_access=False)
    await exchange.run(scope_of(HOST))
    assert caplog.records == []


FORWARDING = [
    b"forwarded", b"via", b"x-forwarded-proto", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-port",
    b"x-forwarded-anything",
]  # fmt: skip


@given(st.ip_addresses(), st.sampled_from(FORWARDING), st.binary(max_size=12))
def test_no_forwarding_header_makes_plain_http_acceptable(
    ip_address: object, name: bytes, value: bytes
) -> None:
    """Such a header says that the request is another machine's, also if its peer is on loopback."""
    exchange = Exchange("203.0.113.9")
    assert anyio.run(exchange.run, scope_of([*HOST, (name, value)], str(ip_address))) == 403
    assert not exchange.reached_app


@pytest.mark.anyio
async def test_a_trusted_proxy_on_loopback_is_believed() -> None:
    proxied: RawHeaders = [*HOST, (b"x-forwarded-for", b"192.0.2.7"), (b"via", b"1.1 proxy")]
    https = [*proxied, (b"x-forwarded-proto", b"https")]
    assert await Exchange("127.0.0.1").run(scope_of(https)) == 200
    assert await Exchange("127.0.0.1").run(scope_of(proxied)) == 403
    assert await Exchange("127.0.0.1").run(scope_of([*proxied, (b"x-forwarded-proto", b"http")])) == 403
    assert await Exchange("127.0.0.1").run(scope_of(HOST)) == 200
    assert await Exchange().run(scope_of(https, scheme="https")) == 200


@pytest.mark.anyio
async def test_without_a_trusted_proxy_the_client_is_the_peer() -> None:
    for trusted, ip_address in (((), "198.51.100.1"), (("198.51.100.1",), "192.0.2.7")):
        scope = scope_of([*HOST, (b"x-forwarded-for", b"192.0.2.7")], "198.51.100.1", "https")
        assert await Exchange(*trusted).run(scope) == 200
        assert scope["state"]["ip_address"] == ip_address


@pytest.mark.parametrize(
    ("client", "headers", "expected"),
    [
        ("127.0.0.1", HOST, True),
        ("::1", [*HOST, (b"x-forwarder", b"x"), (b"x-real-ip", b"192.0.2.7")], True),
        ("192.0.2.7", HOST, False),
        *(("127.0.0.1", [(name, b"")], False) for name in FORWARDING),
    ],
)
def test_a_loopback_client_is_a_loopback_peer_without_a_proxy(
    client: str, headers: RawHeaders, expected: bool
) -> None:
    for scheme in ("http", "https"):
        scope: Any = scope_of(headers, client, scheme)
        assert is_loopback_client(scope) is expected


# Headers.


@pytest.mark.anyio
@pytest.mark.parametrize("coding", [b"gzip, chunked", b"chunked, chunked", b"identity", b"chunked;x=1", b""])
async def test_transfer_codings_other_than_chunked_are_400(coding: bytes) -> None:
    exchange = Exchange()
    assert await exchange.run(scope_of([*HOST, (b"transfer-encoding", coding)])) == 400
    assert "Transfer-Encoding" in exchange.error["details"]


@pytest.mark.anyio
async def test_headers_have_a_bound_together() -> None:
    exchange = Exchange()
    ambiguous: RawHeaders = [(b"host", b"a"), (b"host", b"b")]
    assert await exchange.run(scope_of([*ambiguous, *[(b"x", b"y" * 999)] * 66])) == 431
    assert exchange.error["code"] == "BAD_REQUEST"
    assert "65536 bytes" in exchange.error["details"]
    assert await Exchange().run(scope_of([*HOST, *[(b"x", b"y" * 999)] * 65])) == 200


@pytest.mark.anyio
async def test_all_header_errors_are_reported_together() -> None:
    exchange = Exchange()
    await exchange.run(scope_of([(b"content-length", b"5"), (b"transfer-encoding", b"chunked")]))
    assert exchange.error["details"].count("expected") == 2


# HSTS.


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("client", "scheme", "forwarded", "has_hsts"),
    [
        ("192.0.2.7", "https", [], True),
        ("10.1.2.3", "http", [b"https"], True),
        ("127.0.0.1", "http", [], False),
        ("127.0.0.1", "http", [b"https"], False),
        ("192.0.2.7", "http", [b"https"], False),
    ],
)
async def test_hsts_is_sent_over_https_only(
    client: str, scheme: str, forwarded: list[bytes], has_hsts: bool
) -> None:
    exchange = Exchange("10.0.0.0/8", hsts_seconds=7)
    await exchange.run(
        scope_of([*HOST, *((b"x-forwarded-proto", value) for value in forwarded)], client, scheme)
    )
    values = [value for name, value in exchange.sent[0]["headers"] if name == b"strict-transport-security"]
    assert values == ([b"max-age=7"] if has_hsts else [])


# Unread bodies.


class BodyChunks:
    """A `receive` callable that delivers chunks, and then ends or waits forever."""

    def __init__(self, *chunks: bytes, ends: bool = True) -> None:
        self.unread = [*chunks]
        self._ends = ends

    async def __call__(self) -> Any:
        if not self.unread and not self._ends:
            await anyio.sleep_forever()
        chunk = self.unread.pop(0) if self.unread else b""
        return {"type": "http.request", "body": chunk, "more_body": bool(self.unread) or not self._ends}


async def closes_connection(
    headers: RawHeaders,
    body: BodyChunks,
    client: str = "127.0.0.1",
    version: str = "1.1",
    **options: Any,
) -> bool:
    """Send a request to an application that does not read the body; return whether the connection closes."""
    exchange, sent = Exchange(**options), []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {**scope_of([*HOST, *headers], client), "http_version": version}
    await exchange.middleware(scope, body, send)  # type: ignore[arg-type]
    return (b"connection", b"close") in sent[0]["headers"]


@pytest.mark.anyio
async def test_a_small_unread_body_is_drained() -> None:
    body = BodyChunks(b"abc", b"de")
    assert not await closes_connection([(b"content-length", b"5")], body)
    assert body.unread == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-length", b"65537")],
        [(b"content-length", b"9" * 30)],
        [(b"transfer-encoding", b"chunked")],
        [(b"content-length", b"5"), (b"expect", b"100-continue")],
    ],
)
async def test_a_large_unread_body_closes_the_connection(headers: RawHeaders) -> None:
    body = BodyChunks(b"abc")
    assert await closes_connection(headers, body)
    assert body.unread == [b"abc"]
    assert not await closes_connection(headers, body, version="2")


@pytest.mark.anyio
async def test_draining_a_body_has_a_timeout() -> None:
    assert await closes_connection(
        [(b"content-length", b"5")], BodyChunks(b"abc", ends=False), drain_timeout=0.05
    )


@pytest.mark.anyio
async def test_a_rejected_body_is_not_drained() -> None:
    body = BodyChunks(b"abc")
    assert await closes_connection([(b"content-length", b"3")], body, client="192.0.2.7")
    assert body.unread == [b"abc"]


# Concurrent requests.


@pytest.mark.anyio
async def test_concurrent_requests_are_limited_per_ip_address() -> None:
    go, statuses = anyio.Event(), []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    middleware = RequestMiddleware(app, max_concurrent_requests_per_client=2, trusted_proxies=["127.0.0.1"])

    async def request(ip_address: str) -> None:
        async def send(message: Any) -> None:
            statuses.append((ip_address, message.get("status"))) if "status" in message else None

        headers = [*HOST, (b"x-forwarded-for", ip_address.encode()), (b"x-forwarded-proto", b"https")]
        await middleware(scope_of(headers), BodyChunks(), send)  # type: ignore[arg-type]

    async with anyio.create_task_group() as tasks:
        for ip_address in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1", "2001:db8::1", "2001:db8::2"):
            tasks.start_soon(request, ip_address)
        await anyio.wait_all_tasks_blocked()
        assert statuses == [("192.0.2.1", 429)]
        await request("2001:db8::3")
        assert statuses[1:] == [("2001:db8::3", 429)]
        go.set()
    await request("192.0.2.1")
    assert [status for _, status in statuses[2:]] == [200] * 6
    assert len(middleware.in_progress) == 0


@pytest.mark.anyio
async def test_probes_do_not_count_as_concurrent_requests() -> None:
    go, statuses = anyio.Event(), []

    async def app(scope: Any, _receive: Any, send: Any) -> None:
        if scope["path"] == "/stalled":
            await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    middleware = RequestMiddleware(app, max_concurrent_requests_per_client=2)

    async def request(path: str, method: str = "GET") -> None:
        async def send(message: Any) -> None:
            statuses.append((path, message["status"])) if "status" in message else None

        scope = {**scope_of(HOST, "127.0.0.1"), "path": path, "method": method}
        await middleware(scope, BodyChunks(), send)  # type: ignore[arg-type]

    async with anyio.create_task_group() as tasks:
        for _ in range(2):
            tasks.start_soon(request, "/stalled")
        await anyio.wait_all_tasks_blocked()
        for path, method in (
            ("/healthz", "GET"),
            ("/readyz", "HEAD"),
            ("/healthz", "POST"),
            ("/v1/images", "GET"),
        ):
            await request(path, method)
        assert [status for _, status in statuses] == [200, 200, 429, 429]
        go.set()


@pytest.mark.anyio
@pytest.mark.parametrize("size", [WHOLE_BYTES, WHOLE_BYTES + 1, 5 * WHOLE_BYTES])
async def test_a_large_body_is_sent_in_pieces(size: int) -> None:
    body, sent = bytes(range(256)) * (size // 256) + b"x" * (size % 256), list[Any]()

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    async def send(message: Any) -> None:
        sent.append(message)

    await RequestMiddleware(app)(scope_of(HOST, "127.0.0.1"), BodyChunks(), send)  # type: ignore[arg-type]
    pieces = sent[1:]
    assert b"".join(piece["body"] for piece in pieces) == body
    assert max(len(piece["body"]) for piece in pieces) <= WHOLE_BYTES
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]


@pytest.mark.anyio
async def test_a_request_that_is_cancelled_at_shutdown_is_503() -> None:
    exchange = Exchange(status=0, error=asyncio.CancelledError())
    assert await exchange.run(scope_of(HOST, "127.0.0.1")) == 503
    assert exchange.error["code"] == "SERVICE_UNAVAILABLE"
    assert "x-request-id" in {name.decode() for name, _ in exchange.sent[0]["headers"]}


@pytest.mark.anyio
async def test_a_partial_response_is_not_completed_at_shutdown() -> None:
    exchange = Exchange(error=asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await exchange.run(scope_of(HOST, "127.0.0.1"))
    assert [message["type"] for message in exchange.sent] == ["http.response.start"]
