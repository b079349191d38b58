"""The configuration that the page shows for nginx, with a real nginx before the real server."""

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


@frozen
class Proxied:
    """A server behind nginx."""

    server: RunningServer
    port: int
    context: ssl.SSLContext

    @property
    def origin(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def speak(self, request: bytes) -> bytes:
        with (
            socket.create_connection(("127.0.0.1", self.port), 30) as wire,
            self.context.wrap_socket(wire, server_hostname="127.0.0.1") as speaking,
        ):
            speaking.sendall(request)
            answer = b""
            while piece := speaking.recv(65_536):
                answer += piece
        return answer


def configuration(workspace: Path, folder: Path, port: int, behind: int) -> str:
    """Return the page's configuration as a whole one, for these ports and a certificate of ours."""
    shown = (workspace / "docs" / "examples" / "nginx.conf").read_text(encoding="utf-8")
    for there, here in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/images.example.com.pem", f"{folder}/cert.pem"),
        ("/etc/ssl/images.example.com.key", f"{folder}/key.pem"),
        ("http://127.0.0.1:8000", f"http://127.0.0.1:{behind}"),
    ):
        assert there in shown
        shown = shown.replace(there, here)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    main = f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}"
    return f"{main}\nhttp {{ access_log off; {temporary}\n{shown}\n}}\n"


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory, workspace: Path) -> Iterator[Proxied]:
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: the configuration of nginx, for want of nginx or openssl")
    folder = tmp_path_factory.mktemp("nginx")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    made = [*command.split(), "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"]
    subprocess.run(made, check=True, capture_output=True)
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
            found = Proxied(server, port, context)
            wait_for(found, folder)
            yield found
        finally:
            process.terminate()
            process.wait(30)


def wait_for(proxied: Proxied, folder: Path) -> None:
    ends = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", proxied.port), 1).close()
        except OSError:
            assert time.monotonic() < ends, (folder / "error.log").read_text(encoding="utf-8")
            time.sleep(0.05)
        else:
            return


def test_pictures_go_up_and_down(proxied: Proxied) -> None:
    headers = {"Authorization": f"Bearer {proxied.server.token}"}
    picture = make_image(1_500, 1_000)
    form = {"convertToWebP": "false"}
    with httpx2.Client(
        base_url=proxied.origin, verify=proxied.context, headers=headers, timeout=60
    ) as client:
        image = (
            client.post("/v1/upload", files={"image": picture}, data=form).raise_for_status().json()["data"]
        )
        shown = client.get(f"/img/{image['id']}")
    assert shown.content == picture
    assert shown.headers["strict-transport-security"] == "max-age=31536000"


def test_what_a_client_says_of_its_scheme_is_replaced(proxied: Proxied) -> None:
    said = {"X-Forwarded-Proto": "http"}
    with httpx2.Client(base_url=proxied.origin, verify=proxied.context, headers=said) as client:
        assert client.get("/v1/gallery").status_code == 200


def test_two_lengths_are_refused_by_nginx_and_lines_are_written_anew(proxied: Proxied) -> None:
    head = b"POST /v1/session HTTP/1.1\r\nHost: images.example.com\r\nContent-Type: application/json\r\n"
    both = head + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    assert proxied.speak(both).startswith(b"HTTP/1.1 400 ")
    bare = b"GET /v1/gallery HTTP/1.1\nHost: images.example.com\nConnection: close\n\n"
    assert proxied.speak(bare).startswith(b"HTTP/1.1 200 ")
    hosts = b"GET /v1/gallery HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"
    assert proxied.speak(hosts).startswith(b"HTTP/1.1 400 ")
