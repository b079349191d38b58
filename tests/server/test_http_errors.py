"""Over real HTTP: every row of the error table, and every way of asking wrongly."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from imagehost_core.errors import BY_CODE
from imagehost_core.limits import MAX_FILE_BYTES
from imagehost_server.testing import RunningServer, running

SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'
PDF = b"%PDF-1.7\n1 0 obj\n<< >>\nendobj\n"


def check_error(answer: httpx2.Response, code: str, *words: str) -> None:
    """Let an answer pass that is the error of that code, in the envelope, with an id."""
    assert (answer.status_code, answer.json()["error"]["code"]) == (BY_CODE[code].status, code)
    assert answer.json().keys() == {"success", "error"}
    assert answer.json()["success"] is False
    assert answer.json()["error"].keys() == {"code", "message", "details"}
    assert answer.headers["content-type"] == "application/json"
    assert re.fullmatch(r"[0-9a-f]{24}", answer.headers["x-request-id"])
    details = answer.json()["error"]["details"]
    assert [word for word in words if word not in details] == []


def upload(client: httpx2.Client, content: bytes, name: str = "cat.png", **fields: str) -> httpx2.Response:
    return client.post("/v1/upload", files={"image": (name, content)}, data=fields)


# The table of the specification, row by row. 429 comes with the rate limits.


@pytest.mark.parametrize(
    "query", ["per_page=101", "per_page=0", "page=0", "page=abc", "page=", "page=1&page=2", "cursor=x"]
)
def test_400_wrong_query_parameters(api: httpx2.Client, query: str) -> None:
    check_error(api.get(f"/v1/images?{query}"), "BAD_REQUEST", query.partition("=")[0])


def test_400_reports_all_faults_of_a_query_together(api: httpx2.Client) -> None:
    check_error(
        api.get("/v1/images?page=0&per_page=101&cursor=x"), "BAD_REQUEST", "page", "per_page", "cursor"
    )


def test_400_an_album_id_in_a_query_that_can_be_none(api: httpx2.Client) -> None:
    check_error(api.get("/v1/images?album_id=abc"), "BAD_REQUEST", "album_id")


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
def test_401_without_a_good_token(anybody: httpx2.Client, authorization: str | bytes | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = anybody.get("/v1/images", headers=headers)  # type: ignore[arg-type]
    check_error(answer, "UNAUTHORIZED")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_401_for_two_tokens_at_once(server: RunningServer, anybody: httpx2.Client) -> None:
    twice = [("Authorization", f"Bearer {server.token}")] * 2
    check_error(anybody.get("/v1/images", headers=twice), "UNAUTHORIZED", "several")


def test_401_never_repeats_what_was_sent(anybody: httpx2.Client) -> None:
    answer = anybody.get("/v1/images", headers={"Authorization": "Bearer secretsecret"})
    assert "secretsecret" not in answer.text


def test_401_comes_before_anything_is_said_of_the_body(anybody: httpx2.Client) -> None:
    check_error(anybody.post("/v1/albums", content=b"{"), "UNAUTHORIZED")


def test_403_for_a_good_token_without_the_scope(client_of: Callable[..., httpx2.Client]) -> None:
    reader = client_of("admin", "images:read")
    assert reader.get("/v1/images").status_code == 200
    check_error(reader.get("/v1/albums"), "FORBIDDEN", "albums:read", "images:read")
    check_error(upload(reader, b"x"), "FORBIDDEN", "images:write")


@pytest.mark.parametrize("path", ["/v1/images/0123456789abcdef", "/v1/images/x", "/v1/images?album_id=999"])
def test_404_what_does_not_exist(api: httpx2.Client, path: str) -> None:
    check_error(api.get(path), "NOT_FOUND")


def test_404_somebody_elses_image_is_as_one_that_does_not_exist(
    account: httpx2.Client, image_id: str
) -> None:
    missing = "0" * 16
    for method in ("GET", "DELETE"):
        foreign = account.request(method, f"/v1/images/{image_id}")
        nobodys = account.request(method, f"/v1/images/{missing}")
        check_error(foreign, "NOT_FOUND")
        assert foreign.text.replace(image_id, missing) == nobodys.text
        assert foreign.headers.keys() == nobodys.headers.keys()


def test_413_one_byte_too_many_is_told_with_both_sizes(api: httpx2.Client) -> None:
    answer = upload(api, bytes(MAX_FILE_BYTES + 1), "big.png")
    check_error(answer, "PAYLOAD_TOO_LARGE", "52428800 bytes", "52428801 bytes", "big.png")


def test_413_is_not_for_a_file_of_exactly_the_limit(api: httpx2.Client) -> None:
    check_error(upload(api, bytes(MAX_FILE_BYTES)), "UNSUPPORTED_MEDIA_TYPE")


def test_413_a_json_body_above_a_mebibyte(api: httpx2.Client) -> None:
    body = json.dumps({"name": "x" * 2**20})
    answer = api.post("/v1/albums", content=body, headers={"content-type": "application/json"})
    check_error(answer, "PAYLOAD_TOO_LARGE", "1048576 bytes")


@pytest.mark.parametrize("content", [SVG, PDF, b"", b"GIF", b"\x00\x00\x00\x1cftypavif"])
def test_415_content_that_is_no_image_of_ours_whatever_its_name(api: httpx2.Client, content: bytes) -> None:
    check_error(upload(api, content, "cat.png"), "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("declared", ["application/json", "image/png", "application/x-www-form-urlencoded"])
def test_415_an_upload_that_is_no_multipart_form(api: httpx2.Client, declared: str) -> None:
    answer = api.post("/v1/upload", content=b"{}", headers={"content-type": declared})
    check_error(answer, "UNSUPPORTED_MEDIA_TYPE", "multipart/form-data", declared)


@pytest.mark.parametrize("declared", [None, "text/plain", "multipart/form-data; boundary=x"])
def test_415_a_body_that_is_not_declared_as_json(api: httpx2.Client, declared: str | None) -> None:
    headers = {} if declared is None else {"content-type": declared}
    answer = api.post("/v1/albums", content=b'{"name": "x"}', headers=headers)
    check_error(answer, "UNSUPPORTED_MEDIA_TYPE", "application/json")


def test_422_a_picture_that_is_recognised_but_damaged(api: httpx2.Client, picture: bytes) -> None:
    check_error(upload(api, picture[: len(picture) // 2]), "VALIDATION_ERROR")
    check_error(upload(api, picture[:400] + bytes(400) + picture[800:]), "VALIDATION_ERROR")


def test_422_reports_all_wrong_options_together(api: httpx2.Client, picture: bytes) -> None:
    answer = upload(api, picture, quality="0", format="bmp", remove_exif="yes", album_id="x")
    check_error(answer, "VALIDATION_ERROR", "quality", "format", "remove_exif", "album_id")


def test_422_an_album_that_is_not_the_callers(
    api: httpx2.Client, account: httpx2.Client, picture: bytes
) -> None:
    album = api.post("/v1/albums", json={"name": "mine"}).json()["data"]["id"]
    for album_id in (str(album), "999"):
        check_error(upload(account, picture, album_id=album_id), "VALIDATION_ERROR", "album_id")
        many = account.post("/v1/upload", files={"files[]": picture}, data={"album_id": album_id})
        check_error(many, "VALIDATION_ERROR", "album_id")
    assert account.get("/v1/images").json()["data"]["pagination"]["total"] == 0


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("{}", "name"),
        ('{"name": ""}', "name"),
        ('{"name": "  "}', "name"),
        ('{"name": 3}', "name"),
        ('{"name": "x", "is_public": 1}', "is_public"),
        ('{"name": "x", "description": null}', "description"),
        ("[]", "object"),
        ("3", "object"),
    ],
)
def test_422_json_with_a_value_that_is_not_allowed(api: httpx2.Client, body: str, word: str) -> None:
    answer = api.post("/v1/albums", content=body, headers={"content-type": "application/json"})
    check_error(answer, "VALIDATION_ERROR", word)


@pytest.mark.parametrize("body", [b"", b"{", b"{'name': 1}", b"\xff", b'{"name": "\xff"}', b"{} {}"])
def test_400_a_body_that_is_not_json(api: httpx2.Client, body: bytes) -> None:
    answer = api.post("/v1/albums", content=body, headers={"content-type": "application/json"})
    check_error(answer, "BAD_REQUEST")


def test_507_the_disk_has_no_room(tmp_path: Path, picture: bytes) -> None:
    floor = {"IMAGEHOST_STORAGE_MIN_FREE_BYTES": str(10**17)}
    with running(tmp_path / "data", variables=floor) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.origin, headers=headers) as client:
            check_error(upload(client, picture), "INSUFFICIENT_STORAGE")
            assert client.get("/v1/images").json()["data"]["pagination"]["total"] == 0
        assert list((server.data / "images").rglob("*")) == []


def test_507_the_quota_has_no_room(tmp_path: Path, picture: bytes) -> None:
    with running(tmp_path / "data", variables={"IMAGEHOST_LIMITS_QUOTA_BYTES": "10"}) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx2.Client(base_url=server.origin, headers=headers) as client:
            check_error(upload(client, picture), "INSUFFICIENT_STORAGE", "quota")
            assert client.get("/v1/images").json()["data"]["pagination"]["total"] == 0


# What the table does not have.


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/nope", "/v2/images", "/img", "/imgx/0123456789abcdef", "/v1/images/a/b"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_route_is_404(anybody: httpx2.Client, method: str, path: str) -> None:
    check_error(anybody.request(method, path), "NOT_FOUND")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/upload", "OPTIONS, POST"),
        ("PUT", "/v1/images", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/images/0123456789abcdef", "DELETE, GET, HEAD, OPTIONS, PATCH"),
        ("POST", "/img/0123456789abcdef", "GET, HEAD, OPTIONS"),
        ("PROPFIND", "/v1/albums", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_a_wrong_method_is_405_and_allow_lists_the_right_ones(
    anybody: httpx2.Client, method: str, path: str, allow: str
) -> None:
    answer = anybody.request(method, path)
    check_error(answer, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allow


def test_a_fault_of_ours_is_500_and_its_cause_is_in_the_log_alone(
    server: RunningServer, anybody: httpx2.Client, image_id: str
) -> None:
    master = server.data / "images" / image_id[:2] / image_id / "master"
    master.unlink()
    master.mkdir()
    answer = anybody.get(f"/img/{image_id}.webp")
    check_error(answer, "INTERNAL_ERROR")
    assert "master" not in answer.text
    log = server.log.read_text(encoding="utf-8")
    assert f"request_id={answer.headers['x-request-id']} code=INTERNAL_ERROR" in log
    assert "IsADirectoryError" in log


def test_503_says_when_to_come_again(tmp_path: Path) -> None:
    with running(tmp_path / "data") as server, httpx2.Client(base_url=server.origin) as client:
        assert client.get("/readyz").status_code == 200
        staging = server.data / "staging"
        staging.rename(server.data / "elsewhere")
        answer = client.get("/readyz")
        check_error(answer, "SERVICE_UNAVAILABLE")
        assert int(answer.headers["retry-after"]) >= 1
        (server.data / "elsewhere").rename(staging)
        assert client.get("/readyz").status_code == 200


# Bodies that no client library sends.


def speak(server: RunningServer, request: bytes, *, hang_up: bool = False) -> tuple[int, bytes]:
    """Send bytes, and return the status and the rest of the answer."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as wire:
        wire.sendall(request)
        if hang_up:
            wire.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := wire.recv(65_536):
            answer += piece
    return int(answer.split(b" ", 2)[1]), answer


def post(server: RunningServer, content_type: str, body: bytes, length: int | None = None) -> bytes:
    return (
        f"POST /v1/upload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Authorization: Bearer {server.token}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    ).encode() + body


FORM = "multipart/form-data; boundary=B"
PART = b'--B\r\nContent-Disposition: form-data; name="image"; filename="c.png"\r\n\r\n'


def test_a_form_without_a_boundary_is_400(server: RunningServer) -> None:
    status, answer = speak(server, post(server, "multipart/form-data", PART))
    assert (status, b"boundary" in answer) == (400, True)


@pytest.mark.parametrize(
    "body", [b"", b"--B", PART, PART + b"data", PART + b"data\r\n--B", PART + b"data\r\n--B\r\n"]
)
def test_a_form_that_does_not_end_is_400(server: RunningServer, body: bytes) -> None:
    status, answer = speak(server, post(server, FORM, body))
    assert (status, b'"BAD_REQUEST"' in answer) == (400, True)


def test_a_body_that_is_cut_short_is_400(server: RunningServer) -> None:
    whole = PART + b"data\r\n--B--\r\n"
    status, answer = speak(server, post(server, FORM, whole, len(whole) + 100), hang_up=True)
    assert (status, b'"BAD_REQUEST"' in answer) == (400, True)


def test_a_request_without_host_or_with_two_is_400(server: RunningServer) -> None:
    for hosts in (b"", b"Host: a\r\nHost: b\r\n"):
        request = b"GET /healthz HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n"
        status, answer = speak(server, request)
        assert (status, b"exactly one header for Host" in answer) == (400, True)


def test_a_method_that_http_does_not_have_is_400(server: RunningServer) -> None:
    """The parser of requests knows those that are registered with IANA, and a few more."""
    status, answer = speak(server, b"BREW /v1/albums HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (status, b'"BAD_REQUEST"' in answer) == (400, True)


def test_headers_that_do_not_end_are_not_kept_in_memory(server: RunningServer) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000 + b"\r\n\r\n"
    assert speak(server, request)[0] == 431


def test_nothing_is_left_of_uploads_that_failed(server: RunningServer) -> None:
    speak(server, post(server, FORM, PART + bytes(3_000_000)))
    waiting = [
        path for path in (server.data / "staging").rglob("*") if path.is_file() and path.name != "lock"
    ]
    assert waiting == []
