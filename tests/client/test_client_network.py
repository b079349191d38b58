"""Proxies and certificates, configured by httpx2 clients and environment variables."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from attrs import frozen
from tests.certificates import create_certificate
from tests.client.conftest import Caller, FaultyServer, http, serve_fake
from tests.ports import free_port

from imagehost_client import APIConnectionError, AsyncClient, Client, ImageHostError
from imagehost_client._cli.errors import find_hint
from imagehost_client.testing import FakeImageHost, make_png

ALBUMS = b'{"success": true, "data": {"albums": [], "pagination": %s}}'
PAGINATION = b'{"page": 1, "per_page": 20, "total": 0, "total_pages": 0, "next_cursor": null}'

kinds = pytest.mark.parametrize("kind", ["sync", "async"])


def caller(kind: str, url: str, token: str = "t", **http_client: Any) -> Caller:
    """Return a runner of calls; `http_client` are the options of an explicit httpx2 client."""

    def new_client() -> Client:
        explicit = httpx2.Client(**http_client) if http_client else None
        return Client(url, token, http_client=explicit, allow_http=True)

    def new_async_client() -> AsyncClient:
        explicit = httpx2.AsyncClient(**http_client) if http_client else None
        return AsyncClient(url, token, http_client=explicit, allow_http=True)

    return Caller(new_client, new_async_client if kind == "async" else None)


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """A proxy that responds to every request itself, with an empty list."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with FaultyServer(lambda _: http(200, ALBUMS % PAGINATION)) as server:
        yield server


def requested(proxy: FaultyServer) -> list[str]:
    return [f"{request.path} {request.headers['host']}" for request in proxy.requests]


@kinds
def test_the_proxy_of_an_explicit_httpx_client_is_used(kind: str, proxy: FaultyServer) -> None:
    call = caller(kind, "https://nowhere.localhost/v1", proxy=proxy.url.removesuffix("/v1"))
    proxy.respond = lambda _: http(502)
    with pytest.raises(APIConnectionError):
        call(lambda client: client.albums.list().first_page())
    assert set(requested(proxy)) == {"nowhere.localhost:443 nowhere.localhost:443"}
    assert all("authorization" not in request.headers for request in proxy.requests)


@kinds
def test_the_proxy_of_the_environment_is_used(
    kind: str, proxy: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
    call = caller(kind, "http://nowhere.test/v1")
    assert call(lambda client: client.albums.list().first_page()).total == 0
    assert requested(proxy) == ["http://nowhere.test/v1/albums nowhere.test"]


@kinds
def test_the_failure_of_a_proxy_names_it_without_its_password(
    kind: str, proxy: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = proxy.url.removesuffix("/v1").removeprefix("http://")
    free = free_port()
    proxy.respond = lambda _: http(407, b"<html>sign in</html>")

    def message(url: str, **http_client: Any) -> str:
        with pytest.raises(ImageHostError) as caught:
            caller(kind, url, **http_client)(lambda client: client.with_options(max_retries=0).account())
        return str(caught.value)

    monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{address}")
    assert f"ProxyError: 407 X with the proxy http://{address};" in message("https://nowhere.test/v1")
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free}")
    unreachable = message("https://nowhere.test/v1")
    assert re.search(rf"ConnectError: .* with the proxy http://127.0.0.1:{free};", unreachable)
    monkeypatch.setenv("HTTP_PROXY", f"http://{address}")
    assert message("http://nowhere.test/v1").startswith("The proxy in front of the image host answered 407")
    monkeypatch.setenv("NO_PROXY", "nowhere.test")
    assert "proxy" not in message("http://nowhere.test/v1")
    explicit = message("https://nowhere.test/v1", proxy=f"http://{address}")
    assert "ProxyError: 407 X with the proxy of http_client;" in explicit


@kinds
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "nowhere.localhost"])
def test_a_host_on_loopback_is_not_requested_through_the_proxy_of_the_environment(
    kind: str, host: str, proxy: FaultyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
    port = free_port()
    with pytest.raises(APIConnectionError):
        caller(kind, f"http://{host}:{port}")(lambda client: client.with_options(max_retries=0).account())
    assert requested(proxy) == []


@frozen
class Secure:
    """The host in memory behind TLS, with its certificate file."""

    host: FakeImageHost
    authority: Path


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    certificate = create_certificate(tmp_path_factory.mktemp("tls"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.cert, certificate.key)
    with serve_fake(context) as host:
        yield Secure(host, certificate.cert)


def image_through(call: Caller) -> bool:
    image = call(lambda client: client.upload(make_png(3, 2)))
    return bool(image.width == 3 and image.url.startswith("https://"))


@kinds
def test_the_certificates_of_an_explicit_httpx_client_are_used(kind: str, secure: Secure) -> None:
    context = ssl.create_default_context(cafile=str(secure.authority))
    assert image_through(caller(kind, secure.host.base_url, secure.host.accounts["admin"], verify=context))


def test_certificates_are_loaded_for_https_only(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[object] = []
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *files: loaded.append(files))
    for new in (Client, AsyncClient):
        monkeypatch.setenv("SSL_CERT_FILE", f"certificates of {new.__name__}.pem")
        new("http://127.0.0.1:1/v1", "t")
        new("http://images.example.com/v1", "t", allow_http=True)
        assert not loaded
        new("https://images.example.com/v1", "t")
        assert loaded.pop()


@kinds
def test_the_certificates_of_the_environment_are_used(
    kind: str, secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(secure.authority))
    assert image_through(caller(kind, secure.host.base_url, secure.host.accounts["admin"]))


@kinds
def test_a_host_with_an_untrusted_certificate_gets_no_request(
    kind: str, secure: Secure, caplog: pytest.LogCaptureFixture
) -> None:
    before = len(secure.host.requests)
    token = "ihk_0123456789abcdefghijkl"
    with caplog.at_level(logging.DEBUG), pytest.raises(APIConnectionError, match="CERTIFICATE") as caught:
        caller(kind, secure.host.base_url, token)(lambda client: client.account())
    assert len(secure.host.requests) == before
    assert "SSL_CERT_FILE" in (find_hint(caught.value, None) or "")
    assert token not in f"{caught.value!r}{caplog.text}"


@kinds
@pytest.mark.parametrize(
    ("response", "attempts"),
    [(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", 1), (b"", 2)],
    ids=["no TLS", "cut"],
)
def test_a_port_without_tls_is_tried_once_and_a_handshake_that_is_cut_again(
    kind: str, response: bytes, attempts: int
) -> None:
    connections = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def respond() -> None:
            for _ in range(attempts):
                connection, _ = listener.accept()
                with connection:
                    connections.append(connection.recv(4_096))
                    connection.sendall(response)

        thread = threading.Thread(target=respond, daemon=True)
        thread.start()
        call = caller(kind, f"https://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(APIConnectionError, match=rf"SSL.*attempts: {attempts}") as caught:
            call(lambda client: client.with_options(max_retries=1).account())
        thread.join(10)
    assert len(connections) == attempts
    assert not caught.value.is_sent
