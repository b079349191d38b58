"""The documented configuration of nginx, with nginx in front of the server."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from attrs import frozen

from imagehost_core.testing import make_image
from imagehost_server.serve.runner import free_port
from imagehost_server.testing import RunningServer, running

pytestmark = pytest.mark.external


@frozen
class NginxServer:
    """A server behind nginx."""

    server: RunningServer
    port: int
    context: ssl.SSLContext

    @property
    def origin(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def exchange(self, request: bytes) -> bytes:
        with (
            socket.create_connection(("127.0.0.1", self.port), 30) as connection,
            self.context.wrap_socket(connection, server_hostname="127.0.0.1") as tls,
        ):
            tls.sendall(request)
            response = b""
            while chunk := tls.recv(65_536):
                response += chunk
        return response


def configuration(workspace: Path, folder: Path, port: int, upstream_port: int) -> str:
    """Return the documented configuration with other ports and a self-signed certificate."""
    text = (workspace / "docs" / "examples" / "nginx.conf").read_text(encoding="utf-8")
    for documented, tested in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/images.example.com.pem", f"{folder}/cert.pem"),
        ("/etc/ssl/images.example.com.key", f"{folder}/key.pem"),
        ("http://127.0.0.1:8000", f"http://127.0.0.1:{upstream_port}"),
    ):
        assert documented in text
        text = text.replace(documented, tested)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}"
    return f"{main}\nhttp {{ access_log off; {temporary}\n{text}\n}}\n"


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory, workspace: Path) -> Iterator[NginxServer]:
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: the configuration of nginx, because nginx or openssl is missing")
    folder = tmp_path_factory.mktemp("nginx")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    openssl = [*command.split(), "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"]
    subprocess.run(openssl, check=True, capture_output=True)
    port = free_port("127.0.0.1")
    variables = {
        "IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1",
        "IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "1000",
    }
    with running(folder / "data", variables=variables) as server:
        text = configuration(workspace, folder, port, server.port)
        (folder / "nginx.conf").write_text(text, encoding="utf-8")
        command_line = ["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
        process = subprocess.Popen(command_line, stderr=subprocess.DEVNULL)
        try:
            context = ssl.create_default_context(cafile=f"{folder}/cert.pem")
            nginx = NginxServer(server, port, context)
            wait_for(nginx, folder)
            yield nginx
        finally:
            process.terminate()
            process.wait(30)


def wait_for(proxied: NginxServer, folder: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", proxied.port), 1).close()
        except OSError:
            assert time.monotonic() < deadline, (folder / "error.log").read_text(encoding="utf-8")
            time.sleep(0.05)
        else:
            return


def test_images_are_uploaded_and_served(proxied: NginxServer) -> None:
    headers = {"Authorization": f"Bearer {proxied.server.token}"}
    content = make_image(1_500, 1_000)
    form = {"convertToWebP": "false"}
    with httpx2.Client(
        base_url=proxied.origin, verify=proxied.context, headers=headers, timeout=60
    ) as client:
        image = (
            client.post("/v1/upload", files={"image": content}, data=form).raise_for_status().json()["data"]
        )
        response = client.get(f"/img/{image['id']}")
    assert response.content == content
    assert response.headers["strict-transport-security"] == "max-age=31536000"


def test_x_forwarded_proto_of_the_client_is_replaced(proxied: NginxServer) -> None:
    headers = {"X-Forwarded-Proto": "http"}
    with httpx2.Client(base_url=proxied.origin, verify=proxied.context, headers=headers) as client:
        assert client.get("/v1/gallery").status_code == 200


def test_nginx_rejects_two_lengths_and_normalizes_line_ends(proxied: NginxServer) -> None:
    head = b"POST /v1/session HTTP/1.1\r\nHost: images.example.com\r\nContent-Type: application/json\r\n"
    both = head + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert proxied.exchange(both).startswith(b"HTTP/1.1 400 ")
    bare = b"GET /v1/gallery HTTP/1.1\nHost: images.example.com\nConnection: close\n\n"
    assert proxied.exchange(bare).startswith(b"HTTP/1.1 200 ")
    hosts = b"GET /v1/gallery HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"
    assert proxied.exchange(hosts).startswith(b"HTTP/1.1 400 ")
