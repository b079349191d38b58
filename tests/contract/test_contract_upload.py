"""Uploads, with both clients."""

from __future__ import annotations

import hashlib
import io
from datetime import UTC
from pathlib import Path

import httpx2
import pytest
from tests.animations import make_gif
from tests.contract.conftest import Backend, assert_error, data_of, members

from imagehost_client import AsyncClient, UnsupportedMediaTypeError, ValidationError
from imagehost_client.models import Format, Image
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

FORM = {"content-type": "multipart/form-data; boundary=B"}


def part(name: str, content: bytes, filename: str | None = None, content_type: str | None = None) -> bytes:
    """Return a part of form data with the boundary `B`."""
    head = f'--B\r\nContent-Disposition: form-data; name="{name}"'
    if filename is not None:
        head += f'; filename="{filename}"'
    if content_type is not None:
        head += f"\r\nContent-Type: {content_type}"
    return f"{head}\r\n\r\n".encode() + content + b"\r\n"


async def test_an_upload_has_the_page_that_deletes_it_where_asked(client: AsyncClient, png: bytes) -> None:
    image = await client.upload(png, delete_url=True)
    assert image.delete_url is not None
    assert f"/i/{image.id}/delete?" in image.delete_url
    assert image.delete_url not in repr(image)
    assert (await client.images.get(image)).delete_url is None


async def test_an_upload_returns_the_whole_record(client: AsyncClient, backend: Backend, png: bytes) -> None:
    album = await client.albums.create("Cats")
    image = await client.upload(
        png,
        filename="cat.png",
        album_id=album,
        description="Asleep",
        is_public=False,
        convert_to_webp=False,
    )
    assert (image.original_filename, image.filename) == ("cat.png", "cat.png")
    assert (image.description, image.is_public, image.album_id) == ("Asleep", False, album.id)
    assert (image.format, image.mime_type) == (Format.PNG, "image/png")
    assert (image.width, image.height, image.frames, image.is_animated) == (40, 30, 1, False)
    assert (image.size, image.sha256) == (len(png), hashlib.sha256(png).hexdigest())
    assert image.url == f"{backend.cdn_url}/{image.id}.png"
    assert image.thumb_url.startswith(f"{backend.cdn_url}/{image.id}")
    assert (image.links.url, image.links.bbcode) == (image.url, f"[img]{image.url}[/img]")
    assert image.url in image.links.html
    assert image.url in image.links.markdown
    assert len(image.id) == 16
    assert image.id.isalnum()
    assert image.created_at == image.updated_at
    assert image.created_at.tzinfo is UTC
    assert await client.images.get(image) == image


async def test_links_and_the_thumbnail_of_a_record(client: AsyncClient, backend: Backend) -> None:
    image = await client.upload(make_png(400, 300), filename="a_b.png", convert_to_webp=False)
    assert image.thumb_url == f"{backend.cdn_url}/{image.id}.webp?w=320&h=320&fit=inside"
    assert image.links.html == f'<img src="{image.url}" alt="a_b.png" width="400" height="300">'
    assert image.links.markdown == f"![a\\_b.png]({image.url})"
    changed = await client.images.update(image, description='A  "cat"')
    assert 'alt="A &quot;cat&quot;"' in changed.links.html
    assert changed.links.markdown == f'![A "cat"]({image.url})'
    small = await client.upload(make_png(32, 30), convert_to_webp=False)
    assert small.thumb_url == f"{backend.cdn_url}/{small.id}.webp"


async def test_a_source_is_a_path_bytes_or_a_file_with_a_name_or_without(
    client: AsyncClient, png: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "path.png"
    path.write_bytes(png)
    opened = io.BytesIO(b"skipped" + png)
    opened.seek(7)
    sources = (path, str(path), png, bytearray(png), opened, ("field_name.png", png))
    sent = hashlib.sha256(png).hexdigest()
    images = [await client.upload(source, convert_to_webp=False) for source in sources]
    assert [image.sha256 for image in images] == [sent] * 6
    names = [image.original_filename for image in images]
    assert (names[0], names[1], names[5]) == ("path.png", "path.png", "field_name.png")


@pytest.mark.parametrize(
    ("stored_format", "extension"),
    [("jpeg", "jpg"), ("png", "png"), ("webp", "webp")],
    ids=["jpeg", "png", "webp"],
)
async def test_the_requested_format_is_stored_and_determines_the_extension(
    client: AsyncClient, png: bytes, stored_format: str, extension: str
) -> None:
    image = await client.upload(png, filename="cat.gif", format=stored_format)  # type: ignore[arg-type]
    assert (image.format, image.mime_type) == (stored_format, f"image/{stored_format}")
    assert (image.original_filename, image.filename) == ("cat.gif", f"cat.{extension}")
    assert image.url.endswith(f"{image.id}.{extension}")


async def test_auto_rename_assigns_a_random_name_and_keeps_the_original(
    client: AsyncClient, png: bytes
) -> None:
    first, second = [await client.upload(("a.png", png), auto_rename=True) for _ in range(2)]
    assert first.original_filename == second.original_filename == "a.png"
    assert len({first.filename, second.filename, "a.png"}) == 3


async def test_reuse_returns_the_image_of_the_same_file_and_says_so(client: AsyncClient, png: bytes) -> None:
    first = await client.upload(png, filename="a.png")
    assert first.is_reused is None
    again = await client.upload(png, filename="b.png", reuse=True)
    other = await client.upload(png, filename="b.png", reuse=True, quality=50)
    assert (again.id, again.filename, again.is_reused) == (first.id, first.filename, True)
    assert (other.id != first.id, other.is_reused) == (True, False)
    files = [("c.png", png), ("d.png", make_png(3, 2))]
    both = [result.image for result in await client.upload_many(files, reuse=True, files_per_request=2)]
    assert [(image and image.id == first.id, image and image.is_reused) for image in both] == [
        (True, True),
        (False, False),
    ]
    found = await client.images.list(sha256=hashlib.sha256(png).hexdigest()).first_page()
    assert {image.id for image in found} == {first.id, other.id}


async def test_an_animation_keeps_its_frames(client: AsyncClient) -> None:
    image = await client.upload(make_gif(3), convert_to_webp=False)
    assert (image.format, image.frames, image.is_animated) == (Format.GIF, 3, True)


@pytest.mark.parametrize("content", [make_png(3, 2), make_gif(2)], ids=["png", "gif"])
async def test_bytes_after_the_end_of_an_image_are_not_stored(client: AsyncClient, content: bytes) -> None:
    image = await client.upload(content + b"#!/bin/sh", convert_to_webp=False)
    assert (image.size, image.sha256) == (len(content), hashlib.sha256(content).hexdigest())


async def test_progress_ends_with_all_bytes_sent_and_the_checksum_is_verified(
    client: AsyncClient, png: bytes
) -> None:
    reports: list[tuple[int, int]] = []
    await client.upload(
        png, convert_to_webp=False, checksum=True, progress=lambda *report: reports.append(report)
    )
    assert (reports[0], reports[-1]) == ((0, len(png)), (len(png), len(png)))


async def test_a_batch_upload_returns_a_result_for_each_file_in_order(
    client: AsyncClient, tmp_path: Path
) -> None:
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(make_png(number + 1, 2))
    (tmp_path / "2.png").write_bytes(b"not an image")
    results = await client.upload_many(tmp_path, journal=tmp_path / "journal")
    assert [result.image and result.image.width for result in results] == [1, 2, None, 4]
    assert isinstance(results[2].error, UnsupportedMediaTypeError)
    resumed = await client.upload_many(tmp_path, journal=tmp_path / "journal")
    assert [result.resumed for result in resumed] == [True, True, False, True]
    assert (await client.images.list().first_page()).total == 3


@pytest.mark.parametrize("name", ["image", "file"])
async def test_a_single_upload_returns_the_record(http: httpx2.AsyncClient, png: bytes, name: str) -> None:
    record = await data_of(http.post("/upload", files={name: ("a.png", png)}))
    assert record.keys() == members(Image) - {"delete_url", "is_reused"}
    asked = await data_of(
        http.post("/upload", data={"delete_url": "true", "reuse": "true"}, files={name: ("a.png", png)})
    )
    assert asked.keys() == members(Image)
    assert record["created_at"].endswith("Z")


@pytest.mark.parametrize("asks", [True, False])
async def test_the_record_of_the_client_has_the_members_of_the_response(
    client: AsyncClient, http: httpx2.AsyncClient, png: bytes, asks: bool
) -> None:
    image = await client.upload(png, delete_url=asks)
    read = await data_of(http.get(f"/images/{image.id}"))
    assert image.to_dict() == read | ({"delete_url": image.delete_url} if asks else {})


@pytest.mark.parametrize("name", ["files[]", "files"])
async def test_a_batch_upload_returns_images_and_errors_in_order(http: httpx2.AsyncClient, name: str) -> None:
    files = [(name, (f"{number}.png", make_png(number + 1, 1))) for number in range(3)]
    files.insert(1, (name, ("notes.txt", b"no image")))
    data = await data_of(http.post("/upload", files=files, data={"description": "Together"}))
    assert data.keys() == {"images", "errors"}
    assert [image["original_filename"] for image in data["images"]] == ["0.png", "1.png", "2.png"]
    assert {image["description"] for image in data["images"]} == {"Together"}
    (error,) = data["errors"]
    assert error.keys() == {"index", "filename", "code", "message", "details"}
    assert (error["index"], error["filename"], error["code"]) == (1, "notes.txt", "UNSUPPORTED_MEDIA_TYPE")


async def test_a_batch_upload_of_one_file_returns_a_list(http: httpx2.AsyncClient, png: bytes) -> None:
    data = await data_of(http.post("/upload", files={"files[]": png}))
    assert (len(data["images"]), data["errors"]) == (1, [])


async def test_a_batch_without_success_has_the_common_status_of_its_errors_or_422(
    http: httpx2.AsyncClient, png: bytes
) -> None:
    text, damaged = ("a.txt", b"text"), ("b.png", png[:40])
    same = await http.post("/upload", files=[("files[]", text), ("files[]", text)])
    assert_error(same, 415, "UNSUPPORTED_MEDIA_TYPE", "a.txt")
    differs = await http.post("/upload", files=[("files[]", text), ("files[]", damaged)])
    assert_error(differs, 422, "VALIDATION_ERROR", "a.txt", "b.png")


async def test_options_may_precede_or_follow_the_file_and_unknown_ones_are_ignored(
    http: httpx2.AsyncClient, png: bytes
) -> None:
    file = part("image", png, "x.png")
    options = part("is_public", b"FALSE") + part("remove_exif", b"1") + part("colour", b"red")
    for body in (file + options, options + file):
        record = await data_of(http.post("/upload", content=body + b"--B--\r\n", headers=FORM))
        assert record["is_public"] is False


@pytest.mark.parametrize(
    ("fields", "field_name"),
    [
        ({"quality": "0"}, "quality"),
        ({"quality": "101"}, "quality"),
        ({"quality": "080"}, "quality"),
        ({"format": "gif"}, "format"),
        ({"format": "tiff"}, "format"),
        ({"is_public": "yes"}, "is_public"),
        ({"remove_exif": " "}, "remove_exif"),
        ({"auto_rename": "2"}, "auto_rename"),
        ({"convertToWebP": "on"}, "convertToWebP"),
        ({"album_id": "999999"}, "album_id"),
        ({"album_id": "0"}, "album_id"),
        ({"album_id": "x"}, "album_id"),
        ({"description": "x" * 2001}, "description"),
        ({"quality": ["1", "2"]}, "quality"),
    ],
)
async def test_an_invalid_option_is_422_and_nothing_is_stored(
    http: httpx2.AsyncClient, png: bytes, fields: dict[str, str], field_name: str
) -> None:
    assert_error(
        await http.post("/upload", files={"image": png}, data=fields), 422, "VALIDATION_ERROR", field_name
    )
    assert (await data_of(http.get("/images")))["images"] == []


async def test_an_empty_text_field_counts_as_absent(http: httpx2.AsyncClient, png: bytes) -> None:
    names = ("album_id", "description", "quality", "format", "remove_exif", "convertToWebP", "auto_rename")
    empty = dict.fromkeys((*names, "is_public"), "")
    record = await data_of(http.post("/upload", files={"image": ("a.png", png)}, data=empty))
    assert (record["album_id"], record["description"], record["is_public"]) == (None, "", True)
    assert record["original_filename"] == "a.png"


@pytest.mark.parametrize(("name", "stored"), [("JPEG", "jpeg"), ("WebP", "webp"), ("Png", "png")])
@pytest.mark.parametrize("convert", ["true", "0", ""])
async def test_a_format_in_any_case_takes_precedence_over_the_conversion_to_webp(
    http: httpx2.AsyncClient, png: bytes, name: str, stored: str, convert: str
) -> None:
    form = {"format": name, "convertToWebP": convert}
    record = await data_of(http.post("/upload", files={"image": png}, data=form))
    assert record["format"] == stored


async def test_the_client_sends_a_format_beside_the_conversion(client: AsyncClient, png: bytes) -> None:
    image = await client.upload(png, format="jpeg", convert_to_webp=True)
    assert image.format is Format.JPEG


@pytest.mark.parametrize("name", ["files[]", "files", "image", "file"])
async def test_a_text_part_under_a_file_fields_name_is_ignored(
    http: httpx2.AsyncClient, png: bytes, name: str
) -> None:
    file, text = (
        part("image", png, "x.png"),
        part(name, b"https://example.com/x.png", content_type="text/plain"),
    )
    for body in (file + text, text + file):
        record = await data_of(http.post("/upload", content=body + b"--B--\r\n", headers=FORM))
        assert record["original_filename"] == "x.png"


async def test_an_image_part_without_a_file_name_is_a_file(http: httpx2.AsyncClient, png: bytes) -> None:
    body = part("image", png, content_type="image/png") + b"--B--\r\n"
    record = await data_of(http.post("/upload", content=body, headers=FORM))
    assert record["original_filename"] == "image"


@pytest.mark.parametrize(
    ("parts", "received"),
    [
        (b"", "no fields"),
        (part("a", b"x") + part("b", b"x", "x.png") + part("a", b"y"), "the fields a, b"),
        (part("image", b"x"), "the field image (without a file)"),
    ],
)
async def test_the_error_for_a_missing_file_names_the_accepted_and_the_received_fields(
    http: httpx2.AsyncClient, parts: bytes, received: str
) -> None:
    response = await http.post("/upload", content=parts + b"--B--\r\n", headers=FORM)
    expected = f"expected a file in files[], files, image or file but received {received}"
    assert_error(response, 400, "BAD_REQUEST", expected)


async def test_all_errors_of_a_request_are_reported_together(http: httpx2.AsyncClient, png: bytes) -> None:
    wrong = {"quality": "0", "format": "bmp", "is_public": "maybe", "description": "x" * 2001}
    response = await http.post("/upload", files={"image": png}, data=wrong)
    assert_error(response, 422, "VALIDATION_ERROR", "quality", "format", "is_public", "description")


async def test_the_clients_error_names_the_option(client: AsyncClient, png: bytes) -> None:
    with pytest.raises(ValidationError) as caught:
        await client.upload(png, album_id=999_999)
    assert (caught.value.fields, caught.value.status) == (("album_id",), 422)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"--B--\r\n", ""),
        (part("image", b"", "") + b"--B--\r\n", ""),
        (part("other", b"x", "x.png") + b"--B--\r\n", ""),
        (part("image", make_png(), "x.png"), ""),
        (part("image", make_png(), "x.png") + part("files[]", make_png(), "y.png") + b"--B--\r\n", "both"),
        (part("image", make_png(), "x.png") + part("file", make_png(), "y.png") + b"--B--\r\n", "image"),
    ],
    ids=["nothing", "an empty file field", "another field", "cut short", "both forms", "two images"],
)
async def test_a_form_with_missing_or_conflicting_files_is_400(
    http: httpx2.AsyncClient, body: bytes, text: str
) -> None:
    assert_error(await http.post("/upload", content=body, headers=FORM), 400, "BAD_REQUEST", text)
    assert (await data_of(http.get("/images")))["images"] == []


async def test_twenty_files_are_accepted_and_twenty_one_are_not(http: httpx2.AsyncClient) -> None:
    files = [("files[]", (f"{number}.png", make_png())) for number in range(21)]
    assert len((await data_of(http.post("/upload", files=files[:20])))["images"]) == 20
    assert_error(await http.post("/upload", files=files), 400, "BAD_REQUEST", "20")


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("C:\\pictures\\a.png", "a.png"),
        ("../../etc/a.png", "a.png"),
        ("a%22b.png", 'a"b.png'),
        ("100%25.png", "100%25.png"),
        ("é ü.png", "é ü.png"),
        ("a\x07b\u202e.png", "ab.png"),
        ("...", "image"),
    ],
)
async def test_paths_and_control_characters_are_removed_from_the_original_name(
    http: httpx2.AsyncClient, png: bytes, sent: str, expected: str
) -> None:
    body = part("image", png, sent) + b"--B--\r\n"
    record = await data_of(http.post("/upload", content=body, headers=FORM))
    assert record["original_filename"] == expected
