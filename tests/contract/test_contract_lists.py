"""Filters, order and cursors of lists, with both clients."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone

import httpx2
import pytest
from tests.animations import make_gif
from tests.contract.conftest import Account, Connect, assert_error, data_of

from imagehost_client import AsyncClient, BadRequestError, Image, NotFoundError
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio


async def names(client: AsyncClient, **filters: object) -> list[str]:
    """Return the file names of a list of images."""
    return [image.filename async for image in client.images.list(per_page=2, **filters)]  # type: ignore[arg-type]


async def upload(client: AsyncClient, name: str, content: bytes | None = None, **options: object) -> Image:
    """Upload an image under a file name, unchanged."""
    image = make_png() if content is None else content
    return await client.upload((name, image), convert_to_webp=False, **options)  # type: ignore[arg-type]


async def test_images_are_found_by_words_of_their_name_and_description(client: AsyncClient) -> None:
    await upload(client, "cat_on_roof.png", description="Summer in Malmö")
    await upload(client, "dog.png", description="A dog and a CAT")
    assert await names(client, q="cat") == ["dog.png", "cat_on_roof.png"]
    assert await names(client, q="malmo summer") == ["cat_on_roof.png"]
    assert await names(client, q="cat_on") == ["cat_on_roof.png"]
    assert await names(client, q="on cat") == ["cat_on_roof.png"]
    assert await names(client, q="roo") == ["cat_on_roof.png"]  # the beginning of the last word
    assert (
        await names(client, q="oof")
        == await names(client, q="cat bird")
        == await names(client, q="...")
        == []
    )
    assert await names(client, q="  ") == ["dog.png", "cat_on_roof.png"]
    await client.images.update(
        next(iter(await client.images.list(q="dog").first_page())), filename="bird.png"
    )
    assert await names(client, q="dog.png") == []
    assert await names(client, q="bird") == ["bird.png"]


async def test_images_are_filtered_by_visibility_format_and_album(client: AsyncClient) -> None:
    album = await client.albums.create("A")
    await upload(client, "a.png", is_public=False)
    await upload(client, "b.gif", make_gif(), album_id=album)
    await upload(client, "c.png", album_id=album)
    assert await names(client, is_public=True) == ["c.png", "b.gif"]
    assert await names(client, is_public=False) == ["a.png"]
    assert await names(client, format="png") == ["c.png", "a.png"]
    assert await names(client, format="gif", album_id=album) == ["b.gif"]
    assert await names(client, format="webp") == []
    assert await names(client, album_id=album, is_public=True, q="c") == ["c.png"]


async def test_images_are_filtered_by_time(client: AsyncClient) -> None:
    images = [await upload(client, f"{name}.png") for name in "abc"]
    middle = images[1].created_at
    assert await names(client, created_after=middle) == ["c.png"]
    assert await names(client, created_before=middle) == ["a.png"]
    elsewhere = middle.astimezone(timezone(timedelta(hours=2)))
    assert await names(client, created_after=elsewhere, created_before=elsewhere.isoformat()) == []
    assert await names(client, created_after=middle - timedelta(seconds=60)) == ["c.png", "b.png", "a.png"]


async def test_images_are_sorted_and_pages_neither_skip_nor_repeat(client: AsyncClient) -> None:
    for name, side in (("b", 40), ("c", 1), ("a", 90)):
        await upload(client, f"{name}.png", make_png(side, side, (side, side, side)))
    orders = {
        "created_at": "bca",
        "-created_at": "acb",
        "filename": "abc",
        "-filename": "cba",
        "size": "cba",
        "-size": "abc",
    }
    for sort, expected in orders.items():
        assert await names(client, sort=sort) == [f"{name}.png" for name in expected], sort
    assert await names(client) == await names(client, sort="-created_at")


async def test_totals_are_unknown_with_a_search_a_format_or_a_time(client: AsyncClient) -> None:
    image = await upload(client, "a.png")
    for filters in (
        {"q": "a"},
        {"format": "png"},
        {"created_after": image.created_at - timedelta(days=1)},
        {"created_before": "2999-01-01T00:00:00+02:00"},
        {"sha256": hashlib.sha256(make_png()).hexdigest()},
    ):
        page = await client.images.list(**filters).first_page()
        assert (len(page), page.total, page.total_pages) == (1, None, None)
    for counted in ({}, {"is_public": True}, {"sort": "size"}, {"q": " "}):
        page = await client.images.list(**counted).first_page()
        assert (len(page), page.total, page.total_pages) == (1, 1, 1)


async def test_a_list_continues_from_a_cursor(client: AsyncClient) -> None:
    for name in "abc":
        await upload(client, f"{name}.png")
    cursor = (await client.images.list(per_page=1, sort="filename").first_page()).next_cursor
    continued = client.images.list(per_page=1, sort="filename", cursor=cursor)
    assert [image.filename async for image in continued] == ["b.png", "c.png"]
    assert (await continued.first_page()).page is None


async def test_a_cursor_of_another_order_filter_or_album_is_400(client: AsyncClient) -> None:
    album = await client.albums.create("A")
    for name in "abc":
        await upload(client, f"{name}.png", album_id=album)
    cursor = (await client.images.list(per_page=1).first_page()).next_cursor
    assert len(await client.images.list(cursor=cursor, sort="-created_at").first_page()) == 2
    for filters in (
        {"sort": "created_at"},
        {"sort": "-size"},
        {"q": "png"},
        {"is_public": True},
        {"format": "png"},
        {"album_id": album},
        {"created_after": "2000-01-01T00:00:00Z"},
    ):
        with pytest.raises(BadRequestError, match="for cursor"):
            await client.images.list(cursor=cursor, **filters).first_page()


@pytest.mark.parametrize(
    ("query", "name"),
    [
        (f"q={'x' * 101}", "q"),
        ("is_public=yes", "is_public"),
        ("is_public=", "is_public"),
        ("format=avif", "format"),
        ("format=tiff", "format"),
        ("created_after=yesterday", "created_after"),
        ("created_before=2026-01-01", "created_before"),
        ("created_before=2026-01-01T00:00:00", "created_before"),
        ("sort=name", "sort"),
        ("sort=", "sort"),
        ("sort=size&sort=filename", "sort"),
    ],
)
async def test_an_invalid_filter_is_400(http: httpx2.AsyncClient, query: str, name: str) -> None:
    assert_error(await http.get(f"/images?{query}"), 400, "BAD_REQUEST", name)


async def test_booleans_and_formats_of_a_query_are_case_insensitive(http: httpx2.AsyncClient) -> None:
    await http.post("/upload", files={"image": ("a.png", make_png())}, data={"convertToWebP": "false"})
    for query in ("is_public=TRUE", "is_public=1", "format=PNG"):
        assert len((await data_of(http.get(f"/images?{query}")))["images"]) == 1, query
    assert (await data_of(http.get("/images?is_public=0")))["images"] == []


async def test_all_errors_of_a_query_are_reported_together(http: httpx2.AsyncClient) -> None:
    query = "page=0&per_page=101&album_id=x&is_public=2&format=tiff&created_after=x&sort=x"
    names_in_query = ("page", "per_page", "album_id", "is_public", "format", "created_after", "sort")
    response = await http.get(f"/images?{query}&q={'x' * 101}")
    assert_error(response, 400, "BAD_REQUEST", *(f"for {name}" for name in (*names_in_query, "q")))
    response = await http.get("/images?album_id=999999&per_page=0")
    assert_error(response, 400, "BAD_REQUEST", "for per_page", "999999")


async def test_the_gallery_of_an_album_has_its_public_images_and_its_summary(
    client: AsyncClient, connect: Connect
) -> None:
    album = await client.albums.create("Cats", description="All of them")
    first = await upload(client, "a.png", album_id=album)
    second = await upload(client, "b.png", album_id=album)
    await upload(client, "c.png", album_id=album, is_public=False)
    anonymous = connect(None)
    page = await anonymous.gallery(album_id=album, per_page=1).first_page()
    assert ([image.id for image in page], page.total) == ([second.id], 2)
    assert page.album is not None
    assert (page.album.id, page.album.name, page.album.description) == (album.id, "Cats", "All of them")
    assert (page.album.image_count, page.album.cover_url) == (2, second.thumb_url)
    listed = anonymous.gallery(album_id=str(album.id), per_page=1)
    assert [image.id async for image in listed] == [second.id, first.id]
    assert (await anonymous.gallery().first_page()).album is None
    found = await anonymous.gallery(q="png B", album_id=album).first_page()
    assert ([image.id for image in found], found.total) == ([second.id], None)


async def test_a_private_album_hides_its_images_from_galleries_and_not_from_their_urls(
    client: AsyncClient, connect: Connect, anonymous_http: httpx2.AsyncClient
) -> None:
    album = await client.albums.create("Hidden", is_public=False)
    image = await upload(client, "a.png", album_id=album, is_public=True)
    anonymous = connect(None)

    async def is_listed() -> bool:
        return image.id in {one.id for one in await anonymous.gallery(per_page=100).first_page()}

    assert not await is_listed()
    assert (await anonymous_http.get(image.url)).status_code == 200
    with pytest.raises(NotFoundError):
        await anonymous.gallery(album_id=album).first_page()
    await client.albums.update(album, is_public=True)
    assert await is_listed()
    assert len(await anonymous.gallery(album_id=album).first_page()) == 1
    await client.albums.update(album, is_public=False)
    assert not await is_listed()


async def test_the_gallery_of_a_missing_or_private_album_is_the_same_404(
    client: AsyncClient, anonymous_http: httpx2.AsyncClient
) -> None:
    hidden = str((await client.albums.create("Hidden", is_public=False)).id)
    first, second = [await anonymous_http.get(f"/gallery?album_id={name}") for name in (hidden, "999999")]
    assert_error(first, 404, "NOT_FOUND")
    assert first.text.replace(hidden, "999999") == second.text
    assert_error(await anonymous_http.get("/gallery?album_id=x"), 400, "BAD_REQUEST", "album_id")


async def test_a_search_finds_no_images_of_other_accounts(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    await upload(client, "secret.png")
    assert await names(connect(other.token), q="secret") == []


async def test_times_without_a_utc_offset_are_rejected_before_a_request(client: AsyncClient) -> None:
    with pytest.raises(ValueError, match="UTC offset"):
        await names(client, created_after=datetime(2026, 1, 1))
