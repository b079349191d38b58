"""Images and the gallery, with both clients."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx2
import pytest
from tests.contract.conftest import Account, Backend, Connect, assert_error, data_of, members

from imagehost_client import AsyncClient, NotFoundError, ValidationError
from imagehost_client.models import PublicImage
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

MISSING = "0" * 16


async def uploads(client: AsyncClient, count: int) -> list[str]:
    """Upload images, and return their ids, oldest first."""
    return [(await client.upload(make_png(number + 1, 1))).id for number in range(count)]


async def test_the_list_is_newest_first_and_paged(client: AsyncClient) -> None:
    ids = await uploads(client, 5)
    pages = [page async for page in client.images.list(per_page=2).pages()]
    assert [image.id for page in pages for image in page] == ids[::-1]
    assert [(len(page), page.per_page, page.total, page.total_pages) for page in pages] == [
        (2, 2, 5, 3),
        (2, 2, 5, 3),
        (1, 2, 5, 3),
    ]
    assert [page.next_cursor is None for page in pages] == [False, False, True]
    assert [page.page for page in pages] == [1, None, None]  # later pages are requested by cursor
    second = await client.images.list(page=2, per_page=2).first_page()
    assert (second.page, [image.id for image in second]) == (2, ids[2:0:-1])
    assert (await client.images.list().first_page()).per_page == 20


async def test_a_page_past_the_end_is_empty(client: AsyncClient) -> None:
    empty = await client.images.list().first_page()
    assert (empty.items, empty.total, empty.total_pages, empty.next_cursor) == ((), 0, 0, None)
    await uploads(client, 1)
    past = await client.images.list(page=9).first_page()
    assert (past.items, past.total, past.page, past.next_cursor) == ((), 1, 9, None)


async def test_iteration_neither_skips_nor_repeats_while_images_are_added_and_deleted(
    client: AsyncClient,
) -> None:
    ids = await uploads(client, 9)
    seen: list[str] = []
    deleted_ids: set[str] = set()
    async for page in client.images.list(per_page=2).pages():
        seen += [image.id for image in page]
        await client.upload(make_png())  # newer than all images on later pages
        for image_id in (seen[0], seen[-1], next((i for i in ids[::-1] if i not in seen), seen[-1])):
            if image_id not in deleted_ids:
                await client.images.delete(image_id)
                deleted_ids.add(image_id)
    assert len(seen) == len(set(seen))
    assert set(ids) - deleted_ids <= set(seen) <= set(ids)
    assert seen == sorted(seen, key=ids.index, reverse=True)


async def test_images_can_be_listed_by_album(client: AsyncClient) -> None:
    album = await client.albums.create("A")
    inside = await client.upload(make_png(), album_id=album)
    await client.upload(make_png())
    for name in (album, album.id, str(album.id)):
        assert [image.id async for image in client.images.list(album_id=name)] == [inside.id]
    with pytest.raises(NotFoundError):
        await client.images.list(album_id=999_999).first_page()


@pytest.mark.parametrize("path", ["/images", "/gallery", "/albums", "/keys", "/webhooks"])
@pytest.mark.parametrize(
    "query",
    [
        "page=0",
        "page=x",
        "page=01",
        "page=",
        "per_page=101",
        "per_page=0",
        "cursor=x",
        "page=1&page=2",
        "page=1&cursor=x",
    ],
)
async def test_an_invalid_query_of_a_list_is_400(http: httpx2.AsyncClient, path: str, query: str) -> None:
    assert_error(await http.get(f"{path}?{query}"), 400, "BAD_REQUEST", query.partition("=")[0])


async def test_a_page_number_together_with_a_cursor_is_400(
    http: httpx2.AsyncClient, client: AsyncClient
) -> None:
    await uploads(client, 3)
    cursor = (await client.images.list(per_page=1).first_page()).next_cursor
    for page in (1, 2):
        response = await http.get(f"/images?per_page=1&page={page}&cursor={cursor}")
        assert_error(response, 400, "BAD_REQUEST", "page")
    pagination = (await data_of(http.get(f"/images?per_page=1&cursor={cursor}")))["pagination"]
    assert (pagination["page"], pagination["total"], pagination["total_pages"]) == (None, 3, 3)


@pytest.mark.parametrize("album", ["x", "0", "-1", "01"])
async def test_a_malformed_album_id_in_a_query_is_400(http: httpx2.AsyncClient, album: str) -> None:
    assert_error(await http.get(f"/images?album_id={album}"), 400, "BAD_REQUEST", "album_id")


async def test_an_update_changes_only_the_given_fields(client: AsyncClient) -> None:
    album = await client.albums.create("A")
    image = await client.upload(("a.png", make_png()), description="Old", convert_to_webp=False)
    updated = await client.images.update(image, description="New")
    assert (updated.description, updated.is_public, updated.album_id) == ("New", True, None)
    assert updated.updated_at > image.updated_at
    updated = await client.images.update(image, album_id=album, is_public=False)
    assert (updated.description, updated.is_public, updated.album_id) == ("New", False, album.id)
    updated = await client.images.update(image, filename="b.png", album_id=None)
    assert (updated.filename, updated.original_filename, updated.album_id) == ("b.png", "a.png", None)
    assert await client.images.get(image) == updated
    assert await client.images.update(image, filename="b.png", album_id=None, description="New") == updated
    assert await client.images.get(image) == updated


@pytest.mark.parametrize(
    ("body", "field_name"),
    [
        ({"description": 7}, "description"),
        ({"description": "x" * 2001}, "description"),
        ({"is_public": "true"}, "is_public"),
        ({"is_public": None}, "is_public"),
        ({"album_id": 999_999}, "album_id"),
        ({"album_id": "x"}, "album_id"),
        ({"album_id": 1.5}, "album_id"),
        ({"album_id": True}, "album_id"),
        ({"filename": ""}, "filename"),
        ({"filename": None}, "filename"),
    ],
)
async def test_an_invalid_update_is_422_and_changes_nothing(
    http: httpx2.AsyncClient, png: bytes, body: dict[str, object], field_name: str
) -> None:
    record = await data_of(http.post("/upload", files={"image": png}))
    assert_error(await http.patch(f"/images/{record['id']}", json=body), 422, "VALIDATION_ERROR", field_name)
    assert await data_of(http.get(f"/images/{record['id']}")) == record


async def test_the_extension_of_a_name_follows_the_stored_format(client: AsyncClient) -> None:
    image = await client.upload(make_png(), format="jpeg")
    assert (await client.images.update(image, filename="../holiday.png")).filename == "holiday.jpg"


async def test_a_deleted_image_is_404(client: AsyncClient, anonymous_http: httpx2.AsyncClient) -> None:
    image = await client.upload(make_png(9, 9))
    variant = client.image_url(image, w=5, fm="png")
    assert (
        (await anonymous_http.get(image.url)).status_code
        == (await anonymous_http.get(variant)).status_code
        == 200
    )
    deleted = await client.images.delete(image)
    assert (deleted.id, deleted.deleted) == (image.id, True)
    for url in (image.url, variant):
        assert_error(await anonymous_http.get(url), 404, "NOT_FOUND")
    for call in (client.images.get, client.images.delete, client.images.signed_url):
        with pytest.raises(NotFoundError):
            await call(image)
    with pytest.raises(NotFoundError):
        await client.images.update(image, description="Late")
    assert [one.id async for one in client.images.list()] == []


async def test_images_and_albums_of_another_account_are_404(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    other_client = connect(other.token)
    image, album = await client.upload(make_png()), await client.albums.create("Mine")
    for call in (
        lambda: other_client.images.get(image),
        lambda: other_client.images.delete(image),
        lambda: other_client.images.update(image, description="Mine now"),
        lambda: other_client.images.signed_url(image),
        lambda: other_client.images.list(album_id=album).first_page(),
    ):
        with pytest.raises(NotFoundError):
            await call()
    with pytest.raises(ValidationError):
        await other_client.upload(make_png(), album_id=album)
    assert await client.images.get(image) == image


async def test_a_foreign_id_and_a_missing_one_get_the_same_response(
    http: httpx2.AsyncClient, connect: Connect, other: Account
) -> None:
    foreign = (await connect(other.token).upload(make_png())).id
    bodies = {"PATCH": {"description": "x"}, "POST": {"expires_in": 5}}
    for method, tail in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/signed-url")):
        body = bodies.get(method)
        first = await http.request(method, f"/images/{foreign}{tail}", json=body)
        second = await http.request(method, f"/images/{MISSING}{tail}", json=body)
        assert_error(first, 404, "NOT_FOUND")
        assert first.text.replace(foreign, MISSING) == second.text
        assert first.headers.keys() == second.headers.keys()


async def test_the_gallery_lists_public_images_without_a_token(
    connect: Connect, client: AsyncClient, anonymous_http: httpx2.AsyncClient
) -> None:
    anonymous = connect(None)
    public_image = await client.upload(make_png(4, 3), description="For all")
    private_image = await client.upload(make_png(), is_public=False)

    async def seen() -> dict[str, PublicImage]:
        page = await anonymous.gallery(per_page=100).first_page()
        return {image.id: image for image in page}

    found = await seen()
    assert private_image.id not in found
    public = found[public_image.id]
    assert (public.description, public.width, public.height) == ("For all", 4, 3)
    assert (public.url, public.thumb_url, public.placeholder) == (
        public_image.url,
        public_image.thumb_url,
        public_image.placeholder,
    )
    records = (await data_of(anonymous_http.get("/gallery")))["images"]
    assert {frozenset(record) for record in records} == {frozenset(members(PublicImage))}
    await client.images.update(public_image, is_public=False)
    assert public_image.id not in await seen()
    await client.images.update(private_image, is_public=True)
    assert private_image.id in await seen()


async def test_a_private_image_is_delivered_to_its_owner_only(
    backend: Backend,
    client: AsyncClient,
    http: httpx2.AsyncClient,
    anonymous_http: httpx2.AsyncClient,
    png: bytes,
) -> None:
    image = await client.upload(png, is_public=False, convert_to_webp=False)
    assert (await http.get(image.url)).content == png
    for url in (image.url, f"{backend.cdn_url}/{image.id}?w=5"):
        private_image = await anonymous_http.get(url)
        assert_error(private_image, 404, "NOT_FOUND")
        missing = await anonymous_http.get(url.replace(image.id, MISSING))
        assert private_image.text.replace(image.id, MISSING) == missing.text


async def test_render_returns_the_stored_file_and_resized_images(client: AsyncClient, png: bytes) -> None:
    image = await client.upload(png, is_public=False)
    stored = await client.render(image)
    assert (stored.media_type, len(stored.data)) == (image.mime_type, image.size)
    assert hashlib.sha256(stored.data).hexdigest() == image.sha256
    assert stored.etag is not None
    rendered = await client.render(image.id, w=20, fm="jpg")
    assert (rendered.media_type, rendered.data[:3]) == ("image/jpeg", b"\xff\xd8\xff")
    assert rendered.etag != stored.etag


async def test_rendering_a_private_image_of_another_account_is_404(
    client: AsyncClient, connect: Connect, other: Account, png: bytes
) -> None:
    private = await client.upload(png, is_public=False)
    for other_client in (connect(other.token), connect(None)):
        with pytest.raises(NotFoundError) as caught:
            await other_client.render(private)
        assert caught.value.code == "NOT_FOUND"
    public = await client.images.update(private, is_public=True)
    assert (await connect(None).render(public)).data == (await client.render(public)).data


async def test_a_download_is_the_stored_file_and_is_skipped_when_known(
    client: AsyncClient, png: bytes, tmp_path: Path
) -> None:
    image = await client.upload(png, is_public=False, convert_to_webp=False)
    path = tmp_path / "x.png"
    written = await client.images.download(image, path)
    assert (path.read_bytes(), written.sha256, written.media_type) == (png, image.sha256, "image/png")
    path.unlink()
    for known in (written.etag, f'"other", {written.etag}', "*"):
        again = await client.images.download(image, path, if_none_match=known)
        assert (again.not_modified, again.etag, path.exists()) == (True, written.etag, False)
        assert (await client.render(image, if_none_match=known)).not_modified
    assert not (await client.render(image, if_none_match='"other"')).not_modified
    thumbnail = await client.images.download(image, tmp_path, w=3, fm="webp")
    assert thumbnail.path is not None
    assert thumbnail.path.stat().st_size == thumbnail.size


async def test_a_part_of_an_image_is_delivered(
    client: AsyncClient, anonymous_http: httpx2.AsyncClient, png: bytes
) -> None:
    image = await client.upload(png, convert_to_webp=False)
    whole = await anonymous_http.get(image.url)
    etag, size = whole.headers["etag"], len(png)
    for headers, status, content in (
        ({"Range": "bytes=10-"}, 206, png[10:]),
        ({"Range": "bytes=10-19", "If-Range": etag}, 206, png[10:20]),
        ({"Range": "bytes=10-99999"}, 206, png[10:]),
        ({"Range": "bytes=10-", "If-Range": '"other"'}, 200, png),
        ({"Range": "bytes=-10"}, 206, png[-10:]),
        ({"Range": "bytes=20-10"}, 200, png),
        ({"Range": "bytes=1-2,5-6"}, 200, png),
        ({"Range": "bytes=10-", "If-None-Match": etag}, 304, b""),
    ):
        response = await anonymous_http.get(image.url, headers=headers)
        assert (response.status_code, response.content) == (status, content), headers
        assert response.headers["etag"] == etag
        if status == 206:
            start = png.index(content)
            assert response.headers["content-range"] == f"bytes {start}-{start + len(content) - 1}/{size}"
    beyond = await anonymous_http.get(image.url, headers={"Range": f"bytes={size}-"})
    assert_error(beyond, 416, "BAD_REQUEST")
    assert beyond.headers["content-range"] == f"bytes */{size}"
    head = await anonymous_http.head(image.url)
    assert (head.status_code, head.headers["content-length"], head.content) == (200, str(size), b"")
    wrong = await anonymous_http.post(image.url)
    assert_error(wrong, 405, "METHOD_NOT_ALLOWED")
    assert wrong.headers["allow"] == "GET, HEAD, OPTIONS"
