"""Caddy in front of the server: what is not the same with every reverse proxy."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.outside.reverse_proxies import ProxiedServer, behind
from tests.shipped_files import ROOT
from tests.slow_downloads import require_whole_download

from imagehost_core.testing import make_image


@pytest.fixture(scope="module")
def proxied(
    certificate: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProxiedServer]:
    """A server behind Caddy."""
    with behind("Caddy", certificate, tmp_path_factory.mktemp("caddy")) as proxied:
        yield proxied


@pytest.fixture
def client(proxied: ProxiedServer) -> Iterator[httpx2.Client]:
    """A client of Caddy with a token."""
    with proxied.authorized() as client:
        yield client


def test_images_are_uploaded_and_served(client: httpx2.Client) -> None:
    content, form = make_image(1_500, 1_000), {"convertToWebP": "false"}
    response = client.post("/v1/upload", files={"image": content}, data=form).raise_for_status()
    assert client.get(f"/img/{response.json()['data']['id']}").content == content


def test_a_file_that_is_too_large_gets_the_response_of_the_server(client: httpx2.Client) -> None:
    response = client.post("/v1/upload", files={"image": bytes(52_428_801)})
    assert (response.status_code, response.json()["error"]["code"]) == (413, "PAYLOAD_TOO_LARGE")


def test_forwarded_headers_of_the_client_are_replaced(proxied: ProxiedServer) -> None:
    headers = {"X-Forwarded-Proto": "http", "X-Forwarded-For": "203.0.113.9"}
    assert proxied.get("/v1/gallery", headers).status_code == 200
    assert "203.0.113.9" not in proxied.server.log.read_text(encoding="utf-8")


def test_an_upload_of_20_mb_is_streamed_to_the_server(proxied: ProxiedServer, client: httpx2.Client) -> None:
    content = make_image(64, 64) + bytes(20 * 2**20)
    record = client.post("/v1/upload", files={"image": content}).raise_for_status().json()["data"]
    assert (record["width"], record["size"] < 20 * 2**20) == (64, True)
    # The server rejects what has no token before it has the body, of which Caddy has the beginning.
    head = b"POST /v1/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    head += b"Content-Length: 20971520\r\nConnection: close\r\n\r\n"
    assert proxied.exchange(head + bytes(2**16)).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    ("variables", "issuers"),
    [({}, None), ({"TLS": ""}, None), ({"TLS": "tls internal"}, [{"module": "internal"}])],
)
def test_a_name_of_the_local_network_gets_a_certificate_of_caddys_own_authority(
    tmp_path: Path, variables: dict[str, str], issuers: list[dict[str, str]] | None
) -> None:
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("NOT TESTED: the configuration of Caddy, because it is not installed")
    command = [
        program,
        "adapt",
        "--config",
        str(ROOT / "deploy/Caddyfile"),
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
