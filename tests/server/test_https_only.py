"""HTTPS and nothing else: TLS of our own, HSTS, trusted proxies, and plain HTTP from other machines."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest
from attrs import frozen

from imagehost_core.testing import make_image
from imagehost_server.serve.runner import HANDSHAKE_SECONDS
from imagehost_server.testing import RunningServer, running

YEAR = "max-age=31536000"


def own_address() -> str:
    """Return an address of this machine that is not loopback's; skip where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Nothing is sent: the system only chooses the address from which it would be.
            probe.connect(("198.51.100.1", 9))
        except OSError:
            pytest.skip("NOT TESTED: this machine has no address but loopback's")
        address: str = probe.getsockname()[0]
    if address.startswith("127."):
        pytest.skip("NOT TESTED: this machine has no address but loopback's")
    return address


@frozen
class Secure:
    """A server with a certificate of its own, and what trusts that."""

    server: RunningServer
    authority: Path

    def context(self, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        if version is not None:
            context.minimum_version = context.maximum_version = version
        return context


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]) -> Iterator[Secure]:
    if shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: TLS, for want of openssl")
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext"
    subprocess.run(
        [*command.split(), "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )
    flags = ("--tls-cert", str(cert), "--tls-key", str(key))
    with running(folder / "data", *flags, variables=no_limits) as server:
        yield Secure(server, cert)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_of_our_own_carries_everything(secure: Secure, version: ssl.TLSVersion) -> None:
    headers = {"Authorization": f"Bearer {secure.server.token}"}
    context = secure.context(version)
    with httpx2.Client(base_url=secure.server.origin, verify=context, headers=headers, timeout=60) as client:
        image = client.post("/v1/upload", files={"image": make_image()}).raise_for_status().json()["data"]
        assert image["url"].startswith("https://127.0.0.1:")
        answers = [
            client.get(image["url"]),
            client.get("/v1/images"),
            client.get("/nope"),
            client.put("/v1/images"),
        ]
    assert [answer.status_code for answer in answers] == [200, 200, 404, 405]
    assert {answer.headers["strict-transport-security"] for answer in answers} == {YEAR}


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
def test_older_tls_is_not_spoken(secure: Secure, version: ssl.TLSVersion) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version = context.maximum_version = version
    with (
        socket.create_connection(("127.0.0.1", secure.server.port), 10) as wire,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(wire)


def test_a_browser_that_would_like_http_2_gets_http_1_1(secure: Secure) -> None:
    context = secure.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", secure.server.port), 10) as wire,
        context.wrap_socket(wire, server_hostname="127.0.0.1") as speaking,
    ):
        assert speaking.selected_alpn_protocol() in (None, "http/1.1")
        speaking.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert speaking.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_plain_words_on_the_port_of_tls_get_no_answer(secure: Secure) -> None:
    with socket.create_connection(("127.0.0.1", secure.server.port), 10) as wire:
        wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = b""
        try:
            while piece := wire.recv(4_096):
                answer += piece
        except ConnectionError:
            pass
    assert not answer.startswith(b"HTTP/")


def test_a_handshake_that_does_not_come_is_not_waited_for(secure: Secure) -> None:
    with socket.create_connection(("127.0.0.1", secure.server.port), 30) as wire:
        began = time.monotonic()
        assert wire.recv(1) == b""
    assert HANDSHAKE_SECONDS - 1 < time.monotonic() - began < 2 * HANDSHAKE_SECONDS


@pytest.mark.parametrize("content", [None, "nonsense"])
def test_a_certificate_that_cannot_be_used_is_told_and_nothing_begins(
    tmp_path: Path, imagehost: Callable[..., subprocess.CompletedProcess[str]], content: str | None
) -> None:
    cert = tmp_path / "cert.pem"
    if content:
        cert.write_text(content)
    words = ("serve", "--data", tmp_path / "data", "--port", "0", "--tls-cert", cert, "--tls-key", cert)
    done = imagehost(*words, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: expected a certificate in {cert} and its key in {cert}: ")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "data").exists()


# Plain HTTP.


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]) -> Iterator[RunningServer]:
    """A server that listens on every interface, without a certificate."""
    data = tmp_path_factory.mktemp("plain") / "data"
    with running(data, "--host", "0.0.0.0", variables=no_limits) as server:
        yield server


def speak(address: str, port: int, request: bytes) -> bytes:
    """Send the head of a request and nothing of its body; return the whole answer."""
    with socket.create_connection((address, port), 20) as wire:
        wire.sendall(request)
        answer = b""
        while piece := wire.recv(65_536):
            answer += piece
    return answer


def test_plain_http_from_elsewhere_is_refused_before_a_body_is_read(plain: RunningServer) -> None:
    """The body never comes: a server that waited for it would not answer."""
    head = (
        f"POST /v1/upload HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {plain.token}\r\n"
        "Content-Type: multipart/form-data; boundary=B\r\nContent-Length: 5000\r\n"
    )
    for more in (
        "",
        "X-Forwarded-Proto: https\r\nX-Forwarded-For: 127.0.0.1\r\n",
        "Forwarded: proto=https\r\n",
    ):
        answer = speak(own_address(), plain.port, f"{head}{more}\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b'"code":"FORBIDDEN"' in answer
        assert b"\r\nconnection: close\r\n" in answer.lower()
        assert b"strict-transport-security" not in answer.lower()


@pytest.mark.parametrize("path", ["/v1/images", "/img/0123456789abcdef", "/healthz", "/v1/docs", "/nope"])
def test_plain_http_from_elsewhere_is_refused_for_everything(plain: RunningServer, path: str) -> None:
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    assert speak(own_address(), plain.port, request.encode()).startswith(b"HTTP/1.1 403 ")
    assert not speak("127.0.0.1", plain.port, request.encode()).startswith(b"HTTP/1.1 403 ")


def test_a_trusted_proxy_is_believed_about_https_and_nobody_else_is(
    tmp_path: Path, no_limits: dict[str, str]
) -> None:
    proxy = own_address()
    variables = {**no_limits, "IMAGEHOST_TRUSTED_PROXIES": proxy}
    with running(tmp_path / "data", "--host", "0.0.0.0", variables=variables) as server:
        origin = f"http://{proxy}:{server.port}"
        found = {
            said: httpx2.get(f"{origin}/v1/gallery", headers={"X-Forwarded-Proto": said} if said else {})
            for said in ("https", "http", "", "https, http")
        }
        assert {said: answer.status_code for said, answer in found.items()} == {
            "https": 200,
            "http": 403,
            "": 403,
            "https, http": 403,
        }
        assert found["https"].headers["strict-transport-security"] == YEAR
        assert "strict-transport-security" not in found["http"].headers


def running_on(data: Path, **variables: str) -> httpx2.Response:
    with running(data, variables=variables) as server:
        return httpx2.get(f"{server.origin}/healthz", headers={"X-Forwarded-Proto": "https"})


def test_hsts_can_be_left_out(tmp_path: Path) -> None:
    trusted = {"IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1"}
    assert "strict-transport-security" in running_on(tmp_path / "one", **trusted).headers
    without = running_on(tmp_path / "two", **trusted, IMAGEHOST_SERVER_HSTS_SECONDS="0")
    assert "strict-transport-security" not in without.headers
