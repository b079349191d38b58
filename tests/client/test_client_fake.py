"""The fake host validates requests as the real host does."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, get_args

import httpx2
import pytest

from imagehost_client import (
    Client,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
    UnavailableError,
    models,
)
from imagehost_client.testing import FakeImageHost, make_gif, make_png
from imagehost_client.testing._forms import MAX_BYTES
from imagehost_client.testing._image_files import read_image_info
from imagehost_client.testing._store import SCOPES
from imagehost_core.models import Scope


@pytest.fixture
def http(host: FakeImageHost) -> Iterator[httpx2.Client]:
    """A plain HTTP client with a valid token."""
    headers = {"Authorization": f"Bearer {host.accounts['admin']}"}
    with httpx2.Client(base_url=host.base_url, transport=host, headers=headers) as client:
        yield client


def assert_error(response: httpx2.Response, status: int, code: str, text: str = "") -> None:
    """Assert that a response is this error."""
    envelope = response.json()
    assert (response.status_code, envelope["success"], envelope["error"]["code"]) == (status, False, code)
    assert text in envelope["error"]["details"]
    assert response.headers["x-request-id"]


def test_a_batch_upload_returns_images_and_errors(http: httpx2.Client) -> None:
    files = [
        ("files[]", ("a.png", make_png())),
        ("files", ("b.txt", b"no")),
        ("files[]", ("c.gif", make_gif())),
    ]
    data = http.post("/upload", files=files).json()["data"]
    assert [image["original_filename"] for image in data["images"]] == ["a.png", "c.gif"]
    assert [(error["index"], error["code"]) for error in data["errors"]] == [(1, "UNSUPPORTED_MEDIA_TYPE")]


def test_a_batch_upload_without_success_returns_the_common_error_or_422(http: httpx2.Client) -> None:
    files = [("files[]", ("a", b"no")), ("files[]", ("b", b"no"))]
    assert_error(http.post("/upload", files=files), 415, "UNSUPPORTED_MEDIA_TYPE")
    files[1] = ("files[]", ("b.png", make_png()[:20]))
    assert_error(http.post("/upload", files=files), 422, "VALIDATION_ERROR", "b.png")


@pytest.mark.parametrize("name", ["image", "file"])
def test_a_single_upload_returns_one_image(name: str, http: httpx2.Client) -> None:
    data = http.post(
        "/upload", files={name: ("C:\\x\\a.png", make_png())}, data={"is_public": "FALSE"}
    ).json()["data"]
    assert (data["original_filename"], data["is_public"]) == ("a.png", False)


@pytest.mark.parametrize(
    ("fields", "field_name"),
    [
        ({"quality": "0"}, "quality"),
        ({"quality": "101"}, "quality"),
        ({"quality": "x"}, "quality"),
        ({"format": "gif"}, "format"),
        ({"is_public": "yes"}, "is_public"),
        ({"remove_exif": "-"}, "remove_exif"),
        ({"album_id": "9"}, "album_id"),
        ({"album_id": "x"}, "album_id"),
    ],
)
def test_an_invalid_option_is_422(
    fields: dict[str, str], field_name: str, http: httpx2.Client, host: FakeImageHost
) -> None:
    assert_error(
        http.post("/upload", files={"image": make_png()}, data=fields),
        422,
        "VALIDATION_ERROR",
        f"for {field_name}",
    )
    assert not host.tables["images"].rows


def test_an_invalid_form_is_rejected(http: httpx2.Client) -> None:
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    assert_error(http.post("/upload", json={}), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert_error(http.post("/upload"), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert_error(
        http.post("/upload", content=b"x", headers={"Content-Type": "multipart/form-data"}),
        400,
        "BAD_REQUEST",
    )
    assert_error(
        http.post("/upload", content=b"--x\r\n\r\nabc", headers=kind), 400, "BAD_REQUEST", "last boundary"
    )
    assert_error(
        http.post("/upload", content=b"--x\r\nA: b\r\n\r\n1\r\n--x--", headers=kind),
        400,
        "BAD_REQUEST",
        "name",
    )
    assert_error(http.post("/upload", files={"other": b"x"}), 400, "BAD_REQUEST", "files[]")
    both = [("image", make_png()), ("files[]", make_png())]
    assert_error(http.post("/upload", files=both), 400, "BAD_REQUEST", "both")
    assert_error(http.post("/upload", files=[("image", make_png())] * 2), 400, "BAD_REQUEST")
    assert_error(http.post("/upload", files=[("files[]", make_png())] * 21), 400, "BAD_REQUEST", "21")


def test_a_file_of_more_than_50_mebibytes_is_413_with_both_sizes(http: httpx2.Client) -> None:
    response = http.post("/upload", files={"image": ("a.png", bytes(MAX_BYTES + 1))})
    assert_error(response, 413, "PAYLOAD_TOO_LARGE", str(MAX_BYTES))
    assert str(MAX_BYTES + 1) in response.json()["error"]["details"]


@pytest.mark.parametrize(
    "query", ["page=0", "page=x", "per_page=101", "per_page=0", "per_page=", "cursor=x", "page=1&page=2"]
)
def test_an_invalid_query_is_400(query: str, http: httpx2.Client) -> None:
    assert_error(http.get(f"/images?{query}"), 400, "BAD_REQUEST")


def test_json_bodies_are_validated(http: httpx2.Client) -> None:
    kind = {"Content-Type": "application/json"}
    assert_error(http.post("/albums", content=b"{", headers=kind), 400, "BAD_REQUEST")
    assert_error(http.post("/albums", content=b"[]", headers=kind), 422, "VALIDATION_ERROR")
    assert_error(http.post("/albums", data={"name": "A"}), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert_error(http.post("/albums"), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert_error(http.post("/albums", json={}), 422, "VALIDATION_ERROR", "name")
    for body in ({"name": " "}, {"name": "x" * 101}, {"name": 7}, {"name": "A", "is_public": 2}):
        assert_error(http.post("/albums", json=body), 422, "VALIDATION_ERROR")
    assert_error(http.post("/albums", json={"name": "A", "description": "x" * 2001}), 422, "VALIDATION_ERROR")
    album = http.post("/albums", json={"name": " A "})
    assert (album.status_code, album.json()["data"]["name"]) == (201, "A")
    assert_error(http.put("/albums/1/images", json={"image_ids": "x"}), 422, "VALIDATION_ERROR", "image_ids")
    assert_error(http.post("/keys", json={"name": "k", "scopes": ["all"]}), 422, "VALIDATION_ERROR", "scopes")
    assert_error(http.post("/webhooks", json={"url": "http://x"}), 422, "VALIDATION_ERROR", "https")


def test_a_signed_url_requires_a_valid_lifetime_and_valid_parameters(
    http: httpx2.Client, client: Client
) -> None:
    path = f"/images/{client.upload(make_png()).id}/signed-url"
    assert_error(http.post(path, json={"expires_in": 0}), 422, "VALIDATION_ERROR", "expires_in")
    assert_error(http.post(path, json={"expires_in": 5, "w": 0}), 422, "VALIDATION_ERROR", "for w")


def test_unknown_routes_and_methods_are_errors(http: httpx2.Client) -> None:
    assert_error(http.get("/nothing"), 404, "NOT_FOUND")
    assert_error(http.put("/images"), 405, "METHOD_NOT_ALLOWED", "GET")
    assert_error(http.get("https://imagehost.test/other"), 404, "NOT_FOUND")


def test_tokens_and_scopes_are_checked(host: FakeImageHost, client: Client) -> None:
    with httpx2.Client(base_url=host.base_url, transport=host) as anonymous:
        response = anonymous.get("/images")
        assert_error(response, 401, "UNAUTHORIZED")
        assert response.headers["www-authenticate"] == "Bearer"
    with Client(host.base_url, "ihk_wrong", transport=host) as wrong, pytest.raises(UnauthorizedError):
        wrong.account()
    key = client.keys.create("reader", scopes=["images:read"])
    with Client(host.base_url, key.token, transport=host) as reader:
        assert list(reader.images.list()) == []
        with pytest.raises(ForbiddenError, match="albums:read"):
            reader.albums.get(1)
        with pytest.raises(ForbiddenError, match="session"):
            reader.keys.list().first_page()


def test_records_of_other_accounts_are_not_found(host: FakeImageHost, client: Client) -> None:
    host.add_account("other")
    image, album = client.upload(make_png()), client.albums.create("Mine")
    with host.client("other") as other:
        for call in (
            lambda: other.images.get(image),
            lambda: other.images.delete(image),
            lambda: other.albums.get(album),
            lambda: other.images.list(album_id=album).first_page(),
        ):
            with pytest.raises(NotFoundError):
                call()
        album_of_other = other.albums.create("Own")
        assert other.albums.add_images(album_of_other, image).results[0].status == "not_found"


def test_adding_and_removing_images_return_statuses(client: Client) -> None:
    image, album = client.upload(make_png()), client.albums.create("A")
    assert [client.albums.add_images(album, image).results[0].status for _ in range(2)] == [
        "added",
        "unchanged",
    ]
    assert [client.albums.remove_images(album, image).results[0].status for _ in range(2)] == [
        "removed",
        "unchanged",
    ]


def test_deleting_an_album_keeps_its_images(client: Client) -> None:
    album = client.albums.create("A")
    image, other = client.upload(make_png(), album_id=album), client.upload(make_png())
    client.albums.delete(album)
    assert client.images.get(image).album_id is None
    assert client.images.get(other).album_id is None


def test_image_delivery_returns_the_stored_file_and_validates_parameters(
    http: httpx2.Client, host: FakeImageHost, client: Client
) -> None:
    content = make_png()
    image = client.upload(content)
    response = http.get(client.image_url(image, w=300, fm="avif", fit="inside"))
    assert (response.status_code, response.content) == (200, content)
    assert http.get(f"{host.cdn_url}/{image.id}").content == content
    assert_error(http.get(f"{image.url}?fit=crop"), 400, "BAD_REQUEST", "fit")
    assert_error(http.get(f"{image.url}?w=0300"), 400, "BAD_REQUEST", "w")
    assert_error(http.get(f"{image.url}?w=9000"), 400, "BAD_REQUEST", "w")
    assert_error(http.get(f"{host.cdn_url}/{image.id}.bmp"), 404, "NOT_FOUND", "extension")
    assert_error(http.get(f"{host.cdn_url}/missing.png"), 404, "NOT_FOUND")
    hidden = client.upload(content, is_public=False)
    assert http.get(hidden.url).status_code == 200
    with httpx2.Client(transport=host) as anonymous:
        assert_error(anonymous.get(hidden.url), 404, "NOT_FOUND")
        signed = client.images.signed_url(hidden).url
        assert anonymous.get(signed).status_code == 200
        assert_error(anonymous.get(signed.replace("exp=", "exp=1")), 404, "NOT_FOUND")
        old = f"{hidden.url}?exp=1&sig={host.signature('admin', hidden.id + '1')}"
        assert_error(anonymous.get(old), 404, "NOT_FOUND")
    client.images.delete(image)
    assert_error(http.get(image.url), 404, "NOT_FOUND")


def test_failures_can_be_planned(host: FakeImageHost) -> None:
    with host.client(max_retries=0) as client:
        host.fail(503, times=2, retry_after=3)
        for _ in range(2):
            with pytest.raises(UnavailableError) as caught:
                client.account()
            assert caught.value.retry_after == 3
        host.fail(418)
        with pytest.raises(Exception, match="failure planned by the test"):
            client.account()
        assert client.account().usage.images == 0


def chunk(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("<I", len(body)) + body


def riff(kind: bytes, body: bytes) -> bytes:
    inner = b"WEBP" + chunk(kind, body)
    return b"RIFF" + struct.pack("<I", len(inner)) + inner


JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x0b\x08" + struct.pack(">HH", 7, 9) + b"\x01\x01\x11\x00"
EXTENDED = bytes([0x12, 0, 0, 0]) + (99).to_bytes(3, "little") + (49).to_bytes(3, "little") + b"ANMFANMF"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (make_png(5, 6), ("png", 5, 6, 1, False)),
        (make_gif(3), ("gif", 1, 1, 3, False)),
        (JPEG, ("jpeg", 9, 7, 1, False)),
        (riff(b"VP8 ", b"\0" * 6 + struct.pack("<HH", 10, 20)), ("webp", 10, 20, 1, False)),
        (riff(b"VP8L", b"/" + (9 | 19 << 14 | 1 << 28).to_bytes(4, "little")), ("webp", 10, 20, 1, True)),
        (riff(b"VP8X", EXTENDED), ("webp", 100, 50, 2, True)),
    ],
)
def test_sizes_and_formats_are_read_from_headers(content: bytes, expected: tuple[Any, ...]) -> None:
    info = read_image_info(content, "a")
    assert (info.format, info.width, info.height, info.frames, info.alpha) == expected


@pytest.mark.parametrize(
    "content",
    [
        make_png()[:30],
        b"\x89PNG\r\n\x1a\n" + zlib.compress(b"x" * 99),
        make_gif(0),
        make_gif()[:-5],
        b"GIF89a" + bytes(20),
        JPEG[:8],
        b"\xff\xd8\xff\xe0\x00\x04ab\x00\x00",
        JPEG.replace(b"\xff\xc0", b"\xff\xc5"),
        riff(b"VP8?", bytes(20)),
        riff(b"VP8 ", bytes(12)),
        make_png(0, 5),
    ],
)
def test_a_corrupt_image_is_422(content: bytes, http: httpx2.Client) -> None:
    assert_error(http.post("/upload", files={"image": content}), 422, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    ("marker", "fields", "stored_format"),
    [
        (0xC2, {}, "jpeg"),
        (0xC3, {}, "webp"),
        (0xC9, {"convertToWebP": "0"}, "jpeg"),
        (0xCA, {"format": "PNG"}, "png"),
    ],
)
def test_a_jpeg_that_browsers_do_not_display_is_recorded_in_another_format(
    marker: int, fields: dict[str, str], stored_format: str, http: httpx2.Client
) -> None:
    content = JPEG.replace(b"\xff\xc0", bytes([0xFF, marker]))
    image = http.post("/upload", files={"image": ("a.jpg", content)}, data=fields).json()["data"]
    assert image["format"] == stored_format
    assert image["url"].endswith({"jpeg": ".jpg"}.get(stored_format, f".{stored_format}"))


def test_bad_checksums_of_png_chunks_are_repaired_except_in_critical_ones(
    http: httpx2.Client, host: FakeImageHost
) -> None:
    plain = make_png()
    text, transparency = (struct.pack(">I", 2) + kind + b"ab" for kind in (b"tEXt", b"tRNS"))
    damaged = plain.replace(plain[33:37], text + b"bad!" + transparency + b"bad!" + plain[33:37], 1)
    image = http.post("/upload", files={"image": damaged}).json()["data"]
    checksum = struct.pack(">I", zlib.crc32(b"tRNSab"))
    assert host.content(image["id"]) == plain[:33] + transparency + checksum + plain[33:]
    critical = plain[:29] + b"bad!" + plain[33:]
    assert_error(http.post("/upload", files={"image": critical}), 422, "VALIDATION_ERROR")


def test_local_colour_tables_of_gif_are_skipped() -> None:
    content = make_gif(1)
    local = content.replace(
        b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0),
        b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0x80) + bytes(6),
    )
    assert read_image_info(local, "a").frames == 1
    bare = b"GIF89a" + struct.pack("<HHBBB", 2, 3, 0, 0, 0) + content[19:]
    assert read_image_info(bare, "a").width == 2


def test_the_scopes_of_the_types_are_those_of_the_host() -> None:
    assert get_args(models.Scope) == SCOPES == tuple(Scope)


def test_the_kinds_of_events_of_the_types_are_those_of_the_host() -> None:
    kinds, texts = get_args(models.EventName)
    assert get_args(texts) == tuple(kinds)
