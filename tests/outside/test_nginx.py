"""nginx in front of the server: what is not the same with every reverse proxy."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from tests.outside.reverse_proxies import ProxiedServer, behind
from tests.slow_downloads import require_whole_download

from imagehost_core.testing import make_image

OWN_HEADERS = {"date", "x-request-id", "x-cache-status"}
"""Headers of which each response has its own."""
SENDS_FILES = "nginx that sends files"


@pytest.fixture(scope="module", params=["nginx", "nginx that stores images", SENDS_FILES])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def proxied(
    name: str, certificate: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ProxiedServer]:
    """A server behind nginx."""
    with behind(name, certificate, tmp_path_factory.mktemp("nginx")) as proxied:
        yield proxied


@pytest.fixture
def client(proxied: ProxiedServer) -> Iterator[httpx2.Client]:
    """A client of nginx with a token."""
    with proxied.authorized() as client:
        yield client


def test_images_are_uploaded_and_served(client: httpx2.Client) -> None:
    content = make_image(1_500, 1_000)
    response = client.get(upload(client, content, convertToWebP="false"))
    assert response.content == content
    assert response.headers["strict-transport-security"] == "max-age=31536000"


def test_the_configuration_has_no_warnings(proxied: ProxiedServer) -> None:
    directory = proxied.place.directory
    command = ["nginx", "-t", "-e", f"{directory}/check.log", "-c", f"{directory}/nginx.conf"]
    checked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "[warn]" not in checked.stderr


def test_a_master_is_sent_by_nginx_if_configured_with_the_headers_of_the_server(
    proxied: ProxiedServer, client: httpx2.Client, name: str
) -> None:
    content = make_image(300, 200)
    path = upload(client, content, convertToWebP="false")
    direct = proxied.get_directly(path, {"X-Forwarded-Proto": "https"})
    assert direct.content == (b"" if name == SENDS_FILES else content)
    assert proxied.get_directly(path).content == content
    for _ in range(2):
        # The response to HEAD is that of the server; nginx marks both in its own way.
        sent, expected = (
            {name: value for name, value in response.headers.multi_items() if name not in OWN_HEADERS}
            for response in (client.get(path), client.head(path))
        )
        assert sent == expected
        assert client.get(path).content == content


@pytest.mark.parametrize("name", [SENDS_FILES], indirect=True, scope="module")
def test_the_error_for_a_file_that_is_deleted_before_nginx_opens_it_is_not_stored(
    proxied: ProxiedServer, client: httpx2.Client
) -> None:
    path = upload(client, make_image(310, 200))
    proxied.place.files.rename(hidden := proxied.place.directory / "hidden")
    try:
        response = client.get(path)
    finally:
        hidden.rename(proxied.place.files)
    assert response.status_code == 404
    # nginx cannot remove that of the response by which it got the path.
    assert response.headers.get_list("cache-control") == ["public, max-age=86400, s-maxage=0", "no-store"]
    assert client.get(path).status_code == 200


def test_x_forwarded_proto_of_the_client_is_replaced(proxied: ProxiedServer) -> None:
    headers = {"X-Forwarded-Proto": "http"}
    assert proxied.get("/v1/gallery", headers).status_code == 200


def test_nginx_rejects_two_lengths_and_normalizes_line_ends(proxied: ProxiedServer) -> None:
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


def test_plain_http_is_redirected_to_https(proxied: ProxiedServer) -> None:
    response = httpx2.get(f"http://127.0.0.1:{proxied.place.http_port}/img/x?w=3")
    assert (response.status_code, response.headers["location"]) == (301, "https://127.0.0.1/img/x?w=3")


def test_an_upload_of_20_mb_is_streamed_to_the_server(proxied: ProxiedServer, client: httpx2.Client) -> None:
    content = make_image(64, 64) + bytes(20 * 2**20)
    record = client.post("/v1/upload", files={"image": content}).raise_for_status().json()["data"]
    assert (record["width"], record["size"] < 20 * 2**20) == (64, True)
    # The server rejects what has no token before it has the body, of which nginx has one part of twenty.
    head = b"POST /v1/upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n"
    head += b"Content-Length: 20971520\r\nConnection: close\r\n\r\n"
    assert proxied.exchange(head + bytes(2**20)).startswith(b"HTTP/1.1 401 ")


@pytest.mark.slow
def test_a_download_at_a_steady_low_rate_is_completed(client: httpx2.Client) -> None:
    require_whole_download(client)
