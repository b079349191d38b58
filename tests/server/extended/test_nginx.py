"""deploy/nginx.conf, with nginx in front of the server."""

from __future__ import annotations

import os
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
from tests.slow_downloads import require_whole_download

from imagehost_core.testing import make_image
from imagehost_server.serve.runner import free_port
from imagehost_server.testing import RunningServer, running

pytestmark = pytest.mark.external

OWN_HEADERS = {"date", "x-request-id", "x-cache-status"}
"""Headers of which each response has its own."""


@frozen
class NginxServer:
    """A server behind nginx."""

    server: RunningServer
    port: int
    redirecting_port: int
    context: ssl.SSLContext
    stores: bool
    sends_files: bool

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


def configuration(
    workspace: Path, folder: Path, port: int, redirecting_port: int, upstream_port: int, *, sends_files: bool
) -> str:
    """Return the documented configuration with other ports and a self-signed certificate."""
    text = (workspace / "deploy" / "nginx.conf").read_text(encoding="utf-8")
    if sends_files:
        files = (workspace / "docs" / "examples" / "nginx_accel.conf").read_text(encoding="utf-8")
        assert "/var/lib/imagehost/" in files
        files = files.replace("/var/lib/imagehost/", f"{folder}/data/")
        text = text.replace("    location / {", f"{files}\n    location / {{")
    for documented, tested in (
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("listen 80;", f"listen 127.0.0.1:{redirecting_port};"),
        ("/var/cache/nginx/imagehost", f"{folder}/cache"),
        ("/etc/ssl/images.example.com.pem", f"{folder}/cert.pem"),
        ("/etc/ssl/images.example.com.key", f"{folder}/key.pem"),
        ("server 127.0.0.1:8000;", f"server 127.0.0.1:{upstream_port};"),
    ):
        assert documented in text
        text = text.replace(documented, tested)
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    # The directories are root's own, if root runs the tests.
    user = "user root;" if os.geteuid() == 0 else ""
    main = f"{user} daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}"
    return f"{main}\nhttp {{ access_log off; {temporary}\n{text}\n}}\n"


@pytest.fixture
def client(proxied: NginxServer) -> Iterator[httpx2.Client]:
    """A client of nginx with a token."""
    headers = {"Authorization": f"Bearer {proxied.server.token}"}
    with httpx2.Client(
        base_url=proxied.origin, verify=proxied.context, headers=headers, timeout=60
    ) as client:
        yield client


ACCEL = {"IMAGEHOST_DELIVERY_ACCEL_REDIRECT": "/imagehost-files/"}
VARIABLES = {
    "by default": {},
    "stores public images": {"IMAGEHOST_DELIVERY_SHARED_MAX_AGE_SECONDS": "3600"},
    "sends files": ACCEL,
}


@pytest.fixture(scope="module", params=VARIABLES)
def proxied(
    tmp_path_factory: pytest.TempPathFactory, workspace: Path, request: pytest.FixtureRequest
) -> Iterator[NginxServer]:
    """A server behind nginx."""
    if shutil.which("nginx") is None or shutil.which("openssl") is None:
        pytest.skip("NOT TESTED: the configuration of nginx, because nginx or openssl is missing")
    folder = tmp_path_factory.mktemp("nginx")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1"
    )
    openssl = [*command.split(), "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"]
    subprocess.run(openssl, check=True, capture_output=True)
    port, redirecting_port = free_port("127.0.0.1"), free_port("127.0.0.1")
    variables = {
        "IMAGEHOST_TRUSTED_PROXIES": "127.0.0.1",
        "IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "1000",
        "IMAGEHOST_LIMITS_UPLOADS_PER_MINUTE": "0",
        **VARIABLES[request.param],
    }
    with running(folder / "data", variables=variables) as server:
        sends_files = "sends" in request.param
        ports = (port, redirecting_port, server.port)
        text = configuration(workspace, folder, *ports, sends_files=sends_files)
        (folder / "nginx.conf").write_text(text, encoding="utf-8")
        check = ["nginx", "-t", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
        checked = subprocess.run(check, capture_output=True, text=True, check=True)
        assert "[warn]" not in checked.stderr
        command_line = ["nginx", "-e", f"{folder}/error.log", "-c", f"{folder}/nginx.conf"]
        process = subprocess.Popen(command_line, stderr=subprocess.DEVNULL)
        try:
            context = ssl.create_default_context(cafile=f"{folder}/cert.pem")
            stores = "stores" in request.param
            nginx = NginxServer(server, port, redirecting_port, context, stores, sends_files)
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


def test_images_are_uploaded_and_served(client: httpx2.Client) -> None:
    content = make_image(1_500, 1_000)
    response = client.get(upload(client, content, convertToWebP="false"))
    assert response.content == content
    assert response.headers["strict-transport-security"] == "max-age=31536000"


def test_a_master_is_sent_by_nginx_if_configured_with_the_headers_of_the_server(
    proxied: NginxServer, client: httpx2.Client
) -> None:
    content = make_image(300, 200)
    path = upload(client, content, convertToWebP="false")
    direct = httpx2.get(f"{proxied.server.origin}{path}", headers={"X-Forwarded-Proto": "https"})
    assert direct.content == (b"" if proxied.sends_files else content)
    assert httpx2.get(f"{proxied.server.origin}{path}").content == content
    for _ in range(2):
        # The response to HEAD is that of the server; nginx marks both in its own way.
        sent, expected = (
            {name: value for name, value in response.headers.multi_items() if name not in OWN_HEADERS}
            for response in (client.get(path), client.head(path))
        )
        assert sent == expected
        assert client.get(path).content == content
    tag = sent["etag"]
    part = client.get(path, headers={"Range": "bytes=10-19", "If-Range": tag})
    assert (part.status_code, part.content) == (206, content[10:20])
    for headers, status in (
        ({"If-None-Match": tag}, 304),
        ({"If-None-Match": '"x"'}, 200),
        ({"If-Modified-Since": sent["last-modified"]}, 304),
        ({"If-Match": tag}, 200),
        ({"If-Match": '"x"'}, 412),
        ({"Range": "bytes=9999999-"}, 416),
    ):
        assert client.get(path, headers=headers).status_code == status


def test_an_image_that_is_private_or_deleted_is_not_sent_by_nginx(
    proxied: NginxServer, client: httpx2.Client
) -> None:
    path = upload(client, make_image(300, 200))
    api = path.replace("/img/", "/v1/images/")
    with httpx2.Client(base_url=proxied.origin, verify=proxied.context) as anonymous:
        if not proxied.stores:
            assert anonymous.get(path).is_success
        client.patch(api, json={"is_public": False}).raise_for_status()
        assert anonymous.get(path).status_code == 404
        assert client.get(path).headers["cache-control"] == "private, no-store"
        client.patch(api, json={"is_public": True}).raise_for_status()
        client.delete(api).raise_for_status()
        assert anonymous.get(path).status_code == 404


def test_a_file_that_nginx_cannot_read_is_an_error_that_is_not_stored(
    proxied: NginxServer, client: httpx2.Client
) -> None:
    path = upload(client, make_image(310, 200))
    image_id = Path(path).name
    (proxied.server.data / "images" / image_id[:2] / image_id / "master").unlink()
    response = client.get(path)
    assert response.status_code in {404, 500}
    assert "no-store" in response.headers["cache-control"]


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


def upload(client: httpx2.Client, content: bytes, **form: str) -> str:
    """Upload an image; return the path of its URL."""
    response = client.post("/v1/upload", files={"image": content}, data=form).raise_for_status()
    return f"/img/{response.json()['data']['id']}"


def test_plain_http_is_redirected_to_https(proxied: NginxServer) -> None:
    response = httpx2.get(f"http://127.0.0.1:{proxied.redirecting_port}/img/x?w=3")
    assert (response.status_code, response.headers["location"]) == (301, "https://127.0.0.1/img/x?w=3")


def test_an_upload_of_20_mb_is_streamed_to_the_server(proxied: NginxServer, client: httpx2.Client) -> None:
    content = make_image(64, 64) + bytes(20 * 2**20)
    record = client.post("/v1/upload", files={"image": content}).raise_for_status().json()["data"]
    assert (record["width"], record["size"] < 20 * 2**20) == (64, True)
    # The server rejects what has no token before it has the body, of which nginx has one part of twenty.
    head = b"POST /v1/upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    head += b"Content-Length: 20971520\r\nConnection: close\r\n\r\n"
    assert proxied.exchange(head + bytes(2**20)).startswith(b"HTTP/1.1 401 ")


def test_a_private_image_is_never_stored_by_the_cache(proxied: NginxServer, client: httpx2.Client) -> None:
    path = upload(client, make_image(300, 200), is_public="false")
    for _ in range(2):
        response = client.get(f"{path}?w=50")
        assert response.headers["cache-control"] == "private, no-store"
        assert response.headers["x-cache-status"] == "MISS"
    with httpx2.Client(base_url=proxied.origin, verify=proxied.context) as anonymous:
        for _ in range(2):
            response = anonymous.get(f"{path}?w=50")
            assert (response.status_code, response.headers["x-cache-status"]) == (404, "MISS")


def test_the_cache_stores_whole_public_images_if_the_server_allows_it(
    proxied: NginxServer, client: httpx2.Client
) -> None:
    path = upload(client, make_image(300, 200))
    tag = client.get(f"{path}?w=80", headers={"Range": "bytes=0-9"}).headers["etag"]
    assert client.get(f"{path}?w=80", headers={"If-None-Match": tag}).status_code == 304
    responses = [client.get(f"{path}?w=80") for _ in range(2)]
    assert [response.status_code for response in responses] == [200, 200]
    cached = ["MISS", "HIT"] if proxied.stores else ["MISS", "MISS"]
    assert [response.headers["x-cache-status"] for response in responses] == cached


def test_the_cache_obeys_vary_and_serves_ranges(client: httpx2.Client) -> None:
    path = upload(client, make_image(300, 200))
    types = [
        client.get(f"{path}?w=60&fm=auto", headers={"Accept": accept}).headers["content-type"]
        for accept in ("image/avif", "image/webp", "image/avif", "image/webp")
    ]
    assert types == ["image/avif", "image/webp"] * 2
    whole = client.get(f"{path}?w=70").content
    for _ in range(2):
        part = client.get(f"{path}?w=70", headers={"Range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, whole[10:20])


def test_a_client_that_has_the_image_gets_304(client: httpx2.Client) -> None:
    path = upload(client, make_image(300, 200))
    tag = client.get(path).headers["etag"]
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 304


@pytest.mark.slow
def test_a_download_at_a_steady_low_rate_is_completed(client: httpx2.Client) -> None:
    require_whole_download(client)
