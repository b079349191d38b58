"""The guard, asked directly: what is let pass, and what is refused before anything is read."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_server.guard import Guard

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
    }


class Exchange:
    """One request to a guard: what the application saw, and what came back."""

    def __init__(self, *trusted: str, status: int = 200, fault: Exception | None = None) -> None:
        self.passed = False
        self.sent: list[dict[str, Any]] = []
        self._status = status
        self._fault = fault
        self._guard = Guard(self._app, trusted_proxies=trusted)

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
async def test_a_request_needs_one_host(hosts: list[bytes]) -> None:
    exchange = Exchange()
    assert await exchange.ask(scope_of([(b"host", host) for host in hosts])) == 400
    assert (exchange.passed, exchange.error["code"]) == (False, "BAD_REQUEST")


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
