"""Contract 5, in both houses: images listed, shown, changed and deleted; and the gallery."""

from __future__ import annotations

import hashlib

import httpx2
import pytest
from tests.contract.conftest import Account, Connect, House, data_of, members, refused

from imagehost_client import AsyncClient, NotFoundError, ValidationError
from imagehost_client.models import PublicImage
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

MISSING = "0" * 16


async def uploads(client: AsyncClient, count: int) -> list[str]:
    """Upload so many images, and return their ids, oldest first."""
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
    second = await client.images.list(page=2, per_page=2).first_page()
    assert (second.page, [image.id for image in second]) == (2, ids[2:0:-1])
    assert (await client.images.list().first_page()).per_page == 20


async def test_a_page_past_the_end_is_empty(client: AsyncClient) -> None:
    empty = await client.images.list().first_page()
    assert (empty.items, empty.total, empty.total_pages, empty.next_cursor) == ((), 0, 0, None)
    await uploads(client, 1)
    past = await client.images.list(page=9).first_page()
    assert (past.items, past.total, past.page, past.next_cursor) == ((), 1, 9, None)


async def test_a_walk_neither_skips_nor_repeats_while_images_come_and_go(client: AsyncClient) -> None:
    ids = await uploads(client, 9)
    seen: list[str] = []
    gone: set[str] = set()
    async for page in client.images.list(per_page=2).pages():
        seen += [image.id for image in page]
        await client.upload(make_png())  # newer than all that is still to come
        for victim in (seen[0], seen[-1], next((i for i in ids[::-1] if i not in seen), seen[-1])):
            if victim not in gone:
                await client.images.delete(victim)
                gone.add(victim)
    assert len(seen) == len(set(seen))
    assert set(ids) - gone <= set(seen) <= set(ids)
    assert seen == sorted(seen, key=ids.index, reverse=True)


async def test_the_images_of_one_album_are_listed_alone(client: AsyncClient) -> None:
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
    ["page=0", "page=x", "page=01", "page=", "per_page=101", "per_page=0", "cursor=x", "page=1&page=2"],
)
async def test_a_wrong_query_of_a_list_is_400(http: httpx2.AsyncClient, path: str, query: str) -> None:
    refused(await http.get(f"{path}?{query}"), 400, "BAD_REQUEST", query.partition("=")[0])


@pytest.mark.parametrize("album", ["x", "0", "-1", "01"])
async def test_an_album_that_cannot_be_one_is_400_in_a_query(http: httpx2.AsyncClient, album: str) -> None:
    refused(await http.get(f"/images?album_id={album}"), 400, "BAD_REQUEST", "album_id")


async def test_an_update_changes_what_it_names_and_no_more(client: AsyncClient) -> None:
    album = await client.albums.create("A")
    image = await client.upload(("a.png", make_png()), description="Old", convert_to_webp=False)
    changed = await client.images.update(image, description="New")
    assert (changed.description, changed.is_public, changed.album_id) == ("New", True, None)
    assert changed.updated_at > image.updated_at
    changed = await client.images.update(image, album_id=album, is_public=False)
    assert (changed.description, changed.is_public, changed.album_id) == ("New", False, album.id)
    changed = await client.images.update(image, filename="b.png", album_id=None)
    assert (changed.filename, changed.original_filename, changed.album_id) == ("b.png", "a.png", None)
    assert await client.images.get(image) == changed


@pytest.mark.parametrize(
    ("body", "named"),
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
async def test_an_update_with_a_value_that_is_not_allowed_is_422_and_changes_nothing(
    http: httpx2.AsyncClient, picture: bytes, body: dict[str, object], named: str
) -> None:
    record = await data_of(http.post("/upload", files={"image": picture}))
    refused(await http.patch(f"/images/{record['id']}", json=body), 422, "VALIDATION_ERROR", named)
    assert await data_of(http.get(f"/images/{record['id']}")) == record


async def test_a_name_follows_the_stored_format(client: AsyncClient) -> None:
    image = await client.upload(make_png(), format="jpeg")
    assert (await client.images.update(image, filename="../holiday.png")).filename == "holiday.jpg"


async def test_what_is_deleted_is_gone_everywhere(client: AsyncClient, visitor: httpx2.AsyncClient) -> None:
    image = await client.upload(make_png(9, 9))
    variant = client.image_url(image, w=5, fm="png")
    assert (await visitor.get(image.url)).status_code == (await visitor.get(variant)).status_code == 200
    deleted = await client.images.delete(image)
    assert (deleted.id, deleted.deleted) == (image.id, True)
    for address in (image.url, variant):
        refused(await visitor.get(address), 404, "NOT_FOUND")
    for call in (client.images.get, client.images.delete, client.images.signed_url):
        with pytest.raises(NotFoundError):
            await call(image)
    with pytest.raises(NotFoundError):
        await client.images.update(image, description="Late")
    assert [one.id async for one in client.images.list()] == []


async def test_what_belongs_to_others_is_as_what_does_not_exist(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    stranger = connect(other.token)
    image, album = await client.upload(make_png()), await client.albums.create("Mine")
    for call in (
        lambda: stranger.images.get(image),
        lambda: stranger.images.delete(image),
        lambda: stranger.images.update(image, description="Mine now"),
        lambda: stranger.images.signed_url(image),
        lambda: stranger.images.list(album_id=album).first_page(),
    ):
        with pytest.raises(NotFoundError):
            await call()
    with pytest.raises(ValidationError):
        await stranger.upload(make_png(), album_id=album)
    assert await client.images.get(image) == image


async def test_a_foreign_id_and_a_missing_one_get_the_same_answer(
    http: httpx2.AsyncClient, connect: Connect, other: Account
) -> None:
    foreign = (await connect(other.token).upload(make_png())).id
    bodies = {"PATCH": {"description": "x"}, "POST": {"expires_in": 5}}
    for method, tail in (("GET", ""), ("DELETE", ""), ("PATCH", ""), ("POST", "/signed-url")):
        body = bodies.get(method)
        first = await http.request(method, f"/images/{foreign}{tail}", json=body)
        second = await http.request(method, f"/images/{MISSING}{tail}", json=body)
        refused(first, 404, "NOT_FOUND")
        assert first.text.replace(foreign, MISSING) == second.text
        assert first.headers.keys() == second.headers.keys()


async def test_the_gallery_shows_public_images_to_everybody(
    connect: Connect, client: AsyncClient, visitor: httpx2.AsyncClient
) -> None:
    anybody = connect(None)
    shown = await client.upload(make_png(4, 3), description="For all")
    hidden = await client.upload(make_png(), is_public=False)

    async def seen() -> dict[str, PublicImage]:
        page = await anybody.gallery(per_page=100).first_page()
        return {image.id: image for image in page}

    found = await seen()
    assert hidden.id not in found
    public = found[shown.id]
    assert (public.description, public.width, public.height) == ("For all", 4, 3)
    assert (public.url, public.thumb_url, public.placeholder) == (
        shown.url,
        shown.thumb_url,
        shown.placeholder,
    )
    records = (await data_of(visitor.get("/gallery")))["images"]
    assert {frozenset(record) for record in records} == {frozenset(members(PublicImage))}
    await client.images.update(shown, is_public=False)
    assert shown.id not in await seen()
    await client.images.update(hidden, is_public=True)
    assert hidden.id in await seen()


async def test_a_private_image_is_shown_to_its_owner_alone(
    house: House, client: AsyncClient, http: httpx2.AsyncClient, visitor: httpx2.AsyncClient, picture: bytes
) -> None:
    image = await client.upload(picture, is_public=False, convert_to_webp=False)
    assert (await http.get(image.url)).content == picture
    for address in (image.url, f"{house.cdn_url}/{image.id}?w=5"):
        hidden = await visitor.get(address)
        refused(hidden, 404, "NOT_FOUND")
        missing = await visitor.get(address.replace(image.id, MISSING))
        assert hidden.text.replace(image.id, MISSING) == missing.text


async def test_a_picture_is_fetched_as_it_is_stored_and_to_measure(
    client: AsyncClient, house: House, picture: bytes
) -> None:
    image = await client.upload(picture, is_public=False)
    stored = await client.images.render(image)
    assert (stored.media_type, len(stored.data)) == (image.mime_type, image.size)
    assert hashlib.sha256(stored.data).hexdigest() == image.sha256
    assert stored.etag is not None
    rendered = await client.images.render(image.id, w=20, fm="jpg")
    if house.renders:
        assert (rendered.media_type, rendered.data[:3]) == ("image/jpeg", b"\xff\xd8\xff")
        assert rendered.etag != stored.etag


async def test_a_picture_that_may_not_be_seen_does_not_exist(
    client: AsyncClient, connect: Connect, other: Account, picture: bytes
) -> None:
    private = await client.upload(picture, is_public=False)
    for stranger in (connect(other.token), connect(None)):
        with pytest.raises(NotFoundError) as caught:
            await stranger.images.render(private)
        assert caught.value.code == "NOT_FOUND"
    public = await client.images.update(private, is_public=True)
    assert (await connect(None).images.render(public)).data == (await client.images.render(public)).data
