"""deploy/Caddyfile, with Caddy in front of the server."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.slow_downloads import require_whole_download

from imagehost_core.testing import make_image
from imagehost_server.serve.runner import free_port
from imagehost_server.testing import RunningServer, running

OPTIONS = "{\n    admin off\n    auto_https disable_redirects\n    http_port %d\n    https_port %d\n}\n"
"""Options before the file: ports instead of 80 and 443."""


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
    text = (workspace / "deploy" / "Caddyfile").read_text(encoding="utf-8")
    path = directory / "Caddyfile"
    path.write_text(OPTIONS % (free_port("127.0.0.1"), port) + text, encoding="utf-8")
    variables = {
        "HOME": str(directory),
        "DOMAIN": "127.0.0.1",
        "TLS": f"tls {certificate[0]} {certificate[1]}",
        "UPSTREAM": f"127.0.0.1:{upstream.port}",
    }
    arguments = ("--config", str(path), "--adapter", "caddyfile")
    subprocess.run([program, "validate", *arguments], env=variables, capture_output=True, check=True)
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen([program, "run", *arguments], stdout=log, stderr=log, env=variables)
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


def test_an_upload_of_20_mb_is_streamed_to_the_server(
    client: httpx2.Client, certificate: tuple[Path, Path]
) -> None:
    content = make_image(64, 64) + bytes(20 * 2**20)
    record = client.post("/v1/upload", files={"image": content}).raise_for_status().json()["data"]
    assert (record["width"], record["size"] < 20 * 2**20) == (64, True)
    # The server rejects what has no token before it has the body, of which Caddy has the beginning.
    head = b"POST /v1/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    head += b"Content-Length: 20971520\r\nConnection: close\r\n\r\n"
    context = ssl.create_default_context(cafile=str(certificate[0]))
    address = ("127.0.0.1", int(client.base_url.port or 0))
    with (
        socket.create_connection(address, 30) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1") as tls,
    ):
        tls.sendall(head + bytes(2**16))
        assert tls.recv(65_536).startswith(b"HTTP/1.1 401 ")


def test_a_private_image_is_for_its_owner_only(client: httpx2.Client, certificate: tuple[Path, Path]) -> None:
    form = {"is_public": "false"}
    response = client.post("/v1/upload", files={"image": make_image()}, data=form).raise_for_status()
    path = f"/img/{response.json()['data']['id']}"
    assert client.get(path).headers["cache-control"] == "private, no-store"
    context = ssl.create_default_context(cafile=str(certificate[0]))
    with httpx2.Client(base_url=client.base_url, verify=context) as anonymous:
        assert anonymous.get(path).status_code == 404


@pytest.mark.parametrize(
    ("variables", "issuers"),
    [({}, None), ({"TLS": ""}, None), ({"TLS": "tls internal"}, [{"module": "internal"}])],
)
def test_a_name_of_the_local_network_gets_a_certificate_of_caddys_own_authority(
    workspace: Path, tmp_path: Path, variables: dict[str, str], issuers: list[dict[str, str]] | None
) -> None:
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("NOT TESTED: the configuration of Caddy, because it is not installed")
    command = [
        program,
        "adapt",
        "--config",
        str(workspace / "deploy" / "Caddyfile"),
        "--adapter",
        "caddyfile",
    ]
    environment = {"HOME": str(tmp_path), "DOMAIN": "images.lan", **variables}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)
    apps = json.loads(done.stdout)["apps"]
    policies = apps.get("tls", {}).get("automation", {}).get("policies", [])
    assert [policy["issuers"] for policy in policies] == ([issuers] if issuers else [])
    assert "images.lan" in done.stdout.decode()


@pytest.mark.slow
def test_a_download_at_a_steady_low_rate_is_completed(client: httpx2.Client) -> None:
    require_whole_download(client)
