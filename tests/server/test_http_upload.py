"""Uploads over HTTP: both forms, and the result of each file."""

from __future__ import annotations

import asyncio
import io
import shutil
import socket
import subprocess
from datetime import UTC, datetime, timedelta
from itertools import count

import attrs
import httpx2
import pytest
from PIL import Image
from tests.open_host import open_host
from tests.server.in_process import serving
from tests.unusual_files import lossless_jpeg, png_chunks, with_bad_checksum
from tests.waiting import PATIENCE

from imagehost_core.resources import ImageRecord
from imagehost_core.settings import LimitSettings, RenderingSettings
from imagehost_core.testing import make_image
from imagehost_server.settings import ServerSettings
from imagehost_server.testing import RunningServer

FIELDS = [attribute.name for attribute in attrs.fields(ImageRecord)]


def test_form_2_returns_the_image_record(api: httpx2.Client, server: RunningServer, png: bytes) -> None:
    response = api.post("/v1/upload", files={"image": ("cat.png", png)}, data={"description": "Asleep"})
    assert response.status_code == 200
    assert response.json().keys() == {"success", "data"}
    record = response.json()["data"]
    assert list(record) == FIELDS
    assert (record["width"], record["height"], record["format"]) == (320, 240, "webp")
    assert (record["original_filename"], record["description"]) == ("cat.png", "Asleep")
    assert record["url"] == f"{server.origin}/img/{record['id']}.webp"
    assert record["created_at"].endswith("Z")
    assert len(record["created_at"]) == len("2026-01-01T00:00:00.000000Z")


@pytest.mark.parametrize(
    ("form", "media_type"),
    [
        ({}, "image/webp"),
        ({"convertToWebP": "false"}, "image/jpeg"),
        ({"format": "jpeg"}, "image/jpeg"),
        ({"format": "png"}, "image/png"),
    ],
)
def test_a_lossless_jpeg_is_served_re_encoded_in_every_size_and_format(
    api: httpx2.Client, anonymous: httpx2.Client, form: dict[str, str], media_type: str
) -> None:
    upload = lossless_jpeg(Image.open(io.BytesIO(make_image(64, 48))))
    record = api.post("/v1/upload", files={"image": ("scan.jpg", upload)}, data=form).json()["data"]
    master = anonymous.get(record["url"])
    assert (master.status_code, master.headers["content-type"]) == (200, media_type)
    assert master.content != upload
    for query in ("w=1", "w=10&fm=jpg", "w=40&fm=webp", "w=100&fm=png", "fm=avif"):
        assert anonymous.get(f"/img/{record['id']}?{query}").status_code == 200


def test_a_bad_checksum_of_a_png_is_422_only_in_a_critical_chunk(api: httpx2.Client) -> None:
    file = io.BytesIO()
    Image.open(io.BytesIO(make_image(64, 48))).save(file, "PNG", dpi=(72, 72))
    statuses = {}
    for kind, offset in png_chunks(file.getvalue()):
        broken = with_bad_checksum(file.getvalue(), offset)
        response = api.post("/v1/upload", files={"image": ("a.png", broken)}, data={"convertToWebP": "false"})
        statuses[kind] = response.status_code
    assert statuses == {b"IHDR": 422, b"pHYs": 200, b"IDAT": 422, b"IEND": 422}


def test_images_have_the_time_at_which_their_request_was_complete_in_the_order_of_its_files() -> None:
    settings = ServerSettings(
        limits=LimitSettings(uploads_per_minute=0), rendering=RenderingSettings(processes=1)
    )
    ticks = count()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    host = open_host(settings=settings, clock=lambda: start + timedelta(seconds=next(ticks)))
    token = host.keys.create(owner="admin").token
    with (
        serving(host, settings) as origin,
        httpx2.Client(base_url=f"{origin}/v1", timeout=PATIENCE) as client,
    ):
        client.headers["authorization"] = f"Bearer {token}"
        files = [("files[]", (f"{number}.png", make_image(400 - 90 * number, 30))) for number in range(4)]
        begun = next(ticks)
        images = client.post("/upload", files=files).json()["data"]["images"]
        times = [datetime.fromisoformat(image["created_at"]) for image in images]
        assert [time - times[0] for time in times] == [timedelta(microseconds=number) for number in range(4)]
        assert start + timedelta(seconds=begun) < times[0] < start + timedelta(seconds=next(ticks))
        assert [image["filename"] for image in images] == [f"{number}.webp" for number in range(4)]
        listed = client.get("/images").json()["data"]["images"]
        assert listed == images[::-1]


@pytest.mark.parametrize("name", ["files[]", "files", "files%5B%5D", "files[0]", "files%5B12%5D"])
def test_form_1_returns_records_and_errors_of_all_files_in_order(api: httpx2.Client, name: str) -> None:
    files = [(name, (f"{number}.png", make_image(8, 8, seed=number))) for number in range(3)]
    files.insert(1, (name, ("notes.txt", b"not an image")))
    data = api.post("/v1/upload", files=files).json()["data"]
    assert [image["original_filename"] for image in data["images"]] == ["0.png", "1.png", "2.png"]
    assert [list(image) for image in data["images"]] == [FIELDS] * 3
    (error,) = data["errors"]
    assert list(error) == ["index", "filename", "code", "message", "details"]
    assert (error["index"], error["filename"]) == (1, "notes.txt")
    assert error["code"] == "UNSUPPORTED_MEDIA_TYPE"


def test_form_1_with_one_file_returns_a_list(api: httpx2.Client, png: bytes) -> None:
    data = api.post("/v1/upload", files={"files[]": png}).json()["data"]
    assert (len(data["images"]), data["errors"]) == (1, [])


def test_if_no_file_is_stored_the_status_is_their_common_one_or_422(api: httpx2.Client, png: bytes) -> None:
    text, damaged = ("a.txt", b"text"), ("b.png", png[:300])
    same = api.post("/v1/upload", files=[("files[]", text), ("files[]", text)])
    differs = api.post("/v1/upload", files=[("files[]", text), ("files[]", damaged)])
    assert (same.status_code, differs.status_code) == (415, 422)
    for response in (same, differs):
        details = response.json()["error"]["details"]
        assert "files[0] a.txt: " in details
        assert "files[1] " in details


@pytest.mark.parametrize("name", ["image", "file"])
def test_options_may_precede_or_follow_the_file(api: httpx2.Client, name: str) -> None:
    part = f'--B\r\nContent-Disposition: form-data; name="{name}"; filename="x.png"\r\n\r\n'.encode()
    file = part + make_image(8, 8) + b"\r\n"
    option = b'--B\r\nContent-Disposition: form-data; name="is_public"\r\n\r\nFALSE\r\n'
    for body in (file + option, option + file):
        response = api.post(
            "/v1/upload",
            content=body + b"--B--\r\n",
            headers={"content-type": "multipart/form-data; boundary=B"},
        )
        assert response.json()["data"]["is_public"] is False


def test_form_2_accepts_the_options_of_form_1(api: httpx2.Client, png: bytes) -> None:
    form = {"format": "jpeg", "quality": "50", "auto_rename": "1", "remove_exif": "true", "unknown": "x"}
    record = api.post("/v1/upload", files={"image": ("cat.png", png)}, data=form).json()["data"]
    assert (record["format"], record["original_filename"]) == ("jpeg", "cat.png")
    assert record["filename"] != "cat.png"


def test_both_forms_at_once_are_400(api: httpx2.Client, png: bytes) -> None:
    response = api.post("/v1/upload", files=[("files[]", png), ("image", png)])
    assert (response.status_code, "both" in response.text) == (400, True)


def test_two_files_in_form_2_are_400(api: httpx2.Client, png: bytes) -> None:
    response = api.post("/v1/upload", files=[("image", png), ("file", png)])
    assert (response.status_code, "one file for image" in response.text) == (400, True)


def test_a_form_without_a_file_or_with_an_unnamed_empty_one_is_400(api: httpx2.Client) -> None:
    empty = b'--B\r\nContent-Disposition: form-data; name="image"; filename=""\r\n\r\n\r\n--B--\r\n'
    headers = {"content-type": "multipart/form-data; boundary=B"}
    for body in (b"--B--\r\n", empty):
        response = api.post("/v1/upload", content=body, headers=headers)
        assert (
            response.status_code,
            "expected a file in files[], files, image or file" in response.text,
        ) == (
            400,
            True,
        )


def test_twenty_files_are_accepted_and_twenty_one_are_not(api: httpx2.Client) -> None:
    files = [("files[]", (f"{number}.png", make_image(4, 4))) for number in range(21)]
    assert len(api.post("/v1/upload", files=files[:20]).json()["data"]["images"]) == 20
    assert api.post("/v1/upload", files=files).status_code == 400


def test_filenames_are_decoded_as_browsers_encode_them(api: httpx2.Client) -> None:
    names = {"a%22b.png": 'a"b.png', "100%25.png": "100%25.png", "é ü.png": "é ü.png", "../../x.png": "x.png"}
    for encoded, filename in names.items():
        part = f'--B\r\nContent-Disposition: form-data; name="image"; filename="{encoded}"\r\n\r\n'.encode()
        response = api.post(
            "/v1/upload",
            content=part + make_image(4, 4) + b"\r\n--B--\r\n",
            headers={"content-type": "multipart/form-data; boundary=B"},
        )
        assert response.json()["data"]["original_filename"] == filename


def test_the_path_alias_accepts_uploads_and_never_appears_in_responses(
    api: httpx2.Client, png: bytes
) -> None:
    response = api.post("/api/v1/upload", files={"file": png})
    assert response.status_code == 200
    assert "/api/v1" not in response.text


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_command_of_the_first_start_uploads_an_image(server: RunningServer) -> None:
    line = next(line for line in server.output.splitlines() if line.strip().startswith("curl "))
    result = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
    assert '"success":true' in result.stdout
    assert '"original_filename":"sample.png"' in result.stdout


def test_expect_100_continue_is_answered_before_the_body(server: RunningServer, png: bytes) -> None:
    part = b'--B\r\nContent-Disposition: form-data; name="image"; filename="x.png"\r\n\r\n'
    body = part + png + b"\r\n--B--\r\n"
    head = (
        f"POST /v1/upload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n"
        f"Authorization: Bearer {server.token}\r\nContent-Type: multipart/form-data; boundary=B\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_expect_100_continue_is_refused_without_a_token(server: RunningServer) -> None:
    head = (
        b"POST /v1/upload HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9999\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(head)
        assert connection.recv(100).startswith(b"HTTP/1.1 401 ")


def test_concurrent_uploads_are_all_stored(server: RunningServer, account: httpx2.Client) -> None:
    async def upload_one(client: httpx2.AsyncClient, number: int) -> int:
        response = await client.post("/v1/upload", files={"image": make_image(40, 40, seed=number)})
        return response.status_code

    async def upload_all() -> list[int]:
        headers = {"Authorization": account.headers["authorization"]}
        async with httpx2.AsyncClient(base_url=server.origin, headers=headers, timeout=PATIENCE) as client:
            return await asyncio.gather(*(upload_one(client, number) for number in range(16)))

    assert asyncio.run(upload_all()) == [200] * 16
    assert account.get("/v1/images").json()["data"]["pagination"]["total"] == 16
