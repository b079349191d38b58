"""Error responses over HTTP: every code, and requests that cause it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from tests.live_files import iter_files
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.waiting import PATIENCE

from imagehost_core.errors import BY_CODE
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_core.settings import LimitSettings, StorageSettings
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import RunningServer

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'
PDF = b"%PDF-1.7\n1 0 obj\n<< >>\nendobj\n"


def assert_error(response: httpx2.Response, code: str, *details: str) -> None:
    """Assert that a response is the error envelope of a code, whose details contain the given texts."""
    assert (response.status_code, response.json()["error"]["code"]) == (BY_CODE[code].status, code)
    assert response.json().keys() == {"success", "error"}
    assert response.json()["success"] is False
    assert response.json()["error"].keys() == {"code", "message", "details"}
    assert response.headers["content-type"] == "application/json"
    assert re.fullmatch(r"[0-9a-f]{24}", response.headers["x-request-id"])
    text = response.json()["error"]["details"]
    assert [detail for detail in details if detail not in text] == []


def upload(client: httpx2.Client, content: bytes, name: str = "cat.png", **fields: str) -> httpx2.Response:
    return client.post("/v1/upload", files={"image": (name, content)}, data=fields)


# By status. 429 is in test_http_limits.


@pytest.mark.parametrize(
    "query", ["per_page=101", "per_page=0", "page=0", "page=abc", "page=", "page=1&page=2", "cursor=x"]
)
def test_400_for_invalid_query_parameters(api: httpx2.Client, query: str) -> None:
    assert_error(api.get(f"/v1/images?{query}"), "BAD_REQUEST", query.partition("=")[0])


def test_400_reports_all_invalid_query_parameters_together(api: httpx2.Client) -> None:
    assert_error(
        api.get("/v1/images?page=0&per_page=101&cursor=x"), "BAD_REQUEST", "page", "per_page", "cursor"
    )


def test_400_for_a_malformed_album_id_in_the_query(api: httpx2.Client) -> None:
    assert_error(api.get("/v1/images?album_id=abc"), "BAD_REQUEST", "album_id")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer x",
        "Basic YTpi",
        "ihk_1",
        f"Bearer ihk_{'0' * 36}",
        "Bearer é".encode("latin-1"),
    ],
)
def test_401_without_a_valid_token(anonymous: httpx2.Client, authorization: str | bytes | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    response = anonymous.get("/v1/images", headers=headers)  # type: ignore[arg-type]
    assert_error(response, "UNAUTHORIZED")
    assert response.headers["www-authenticate"] == "Bearer"


def test_401_for_two_tokens_at_once(server: RunningServer, anonymous: httpx2.Client) -> None:
    headers = [("Authorization", f"Bearer {server.token}")] * 2
    assert_error(anonymous.get("/v1/images", headers=headers), "UNAUTHORIZED", "several")


def test_401_does_not_echo_the_received_token(anonymous: httpx2.Client) -> None:
    response = anonymous.get("/v1/images", headers={"Authorization": "Bearer secretsecret"})
    assert "secretsecret" not in response.text


def test_401_comes_before_errors_of_the_body(anonymous: httpx2.Client) -> None:
    assert_error(anonymous.post("/v1/albums", content=b"{"), "UNAUTHORIZED")


def test_403_for_a_valid_token_without_the_scope(client_of: Callable[..., httpx2.Client]) -> None:
    reader = client_of("admin", "images:read")
    assert reader.get("/v1/images").status_code == 200
    assert_error(reader.get("/v1/albums"), "FORBIDDEN", "albums:read", "images:read")
    assert_error(upload(reader, b"x"), "FORBIDDEN", "images:write")


@pytest.mark.parametrize("path", ["/v1/images/0123456789abcdef", "/v1/images/x", "/v1/images?album_id=999"])
def test_404_for_missing_resources(api: httpx2.Client, path: str) -> None:
    assert_error(api.get(path), "NOT_FOUND")


def test_404_for_a_foreign_image_equals_that_of_a_missing_one(account: httpx2.Client, image_id: str) -> None:
    missing = "0" * 16
    for method in ("GET", "DELETE"):
        foreign = account.request(method, f"/v1/images/{image_id}")
        absent = account.request(method, f"/v1/images/{missing}")
        assert_error(foreign, "NOT_FOUND")
        assert foreign.text.replace(image_id, missing) == absent.text
        assert foreign.headers.keys() == absent.headers.keys()


def test_413_names_the_limit_and_the_submitted_size(api: httpx2.Client) -> None:
    response = upload(api, bytes(MAX_FILE_BYTES + 1), "big.png")
    assert_error(response, "PAYLOAD_TOO_LARGE", "52428800 bytes", "52428801 bytes", "big.png")


def test_a_file_of_exactly_the_limit_is_not_413(api: httpx2.Client) -> None:
    assert_error(upload(api, bytes(MAX_FILE_BYTES)), "UNSUPPORTED_MEDIA_TYPE")


def test_413_for_a_json_body_above_one_mebibyte(api: httpx2.Client) -> None:
    body = json.dumps({"name": "x" * 2**20})
    response = api.post("/v1/albums", content=body, headers={"content-type": "application/json"})
    assert_error(response, "PAYLOAD_TOO_LARGE", "1048576 bytes")


@pytest.mark.parametrize("content", [SVG, PDF, b"", b"GIF", b"\x00\x00\x00\x1cftypavif"])
def test_415_for_content_that_is_not_a_supported_image_whatever_its_name(
    api: httpx2.Client, content: bytes
) -> None:
    assert_error(upload(api, content, "cat.png"), "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("declared", ["application/json", "image/png", "application/x-www-form-urlencoded"])
def test_415_for_an_upload_that_is_not_multipart_form_data(api: httpx2.Client, declared: str) -> None:
    response = api.post("/v1/upload", content=b"{}", headers={"content-type": declared})
    assert_error(response, "UNSUPPORTED_MEDIA_TYPE", "multipart/form-data", declared)


def test_the_error_of_an_urlencoded_form_says_how_to_send_the_other(api: httpx2.Client) -> None:
    response = api.post("/v1/upload", data={"image_url": "https://example.com/cat.png"})
    assert_error(response, "UNSUPPORTED_MEDIA_TYPE", "multipart/form-data (curl -F, files= in Python)")


@pytest.mark.parametrize("declared", [None, "text/plain", "multipart/form-data; boundary=x"])
def test_415_for_a_body_that_is_not_declared_as_json(api: httpx2.Client, declared: str | None) -> None:
    headers = {} if declared is None else {"content-type": declared}
    response = api.post("/v1/albums", content=b'{"name": "x"}', headers=headers)
    assert_error(response, "UNSUPPORTED_MEDIA_TYPE", "application/json")


def test_422_for_a_damaged_image(api: httpx2.Client, png: bytes) -> None:
    assert_error(upload(api, png[: len(png) // 2]), "VALIDATION_ERROR")
    assert_error(upload(api, png[:400] + bytes(400) + png[800:]), "VALIDATION_ERROR")


def test_422_reports_all_invalid_options_together(api: httpx2.Client, png: bytes) -> None:
    response = upload(api, png, quality="0", format="bmp", remove_exif="yes", album_id="x")
    assert_error(response, "VALIDATION_ERROR", "quality", "format", "remove_exif", "album_id")


def test_422_for_a_foreign_or_missing_album_before_anything_is_stored(
    api: httpx2.Client, account: httpx2.Client, png: bytes
) -> None:
    album = api.post("/v1/albums", json={"name": "mine"}).json()["data"]["id"]
    for album_id in (str(album), "999"):
        assert_error(upload(account, png, album_id=album_id), "VALIDATION_ERROR", "album_id")
        batch = account.post("/v1/upload", files={"files[]": png}, data={"album_id": album_id})
        assert_error(batch, "VALIDATION_ERROR", "album_id")
    assert account.get("/v1/images").json()["data"]["pagination"]["total"] == 0


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("{}", "name"),
        ('{"name": ""}', "name"),
        ('{"name": "  "}', "name"),
        ('{"name": 3}', "name"),
        ('{"name": "x", "is_public": 2}', "is_public"),
        ('{"name": "x", "description": null}', "description"),
        ("[]", "object"),
        ("3", "object"),
    ],
)
def test_422_for_json_with_an_invalid_value(api: httpx2.Client, body: str, word: str) -> None:
    response = api.post("/v1/albums", content=body, headers={"content-type": "application/json"})
    assert_error(response, "VALIDATION_ERROR", word)


@pytest.mark.parametrize("body", [b"", b"{", b"{'name': 1}", b"\xff", b'{"name": "\xff"}', b"{} {}"])
def test_400_for_a_body_that_is_not_json(api: httpx2.Client, body: bytes) -> None:
    response = api.post("/v1/albums", content=body, headers={"content-type": "application/json"})
    assert_error(response, "BAD_REQUEST")


@contextmanager
def uploading_client(data: Path, settings: ServerSettings) -> Iterator[httpx2.Client]:
    """Serve a data directory with settings; yield a client of its first account."""
    host = open_host(data, settings=settings)
    headers = {"Authorization": f"Bearer {host.keys.create(owner='admin').token}"}
    with serving(host, settings) as origin, httpx2.Client(base_url=origin, headers=headers) as client:
        yield client


def test_507_when_the_disk_is_full(tmp_path: Path, png: bytes) -> None:
    settings = ServerSettings(storage=StorageSettings(min_free_bytes=10**17))
    with uploading_client(tmp_path / "data", settings) as client:
        assert_error(upload(client, png), "INSUFFICIENT_STORAGE")
        assert client.get("/v1/images").json()["data"]["pagination"]["total"] == 0
        stored = (tmp_path / "data" / "images").rglob("*")
        assert [path.name for path in stored] == ["installation.json"]


def test_507_when_the_quota_is_exhausted(tmp_path: Path, png: bytes) -> None:
    settings = ServerSettings(limits=LimitSettings(quota_bytes=10))
    with uploading_client(tmp_path / "data", settings) as client:
        assert_error(upload(client, png), "INSUFFICIENT_STORAGE", "quota")
        assert client.get("/v1/images").json()["data"]["pagination"]["total"] == 0


# Routing, internal errors and overload.


@pytest.mark.parametrize(
    "path",
    ["/nope", "/v1", "/v1/nope", "/v2/images", "/img", "/imgx/0123456789abcdef", "/v1/images/a/b"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_route_is_404(anonymous: httpx2.Client, method: str, path: str) -> None:
    assert_error(anonymous.request(method, path), "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/upload", "OPTIONS, POST"),
        ("PUT", "/v1/images", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("POST", "/v1/images/0123456789abcdef", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("POST", "/img/0123456789abcdef", "GET, HEAD, OPTIONS"),
        ("PROPFIND", "/v1/albums", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_a_wrong_method_is_405_with_an_allow_header(
    anonymous: httpx2.Client, method: str, path: str, allow: str
) -> None:
    response = anonymous.request(method, path)
    assert_error(response, "METHOD_NOT_ALLOWED")
    assert response.headers["allow"] == allow


def test_an_internal_error_is_500_and_its_cause_is_only_in_the_log(
    server: RunningServer, anonymous: httpx2.Client, image_id: str
) -> None:
    master = server.data / "images" / image_id[:2] / image_id / "master"
    master.unlink()
    master.mkdir()
    response = anonymous.get(f"/img/{image_id}.webp")
    assert_error(response, "INTERNAL_ERROR")
    assert "master" not in response.text
    log = server.log.read_text(encoding="utf-8")
    assert f"request_id={response.headers['x-request-id']} code=INTERNAL_ERROR" in log
    assert "IsADirectoryError" in log


def test_a_render_of_a_damaged_master_is_500_and_never_422(
    server: RunningServer, anonymous: httpx2.Client, image_id: str
) -> None:
    master = server.data / "images" / image_id[:2] / image_id / "master"
    master.write_bytes(master.read_bytes()[:100])
    response = anonymous.get(f"/img/{image_id}.png?w=20")
    assert_error(response, "INTERNAL_ERROR")
    log = server.log.read_text(encoding="utf-8")
    assert f"request_id={response.headers['x-request-id']} code=INTERNAL_ERROR" in log
    assert "DamagedSourceError" in log


def test_503_has_retry_after_and_names_the_store_to_loopback_and_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, settings = tmp_path / "data", ServerSettings()
    with (
        serving(open_host(data, settings=settings), settings) as origin,
        httpx2.Client(base_url=origin) as client,
    ):
        assert client.get("/readyz").status_code == 200
        (data / "staging").rename(data / "elsewhere")
        response = client.get("/readyz")
        assert_error(response, "SERVICE_UNAVAILABLE")
        assert int(response.headers["retry-after"]) >= 1
        assert response.json()["error"]["details"].endswith("no response from data directory")
        proxied = client.get("/readyz", headers={"X-Forwarded-For": "192.0.2.7"})
        assert_error(proxied, "SERVICE_UNAVAILABLE")
        assert proxied.json()["error"]["details"].endswith("no response")
        (line,) = [record for record in caplog.records if record.message == "not ready"]
        assert vars(line)["fields"]["reason"] == "data directory", "one line for both probes"
        (data / "elsewhere").rename(data / "staging")
        assert client.get("/readyz").status_code == 200


# Requests that HTTP client libraries do not send.


def send_raw(server: RunningServer, request: bytes, *, half_close: bool = False) -> tuple[int, bytes]:
    """Send bytes; return the status and the whole response."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(request)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        response = b""
        while chunk := connection.recv(65_536):
            response += chunk
    return int(response.split(b" ", 2)[1]), response


def upload_request(server: RunningServer, content_type: str, body: bytes, length: int | None = None) -> bytes:
    return (
        f"POST /v1/upload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Authorization: Bearer {server.token}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    ).encode() + body


FORM = "multipart/form-data; boundary=B"
PART = b'--B\r\nContent-Disposition: form-data; name="image"; filename="c.png"\r\n\r\n'


def test_a_form_without_a_boundary_is_400(server: RunningServer) -> None:
    status, response = send_raw(server, upload_request(server, "multipart/form-data", PART))
    assert (status, b"boundary" in response) == (400, True)


@pytest.mark.parametrize(
    "body", [b"", b"--B", PART, PART + b"data", PART + b"data\r\n--B", PART + b"data\r\n--B\r\n"]
)
def test_a_form_without_an_end_is_400(server: RunningServer, body: bytes) -> None:
    status, response = send_raw(server, upload_request(server, FORM, body))
    assert (status, b'"BAD_REQUEST"' in response) == (400, True)


def test_a_truncated_body_is_400(server: RunningServer) -> None:
    body = PART + b"data\r\n--B--\r\n"
    status, response = send_raw(server, upload_request(server, FORM, body, len(body) + 100), half_close=True)
    assert (status, b'"BAD_REQUEST"' in response) == (400, True)


def test_a_request_without_host_or_with_two_is_400(server: RunningServer) -> None:
    for hosts in (b"", b"Host: a\r\nHost: b\r\n"):
        request = b"GET /healthz HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n"
        status, response = send_raw(server, request)
        assert (status, b"exactly one header for Host" in response) == (400, True)


def test_an_unregistered_http_method_is_400(server: RunningServer) -> None:
    """The HTTP parser accepts the methods that are registered with IANA, and a few more."""
    status, response = send_raw(server, b"BREW /v1/albums HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (status, b'"BAD_REQUEST"' in response) == (400, True)


def test_oversized_headers_are_431(server: RunningServer) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n"
    assert send_raw(server, request)[0] == 431


def test_a_failed_upload_leaves_no_staged_files(server: RunningServer) -> None:
    send_raw(server, upload_request(server, FORM, PART + bytes(3_000_000)))
    staged = [path for path in iter_files(server.data / "staging") if path.name != "lock"]
    assert staged == []
