"""The documented configuration of Caddy, with Caddy in front of the server."""

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

from imagehost_core.testing import make_image
from imagehost_server.serve.runner import free_port
from imagehost_server.testing import RunningServer, running


def configuration(workspace: Path, certificate: tuple[Path, Path], port: int, upstream_port: int) -> str:
    """Return the documented configuration with other ports and the certificate of the tests."""
    text = (workspace / "docs" / "examples" / "Caddyfile").read_text(encoding="utf-8")
    for documented, tested in (
        (
            "images.example.com {",
            f"https://127.0.0.1:{port} {{\n    bind 127.0.0.1\n    tls {{cert}} {{key}}",
        ),
        ("reverse_proxy 127.0.0.1:8000", f"reverse_proxy 127.0.0.1:{upstream_port}"),
    ):
        assert documented in text
        text = text.replace(documented, tested)
    text = text.replace("{cert}", str(certificate[0])).replace("{key}", str(certificate[1]))
    return f"{{\n    admin off\n    auto_https off\n}}\n{text}"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    variables = {"IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1"}
    with running(tmp_path_factory.mktemp("caddy") / "data", variables=variables) as server:
        yield server


@pytest.fixture(scope="module")
def client(
    upstream: RunningServer,
    certificate: tuple[Path, Path],
    workspace: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[httpx2.Client]:
    """A client of Caddy in front of the server."""
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("NOT TESTED: the configuration of Caddy, because it is not installed")
    directory, port = tmp_path_factory.mktemp("Caddyfile"), free_port("127.0.0.1")
    path = directory / "Caddyfile"
    path.write_text(configuration(workspace, certificate, port, upstream.port), encoding="utf-8")
    command = [program, "run", "--config", str(path), "--adapter", "caddyfile"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={"HOME": str(directory)})
    try:
        wait_for(port, directory / "log")
        context = ssl.create_default_context(cafile=str(certificate[0]))
        headers = {"Authorization": f"Bearer {upstream.token}"}
        origin = f"https://127.0.0.1:{port}"
        with httpx2.Client(base_url=origin, verify=context, headers=headers, timeout=60) as caddy:
            yield caddy
    finally:
        process.terminate()
        process.wait(30)


def wait_for(port: int, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
            time.sleep(0.05)
        else:
            return


def test_images_are_uploaded_and_served(client: httpx2.Client) -> None:
    content, form = make_image(1_500, 1_000), {"convertToWebP": "false"}
    response = client.post("/v1/upload", files={"image": content}, data=form).raise_for_status()
    assert client.get(f"/img/{response.json()['data']['id']}").content == content


def test_a_file_that_is_too_large_gets_the_response_of_the_server(client: httpx2.Client) -> None:
    response = client.post("/v1/upload", files={"image": bytes(52_428_801)})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


def test_forwarded_headers_of_the_client_are_replaced(client: httpx2.Client, upstream: RunningServer) -> None:
    headers = {"X-Forwarded-Proto": "http", "X-Forwarded-For": "203.0.113.9"}
    assert client.get("/v1/gallery", headers=headers).status_code == 200
    assert "203.0.113.9" not in upstream.log.read_text(encoding="utf-8")
