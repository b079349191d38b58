"""Large bodies that are refused: clients that send the whole body before they read get the response."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.certificates import create_certificate
from tests.waiting import PATIENCE

from imagehost_server.serve.transport import LINGER_BYTES
from imagehost_server.testing import RunningServer, running

MIB = 2**20
JSON = "application/json"


@pytest.fixture(scope="module", params=["http", "https"])
def origin(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, no_limits: dict[str, str]
) -> Iterator[str]:
    """The origin of a server, over plain HTTP and over TLS."""
    folder = tmp_path_factory.mktemp("bodies")
    flags = create_certificate(folder).flags if request.param == "https" else ()
    with running(folder / "data", *flags, variables=no_limits) as server:
        yield server.origin


@pytest.fixture(scope="module")
def large_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "large.json"
    path.write_bytes(b" " * 50 * MIB)
    return path


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def in_parts(size: int) -> Iterator[bytes]:
    for _ in range(size // MIB):
        yield b" " * MIB


def send_by_http_client(
    origin: str, path: str, size: int, *, content_type: str = JSON, chunked: bool = False
) -> tuple[int, dict[str, str]]:
    """Send a body with `http.client`, which does not read before the whole body is sent."""
    url = urlsplit(origin)
    assert url.hostname is not None
    connection = (
        http.client.HTTPSConnection(url.hostname, url.port, timeout=PATIENCE, context=unverified())
        if url.scheme == "https"
        else http.client.HTTPConnection(url.hostname, url.port, timeout=PATIENCE)
    )
    headers = {"Content-Type": content_type} | ({} if chunked else {"Content-Length": str(size)})
    connection.request("POST", path, in_parts(size), headers, encode_chunked=chunked)
    response = connection.getresponse()
    assert response.headers["X-Request-Id"]
    error = json.loads(response.read())["error"]
    connection.close()
    return response.status, error


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("size", [2 * MIB, 50 * MIB])
def test_a_large_json_body_gets_413_with_its_size(origin: str, size: int, chunked: bool) -> None:
    status, error = send_by_http_client(origin, "/v1/session", size, chunked=chunked)
    assert (status, error["code"]) == (413, "PAYLOAD_TOO_LARGE")
    assert f"at most {MIB} bytes for the body" in error["details"]
    exact = f"but received {size} bytes"
    assert error["details"].endswith(exact) or (chunked and "at least" in error["details"])


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize(
    ("path", "content_type", "status"),
    [
        ("/v1/albums", JSON, 401),
        ("/nope", JSON, 404),
        ("/healthz", JSON, 405),
        ("/v1/session", "text/plain", 415),
    ],
)
def test_any_error_reaches_a_client_that_sends_a_large_body(
    origin: str, path: str, content_type: str, status: int, chunked: bool
) -> None:
    received, _ = send_by_http_client(origin, path, 20 * MIB, content_type=content_type, chunked=chunked)
    assert received == status


def test_httpx_gets_413_for_a_large_body(origin: str) -> None:
    with httpx2.Client(base_url=origin, verify=unverified(), timeout=PATIENCE) as client:
        for content in (b" " * 50 * MIB, in_parts(50 * MIB)):
            response = client.post("/v1/session", content=content, headers={"Content-Type": JSON})
            assert response.status_code == 413


@pytest.mark.external
@pytest.mark.parametrize("fields", [(), ("Expect:",), ("Expect:", "Transfer-Encoding: chunked")])
def test_curl_gets_413_for_a_large_body(origin: str, large_file: Path, fields: tuple[str, ...]) -> None:
    if shutil.which("curl") is None:
        pytest.skip("NOT TESTED: curl is missing")
    command = ["curl", "-sk", "--http1.1", "-w", " %{http_code}"]
    command += [option for field in (f"Content-Type: {JSON}", *fields) for option in ("-H", field)]
    command += ["--data-binary", f"@{large_file}", f"{origin}/v1/session"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith('{"success":false,"error":{"code":"PAYLOAD_TOO_LARGE"')
    assert process.stdout.endswith(" 413")


FETCH = """
const [url, size, stream] = [process.argv[1], Number(process.argv[2]), process.argv[3] === "stream"];
const part = new Uint8Array(1048576).fill(32);
async function* parts() { for (let sent = 0; sent < size; sent += part.length) yield part; }
const body = stream ? ReadableStream.from(parts()) : new Uint8Array(size).fill(32);
const headers = {"Content-Type": "application/json"};
const response = await fetch(url, {method: "POST", headers, body, duplex: "half"});
console.log(response.status, (await response.json()).error.code);
"""


@pytest.mark.external
@pytest.mark.parametrize("kind", ["buffer", "stream"])
def test_fetch_of_node_gets_413_for_a_large_body(origin: str, kind: str) -> None:
    if shutil.which("node") is None:
        pytest.skip("NOT TESTED: node is missing")
    command = ["node", "--input-type=module", "-e", FETCH, "--", f"{origin}/v1/session", str(50 * MIB), kind]
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={"NODE_TLS_REJECT_UNAUTHORIZED": "0", "PATH": "/usr/bin:/bin:/usr/local/bin"},
    )
    assert (process.stdout, process.returncode) == ("413 PAYLOAD_TOO_LARGE\n", 0), process.stderr


def test_a_client_that_sends_without_end_is_cut_off(server: RunningServer) -> None:
    head = b"POST /nope HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(head)
        with suppress(ConnectionError):
            while sent < 500 * MIB:
                connection.sendall(b" " * MIB)
                sent += MIB
    assert LINGER_BYTES <= sent < 2 * LINGER_BYTES
