"""HTTPS only: TLS, HSTS, trusted proxies, and plain HTTP from other machines."""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from attrs import frozen
from tests.certificates import Certificate, create_certificate
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.testing import make_image
from imagehost_server.serve.runner import warn_of_plain_http
from imagehost_server.serve.tls import HANDSHAKE_SECONDS
from imagehost_server.settings import ListenSettings, ServerSettings
from imagehost_server.testing import RunningServer, running

YEAR = "max-age=31536000"


def public_ip() -> str:
    """Return an IP address of this machine that is not a loopback address; skip if it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a UDP socket sends nothing; it selects the local IP address.
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("NOT TESTED: this machine has no IP address except loopback")
        ip_address: str = probe.getsockname()[0]
    if ip_address.startswith("127."):
        pytest.skip("NOT TESTED: this machine has no IP address except loopback")
    return ip_address


@frozen
class TlsServer:
    """A server with a self-signed certificate."""

    server: RunningServer
    certificate: Path

    def context(self, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.certificate))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return create_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secure(certificate: Certificate, no_limits: dict[str, str]) -> Iterator[TlsServer]:
    flags = ("--tls-cert", str(certificate.cert), "--tls-key", str(certificate.key))
    with running(certificate.cert.parent / "data", *flags, variables=no_limits) as server:
        yield TlsServer(server, certificate.cert)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_everything_is_served_over_tls_with_hsts(secure: TlsServer, version: ssl.TLSVersion) -> None:
    headers = {"Authorization": f"Bearer {secure.server.token}"}
    context = secure.context(version)
    with httpx2.Client(
        base_url=secure.server.origin, verify=context, headers=headers, timeout=PATIENCE
    ) as client:
        image = client.post("/v1/upload", files={"image": make_image()}).raise_for_status().json()["data"]
        assert image["url"].startswith("https://127.0.0.1:")
        responses = [
            client.get(image["url"]),
            client.get("/v1/images"),
            client.get("/nope"),
            client.put("/v1/images"),
        ]
    assert [response.status_code for response in responses] == [200, 200, 404, 405]
    assert {response.headers["strict-transport-security"] for response in responses} == {YEAR}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_older_tls_versions_are_rejected(secure: TlsServer, version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", secure.server.port), 10) as connection,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(connection)


def test_a_client_that_offers_http_2_gets_http_1_1(secure: TlsServer) -> None:
    context = secure.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", secure.server.port), 10) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1") as tls,
    ):
        assert tls.selected_alpn_protocol() in (None, "http/1.1")
        tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert tls.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_plain_http_on_the_tls_port_gets_no_response(secure: TlsServer) -> None:
    with socket.create_connection(("127.0.0.1", secure.server.port), 10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        response = b""
        try:
            while chunk := connection.recv(4_096):
                response += chunk
        except ConnectionError:
            pass
    assert not response.startswith(b"HTTP/")


def test_tls_handshakes_have_a_timeout(secure: TlsServer) -> None:
    with socket.create_connection(("127.0.0.1", secure.server.port), 30) as connection:
        began = time.monotonic()
        assert connection.recv(1) == b""
    assert HANDSHAKE_SECONDS - 1 < time.monotonic() - began < 2 * HANDSHAKE_SECONDS


@pytest.mark.parametrize("content", [None, "nonsense"])
def test_an_invalid_certificate_prevents_the_start_with_a_clear_error(
    tmp_path: Path, imagehost: Callable[..., subprocess.CompletedProcess[str]], content: str | None
) -> None:
    cert = tmp_path / "cert.pem"
    if content:
        cert.write_text(content)
    arguments = ("serve", "--data", tmp_path / "data", "--port", "0", "--tls-cert", cert, "--tls-key", cert)
    process = imagehost(*arguments, check=False)
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr.startswith(f"Error: expected a certificate in {cert} and its key in {cert}: ")
    assert "Traceback" not in process.stderr
    assert not (tmp_path / "data").exists()


# Plain HTTP.


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]) -> Iterator[RunningServer]:
    """A server without a certificate on every interface."""
    data = tmp_path_factory.mktemp("plain") / "data"
    with running(data, "--host", "0.0.0.0", variables=no_limits) as server:
        yield server


def exchange(ip_address: str, port: int, request: bytes) -> bytes:
    """Send bytes; return everything until the server closes the connection."""
    with socket.create_connection((ip_address, port), 20) as connection:
        connection.sendall(request)
        response = b""
        while chunk := connection.recv(65_536):
            response += chunk
    return response


def test_plain_http_from_another_machine_is_rejected_before_the_body(plain: RunningServer) -> None:
    """The test sends no body: a server that waited for it would send no response."""
    head = (
        f"POST /v1/upload HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {plain.token}\r\n"
        "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 5000\r\n"
    )
    for headers in (
        "",
        "X-Forwarded-Proto: https\r\nX-Forwarded-For: 127.0.0.1\r\n",
        "Forwarded: proto=https\r\n",
    ):
        response = exchange(public_ip(), plain.port, f"{head}{headers}\r\n".encode())
        assert response.startswith(b"HTTP/1.1 403 ")
        assert b'"code":"FORBIDDEN"' in response
        assert b"\r\nconnection: close\r\n" in response.lower()
        assert b"strict-transport-security" not in response.lower()


@pytest.mark.parametrize("path", ["/v1/images", "/img/0123456789abcdef", "/v1/docs", "/nope"])
def test_plain_http_from_another_machine_is_rejected_for_every_route_except_probes(
    plain: RunningServer, path: str
) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert exchange(public_ip(), plain.port, request.encode()).startswith(b"HTTP/1.1 403 ")
    assert not exchange("127.0.0.1", plain.port, request.encode()).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_are_served_over_plain_http_to_other_machines(
    plain: RunningServer, path: str, method: str
) -> None:
    request = f"{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    response = exchange(public_ip(), plain.port, request.encode())
    assert response.startswith(b"HTTP/1.1 200 ")
    assert (b'{"success":true,"data":{"status":' in response) is (method == "GET")


def test_plain_http_for_other_machines_is_one_warning_at_startup(plain: RunningServer) -> None:
    warnings = [line for line in plain.log.read_text(encoding="utf-8").splitlines() if " 403" in line]
    warnings = [line for line in warnings if "clients on other machines" in line]
    assert len(warnings) == 1
    for setting in ("server.tls_cert", "server.tls_key", "trusted_proxies"):
        assert setting in warnings[0]


@pytest.mark.parametrize(
    ("ip_address", "settings", "warnings"),
    [
        ("0.0.0.0", ServerSettings(), 1),
        ("::", ServerSettings(), 1),
        ("192.0.2.7", ServerSettings(), 1),
        ("127.0.0.1", ServerSettings(), 0),
        ("::1", ServerSettings(), 0),
        ("0.0.0.0", ServerSettings(trusted_proxies=("10.0.0.1",)), 0),
        ("0.0.0.0", ServerSettings(server=ListenSettings(tls_cert="c.pem", tls_key="k.pem")), 0),
    ],
)
def test_startup_warns_only_where_other_machines_get_403(
    ip_address: str, settings: ServerSettings, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_plain_http(ip_address, settings)
    assert len(caplog.records) == warnings


def test_x_forwarded_proto_counts_from_a_trusted_proxy(tmp_path: Path, no_limits: dict[str, str]) -> None:
    proxy = public_ip()
    variables = {**no_limits, "IMAGEHOST_TRUSTED_PROXIES": proxy}
    with running(tmp_path / "data", "--host", "0.0.0.0", variables=variables) as server:
        origin = f"http://{proxy}:{server.port}"
        responses = {
            forwarded: httpx2.get(
                f"{origin}/v1/gallery", headers={"X-Forwarded-Proto": forwarded} if forwarded else {}
            )
            for forwarded in ("https", "http", "", "https, http")
        }
        assert {forwarded: response.status_code for forwarded, response in responses.items()} == {
            "https": 200,
            "http": 403,
            "": 403,
            "https, http": 403,
        }
        assert responses["https"].headers["strict-transport-security"] == YEAR
        assert "strict-transport-security" not in responses["http"].headers


def test_hsts_can_be_disabled() -> None:
    settings = ServerSettings(trusted_proxies=("127.0.0.1",), server=ListenSettings(hsts_seconds=0))
    with serving(ImageHost.open(":memory:", settings=settings), settings) as origin:
        response = httpx2.get(f"{origin}/healthz", headers={"X-Forwarded-Proto": "https"})
    assert response.status_code == 200
    assert "strict-transport-security" not in response.headers
