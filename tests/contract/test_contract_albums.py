"""Contract 6, in both houses: albums and what is in them."""

from __future__ import annotations

import httpx2
import pytest
from tests.contract.conftest import Account, Connect, House, data_of, members, refused

from imagehost_client import AsyncClient, NotFoundError
from imagehost_client.models import Album, MemberStatus
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio


async def test_an_album_is_made_with_its_defaults(client: AsyncClient) -> None:
    album = await client.albums.create("  Holiday  ")
    assert (album.name, album.description, album.is_public) == ("Holiday", "", True)
    assert (album.image_count, album.cover_image_id, album.cover_url) == (0, None, None)
    assert album.id > 0
    assert album.created_at == album.updated_at
    assert await client.albums.get(album) == album
    other = await client.albums.create("Other", description="Text", is_public=False)
    assert (other.description, other.is_public) == ("Text", False)
    assert other.id != album.id


async def test_making_an_album_answers_201_with_its_address(http: httpx2.AsyncClient, house: House) -> None:
    answer = await http.post("/albums", json={"name": "A"})
    record = answer.json()["data"]
    assert (answer.status_code, record.keys()) == (201, members(Album))
    assert answer.headers["location"] == f"{house.base_url}/albums/{record['id']}"
    assert (await data_of(http.get(answer.headers["location"]))) == record


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": " \t"}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": 7}, "name"),
        ({"name": None}, "name"),
        ({"name": "A", "description": "x" * 2001}, "description"),
        ({"name": "A", "description": None}, "description"),
        ({"name": "A", "is_public": 1}, "is_public"),
    ],
)
async def test_an_album_with_a_value_that_is_not_allowed_is_422(
    http: httpx2.AsyncClient, body: dict[str, object], named: str
) -> None:
    refused(await http.post("/albums", json=body), 422, "VALIDATION_ERROR", named)
    assert (await data_of(http.get("/albums")))["albums"] == []
    if body:
        album = await data_of(http.post("/albums", json={"name": "A"}), 201)
        refused(await http.patch(f"/albums/{album['id']}", json=body), 422, "VALIDATION_ERROR", named)
        assert await data_of(http.get(f"/albums/{album['id']}")) == album


async def test_the_longest_name_and_description_are_taken(client: AsyncClient) -> None:
    album = await client.albums.create("ü" * 100, description="é" * 2000)
    assert (len(album.name), len(album.description)) == (100, 2000)


async def test_albums_are_listed_newest_first_and_paged(client: AsyncClient) -> None:
    made = [await client.albums.create(f"{number}") for number in range(5)]
    assert [album async for album in client.albums.list(per_page=2)] == made[::-1]
    page = await client.albums.list(page=3, per_page=2).first_page()
    assert (page.items, page.total, page.total_pages) == ((made[0],), 5, 3)


async def test_an_update_changes_what_it_names_and_no_more(client: AsyncClient) -> None:
    album = await client.albums.create("A", description="Old")
    changed = await client.albums.update(album, name=" B ")
    assert (changed.name, changed.description, changed.is_public) == ("B", "Old", True)
    changed = await client.albums.update(album, description="", is_public=False)
    assert (changed.name, changed.description, changed.is_public) == ("B", "", False)
    assert changed.updated_at > album.updated_at
    assert await client.albums.get(str(album.id)) == changed


async def test_membership_calls_say_what_came_of_each_image(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    album, second = await client.albums.create("A"), await client.albums.create("B")
    inside = await client.upload(make_png(), album_id=album)
    elsewhere = await client.upload(make_png(), album_id=second)
    loose = await client.upload(make_png())
    foreign = await connect(other.token).upload(make_png())
    ids = [inside.id, elsewhere.id, loose.id, foreign.id, "missing"]

    added = await client.albums.add_images(album, [*ids, loose])
    assert [(member.image_id, member.status) for member in added.results] == list(
        zip(
            ids,
            [
                MemberStatus.UNCHANGED,
                MemberStatus.ADDED,
                MemberStatus.ADDED,
                MemberStatus.NOT_FOUND,
                MemberStatus.NOT_FOUND,
            ],
            strict=True,
        )
    )
    assert (added.album.id, added.album.image_count) == (album.id, 3)
    assert added.album.updated_at > album.updated_at
    assert (await client.albums.get(second)).image_count == 0
    assert (await client.images.get(loose)).album_id == album.id

    removed = await client.albums.remove_images(album, [inside, loose.id, foreign])
    assert [member.status for member in removed.results] == [
        MemberStatus.REMOVED,
        MemberStatus.REMOVED,
        MemberStatus.NOT_FOUND,
    ]
    assert removed.album.image_count == 1
    again = await client.albums.remove_images(album, inside)
    assert [member.status for member in again.results] == [MemberStatus.UNCHANGED]
    assert again.album == removed.album
    assert (await client.images.get(inside)).album_id is None


async def test_the_cover_is_the_newest_image_in_the_album(client: AsyncClient) -> None:
    album = await client.albums.create("A")
    older = await client.upload(make_png(), album_id=album)
    newer = await client.upload(make_png(), album_id=album)
    shown = await client.albums.get(album)
    assert (shown.image_count, shown.cover_image_id, shown.cover_url) == (2, newer.id, newer.thumb_url)
    await client.images.delete(newer)
    assert (await client.albums.get(album)).cover_image_id == older.id
    await client.images.update(older, album_id=None)
    assert (await client.albums.get(album)).cover_url is None


@pytest.mark.parametrize("body", [{}, {"image_ids": "x"}, {"image_ids": [1]}, {"image_ids": []}])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_membership_call_without_a_list_of_ids_is_422(
    http: httpx2.AsyncClient, body: dict[str, object], method: str
) -> None:
    album = await data_of(http.post("/albums", json={"name": "A"}), 201)
    answer = await http.request(method, f"/albums/{album['id']}/images", json=body)
    refused(answer, 422, "VALIDATION_ERROR", "image_ids")


async def test_deleting_an_album_keeps_its_images(client: AsyncClient) -> None:
    album = await client.albums.create("A")
    image = await client.upload(make_png(), album_id=album)
    deleted = await client.albums.delete(album)
    assert (deleted.id, deleted.deleted) == (album.id, True)
    assert (await client.images.get(image)).album_id is None
    for call in (client.albums.get, client.albums.delete):
        with pytest.raises(NotFoundError):
            await call(album)


async def test_deleting_an_album_with_its_images_deletes_no_others(
    client: AsyncClient, visitor: httpx2.AsyncClient
) -> None:
    album = await client.albums.create("A")
    image, kept = await client.upload(make_png(), album_id=album), await client.upload(make_png())
    await client.albums.delete(album, delete_images=True)
    assert [one.id async for one in client.images.list()] == [kept.id]
    assert (await visitor.get(image.url)).status_code == 404


async def test_delete_images_is_true_or_false(http: httpx2.AsyncClient) -> None:
    album = await data_of(http.post("/albums", json={"name": "A"}), 201)
    path = f"/albums/{album['id']}"
    refused(await http.delete(f"{path}?delete_images=maybe"), 400, "BAD_REQUEST", "delete_images")
    assert (await data_of(http.delete(f"{path}?delete_images=False")))["deleted"] is True


@pytest.mark.parametrize("album", ["999999", "x", "0", "01", "1.0"])
async def test_an_album_that_there_is_not_is_404(http: httpx2.AsyncClient, album: str) -> None:
    refused(await http.get(f"/albums/{album}"), 404, "NOT_FOUND")
    refused(await http.patch(f"/albums/{album}", json={"name": "A"}), 404, "NOT_FOUND")
    refused(await http.delete(f"/albums/{album}"), 404, "NOT_FOUND")
    refused(await http.put(f"/albums/{album}/images", json={"image_ids": ["x"]}), 404, "NOT_FOUND")


async def test_somebody_elses_album_is_404(client: AsyncClient, connect: Connect, other: Account) -> None:
    album, stranger = await client.albums.create("A"), connect(other.token)
    own = await stranger.upload(make_png())
    for call in (
        lambda: stranger.albums.get(album),
        lambda: stranger.albums.update(album, name="Mine"),
        lambda: stranger.albums.delete(album, delete_images=True),
        lambda: stranger.albums.add_images(album, own),
        lambda: stranger.albums.remove_images(album, own),
    ):
        with pytest.raises(NotFoundError):
            await call()
    with pytest.raises(NotFoundError):
        await stranger.images.list(album_id=album).first_page()
    assert await client.albums.get(album) == album
