"""The guard, asked directly: what is let pass, and what is refused before anything is read."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_server.middleware import unread_body as leftovers
from imagehost_server.middleware.security import SecurityMiddleware

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
    """One request to a guard: what the application saw, and what came back."""

    def __init__(
        self, *trusted: str, status: int = 200, fault: BaseException | None = None, hsts_seconds: int = 0
    ) -> None:
        self.passed = False
        self.sent: list[dict[str, Any]] = []
        self._status = status
        self._fault = fault
        self._guard = SecurityMiddleware(self._app, trusted_proxies=trusted, hsts_seconds=hsts_seconds)

    async def _app(self, _scope: Any, _receive: Any, send: Any) -> None:
        self.passed = True
        if self._fault and not self._status:
            raise self._fault
        await send({"type": "http.response.start", "status": self._status, "headers": []})
        if self._fault:
            raise self._fault
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def ask(self, scope: dict[str, Any]) -> int:
        async def receive() -> Any:
            raise AssertionError("expected that nothing of the body is read")

        async def send(message: Any) -> None:
            self.sent.append(message)

        await self._guard(scope, receive, send)  # type: ignore[arg-type]
        return int(self.sent[0]["status"])

    @property
    def error(self) -> dict[str, str]:
        return dict(msgspec.json.decode(self.sent[1]["body"])["error"])


@pytest.mark.anyio
@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
async def test_plain_http_is_answered_on_loopback(client: str) -> None:
    assert await Exchange().ask(scope_of(HOST, client)) == 200


@pytest.mark.anyio
@pytest.mark.parametrize("client", ["192.0.2.7", "10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "", "unix:"])
async def test_plain_http_from_elsewhere_is_403_and_nothing_is_read(client: str) -> None:
    exchange = Exchange()
    headers = [*HOST, (b"x-forwarded-proto", b"https"), (b"x-forwarded-for", b"127.0.0.1")]
    assert await exchange.ask(scope_of(headers, client)) == 403
    assert (exchange.passed, exchange.error["code"]) == (False, "FORBIDDEN")


@pytest.mark.anyio
async def test_tls_of_our_own_is_answered_from_everywhere() -> None:
    assert await Exchange().ask(scope_of(HOST, "192.0.2.7", "https")) == 200


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("client", "said", "status"),
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
        ("127.0.0.1", [b"http"], 200),
    ],
)
async def test_a_proxy_is_believed_where_it_is_trusted(client: str, said: list[bytes], status: int) -> None:
    headers = [*HOST, *((b"x-forwarded-proto", value) for value in said)]
    assert await Exchange("10.0.0.0/8").ask(scope_of(headers, client)) == status


@pytest.mark.anyio
async def test_a_trusted_proxy_on_loopback_that_says_http_got_a_request_from_outside() -> None:
    headers = [*HOST, (b"x-forwarded-proto", b"http")]
    assert await Exchange("127.0.0.1").ask(scope_of(headers)) == 403
    assert await Exchange("127.0.0.1").ask(scope_of(HOST)) == 200


@pytest.mark.anyio
@pytest.mark.parametrize("hosts", [[], [b""], [b"a", b"b"], [b"a", b"a"]])
async def test_a_request_of_http_1_1_needs_one_host(hosts: list[bytes]) -> None:
    exchange = Exchange()
    assert await exchange.ask(scope_of([(b"host", host) for host in hosts])) == 400
    assert (exchange.passed, exchange.error["code"]) == (False, "BAD_REQUEST")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("hosts", "status"), [([], 200), ([b""], 200), ([b"a"], 200), ([b"a", b"b"], 400), ([b"", b"a"], 400)]
)
@pytest.mark.parametrize("version", ["1.0", "1"])
async def test_a_request_of_http_1_0_may_have_no_host(hosts: list[bytes], status: int, version: str) -> None:
    scope = scope_of([(b"host", host) for host in hosts]) | {"http_version": version}
    assert await Exchange().ask(scope) == status


@pytest.mark.anyio
async def test_a_body_has_one_kind_of_length() -> None:
    headers = [*HOST, (b"content-length", b"5"), (b"transfer-encoding", b"chunked")]
    assert await Exchange().ask(scope_of(headers)) == 400


@pytest.mark.anyio
async def test_every_answer_has_an_id_of_its_own() -> None:
    ids = []
    for headers in (HOST, HOST, []):
        exchange = Exchange()
        await exchange.ask(scope_of(headers))
        ids += [value for name, value in exchange.sent[0]["headers"] if name == b"x-request-id"]
    assert len(set(ids)) == 3


@pytest.mark.anyio
async def test_what_nobody_caught_is_500_with_its_cause_in_the_log_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exchange = Exchange(status=0, fault=OSError("disk on fire"))
    assert await exchange.ask(scope_of(HOST)) == 500
    assert exchange.error["code"] == "INTERNAL_ERROR"
    assert b"fire" not in exchange.sent[1]["body"]
    (record,) = [record for record in caplog.records if record.name == "imagehost.server"]
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "disk on fire"
    request_id = dict(exchange.sent[0]["headers"])[b"x-request-id"].decode()
    assert record.fields["request_id"] == request_id  # type: ignore[attr-defined]


@pytest.mark.anyio
async def test_half_an_answer_is_cut_off_and_not_followed_by_another() -> None:
    exchange = Exchange(fault=OSError("disk on fire"))
    with pytest.raises(OSError, match="disk on fire"):
        await exchange.ask(scope_of(HOST))
    assert [message["type"] for message in exchange.sent] == ["http.response.start"]


@pytest.mark.anyio
async def test_the_access_log_has_no_query(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await Exchange().ask(scope_of(HOST))
    (record,) = [record for record in caplog.records if record.name == "imagehost.access"]
    fields: dict[str, object] = record.fields  # type: ignore[attr-defined]
    assert (fields["method"], fields["path"], fields["status"]) == ("GET", "/v1/images", 200)
    assert "secret" not in str(fields)


@pytest.mark.anyio
async def test_the_access_log_can_be_turned_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    exchange = Exchange()
    exchange._guard.log_access = False
    await exchange.ask(scope_of(HOST))
    assert caplog.records == []


@given(st.ip_addresses(), st.binary(max_size=12))
def test_nobody_gets_past_by_what_they_say(address: object, said: bytes) -> None:

    exchange = Exchange("203.0.113.9")
    headers = [*HOST, (b"x-forwarded-proto", said), (b"x-forwarded-for", said)]
    status = anyio.run(exchange.ask, scope_of(headers, str(address)))
    loopback = str(address).startswith("127.") or str(address) == "::1" or "::ffff:7f" in str(address)
    assert status == (200 if loopback else 403)


# What is wrong with headers.


@pytest.mark.anyio
@pytest.mark.parametrize("coding", [b"gzip, chunked", b"chunked, chunked", b"identity", b"chunked;x=1", b""])
async def test_a_body_comes_in_chunks_and_in_nothing_else(coding: bytes) -> None:
    exchange = Exchange()
    assert await exchange.ask(scope_of([*HOST, (b"transfer-encoding", coding)])) == 400
    assert "Transfer-Encoding" in exchange.error["details"]


@pytest.mark.anyio
async def test_headers_have_a_bound_together() -> None:
    exchange = Exchange()
    assert await exchange.ask(scope_of([*HOST, *[(b"x", b"y" * 999)] * 66])) == 400
    assert "65536 bytes" in exchange.error["details"]
    assert await Exchange().ask(scope_of([*HOST, *[(b"x", b"y" * 999)] * 65])) == 200


@pytest.mark.anyio
async def test_all_that_is_wrong_with_headers_is_told_at_once() -> None:
    exchange = Exchange()
    await exchange.ask(scope_of([(b"content-length", b"5"), (b"transfer-encoding", b"chunked")]))
    assert exchange.error["details"].count("expected") == 2


# HSTS.


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("client", "scheme", "said", "told"),
    [
        ("192.0.2.7", "https", [], True),
        ("10.1.2.3", "http", [b"https"], True),
        ("127.0.0.1", "http", [], False),
        ("127.0.0.1", "http", [b"https"], False),
        ("192.0.2.7", "http", [b"https"], False),
    ],
)
async def test_hsts_is_told_over_https_alone(client: str, scheme: str, said: list[bytes], told: bool) -> None:
    exchange = Exchange("10.0.0.0/8", hsts_seconds=7)
    await exchange.ask(scope_of([*HOST, *((b"x-forwarded-proto", value) for value in said)], client, scheme))
    found = [value for name, value in exchange.sent[0]["headers"] if name == b"strict-transport-security"]
    assert found == ([b"max-age=7"] if told else [])


# Bodies that nobody reads.


class Wire:
    """A body on its way: pieces that have come, and then nothing."""

    def __init__(self, *pieces: bytes, ends: bool = True) -> None:
        self.left = [*pieces]
        self._ends = ends

    async def __call__(self) -> Any:
        if not self.left and not self._ends:
            await anyio.sleep_forever()
        piece = self.left.pop(0) if self.left else b""
        return {"type": "http.request", "body": piece, "more_body": bool(self.left) or not self._ends}


async def answered(headers: RawHeaders, wire: Wire, client: str = "127.0.0.1", version: str = "1.1") -> bool:
    """Ask without reading the body; return whether the connection is to be closed."""
    exchange, sent = Exchange(), []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {**scope_of([*HOST, *headers], client), "http_version": version}
    await exchange._guard(scope, wire, send)  # type: ignore[arg-type]
    return (b"connection", b"close") in sent[0]["headers"]


@pytest.mark.anyio
async def test_a_small_body_that_nobody_reads_is_read_and_thrown_away() -> None:
    wire = Wire(b"abc", b"de")
    assert not await answered([(b"content-length", b"5")], wire)
    assert wire.left == []


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
async def test_a_body_that_may_be_large_is_not_read_and_the_connection_is_closed(headers: RawHeaders) -> None:
    wire = Wire(b"abc")
    assert await answered(headers, wire)
    assert wire.left == [b"abc"]
    assert not await answered(headers, wire, version="2")


@pytest.mark.anyio
async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "DRAIN_TIMEOUT", 0.05)
    assert await answered([(b"content-length", b"5")], Wire(b"abc", ends=False))


@pytest.mark.anyio
async def test_nothing_is_read_of_what_came_in_the_open() -> None:
    wire = Wire(b"abc")
    assert await answered([(b"content-length", b"3")], wire, client="192.0.2.7")
    assert wire.left == [b"abc"]


# Requests under way.


@pytest.mark.anyio
async def test_one_address_has_only_so_many_requests_under_way() -> None:
    leave, statuses = anyio.Event(), []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await leave.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    guard = SecurityMiddleware(app, requests_per_address=2, trusted_proxies=["127.0.0.1"])

    async def ask(address: str) -> None:
        async def send(message: Any) -> None:
            statuses.append((address, message.get("status"))) if "status" in message else None

        headers = [*HOST, (b"x-forwarded-for", address.encode()), (b"x-forwarded-proto", b"https")]
        await guard(scope_of(headers), Wire(), send)  # type: ignore[arg-type]

    async with anyio.create_task_group() as tasks:
        for address in ("192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.1", "2001:db8::1", "2001:db8::2"):
            tasks.start_soon(ask, address)
        await anyio.wait_all_tasks_blocked()
        assert statuses == [("192.0.2.1", 429)]
        await ask("2001:db8::3")
        assert statuses[1:] == [("2001:db8::3", 429)]
        leave.set()
    await ask("192.0.2.1")
    assert [status for _, status in statuses[2:]] == [200] * 6
    assert not guard._concurrency._in_progress


@pytest.mark.anyio
async def test_a_request_that_is_given_up_at_a_stop_is_told_so() -> None:
    exchange = Exchange(status=0, fault=asyncio.CancelledError())
    assert await exchange.ask(scope_of(HOST, "127.0.0.1")) == 503
    assert exchange.error["code"] == "SERVICE_UNAVAILABLE"
    assert "x-request-id" in {name.decode() for name, _ in exchange.sent[0]["headers"]}


@pytest.mark.anyio
async def test_half_an_answer_is_not_completed_at_a_stop() -> None:
    exchange = Exchange(fault=asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await exchange.ask(scope_of(HOST, "127.0.0.1"))
    assert [message["type"] for message in exchange.sent] == ["http.response.start"]
