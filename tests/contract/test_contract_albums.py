"""Albums, with both clients."""

from __future__ import annotations

import httpx2
import pytest
from tests.contract.conftest import Account, Backend, Connect, assert_error, data_of, members

from imagehost_client import AsyncClient, NotFoundError
from imagehost_client.models import Album, MemberStatus
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio


async def test_an_album_is_created_with_defaults(client: AsyncClient) -> None:
    album = await client.albums.create("  Holiday  ")
    assert (album.name, album.description, album.is_public) == ("Holiday", "", True)
    assert (album.image_count, album.cover_image_id, album.cover_url) == (0, None, None)
    assert album.id > 0
    assert album.created_at == album.updated_at
    assert await client.albums.get(album) == album
    other = await client.albums.create("Other", description="Text", is_public=False)
    assert (other.description, other.is_public) == ("Text", False)
    assert other.id != album.id


async def test_creating_an_album_returns_201_with_its_location(
    http: httpx2.AsyncClient, backend: Backend
) -> None:
    response = await http.post("/albums", json={"name": "A"})
    record = response.json()["data"]
    assert (response.status_code, record.keys()) == (201, members(Album))
    assert response.headers["location"] == f"{backend.base_url}/albums/{record['id']}"
    assert (await data_of(http.get(response.headers["location"]))) == record


@pytest.mark.parametrize(
    ("body", "field_name"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": " \t"}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": 7}, "name"),
        ({"name": None}, "name"),
        ({"name": "A", "description": "x" * 2001}, "description"),
        ({"name": "A", "description": None}, "description"),
        ({"name": "A", "is_public": 2}, "is_public"),
    ],
)
async def test_an_invalid_album_is_422(
    http: httpx2.AsyncClient, body: dict[str, object], field_name: str
) -> None:
    assert_error(await http.post("/albums", json=body), 422, "VALIDATION_ERROR", field_name)
    assert (await data_of(http.get("/albums")))["albums"] == []
    if body:
        album = await data_of(http.post("/albums", json={"name": "A"}), 201)
        assert_error(
            await http.patch(f"/albums/{album['id']}", json=body), 422, "VALIDATION_ERROR", field_name
        )
        assert await data_of(http.get(f"/albums/{album['id']}")) == album


async def test_names_and_descriptions_of_maximum_length_are_accepted(client: AsyncClient) -> None:
    album = await client.albums.create("ü" * 100, description="é" * 2000)
    assert (len(album.name), len(album.description)) == (100, 2000)


async def test_albums_are_listed_newest_first_and_paged(client: AsyncClient) -> None:
    created = [await client.albums.create(f"{number}") for number in range(5)]
    assert [album async for album in client.albums.list(per_page=2)] == created[::-1]
    page = await client.albums.list(page=3, per_page=2).first_page()
    assert (page.items, page.total, page.total_pages) == ((created[0],), 5, 3)


async def test_an_update_changes_only_the_given_fields(client: AsyncClient) -> None:
    album = await client.albums.create("A", description="Old")
    updated = await client.albums.update(album, name=" B ")
    assert (updated.name, updated.description, updated.is_public) == ("B", "Old", True)
    updated = await client.albums.update(album, description="", is_public=False)
    assert (updated.name, updated.description, updated.is_public) == ("B", "", False)
    assert updated.updated_at > album.updated_at
    assert await client.albums.get(str(album.id)) == updated
    assert await client.albums.update(album, name="B", is_public=False) == updated
    assert await client.albums.get(album) == updated


async def test_adding_and_removing_images_return_a_status_for_each(
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
    repeated = await client.albums.remove_images(album, inside)
    assert [member.status for member in repeated.results] == [MemberStatus.UNCHANGED]
    assert repeated.album == removed.album
    assert (await client.images.get(inside)).album_id is None


async def test_the_cover_is_the_newest_image_of_the_album(client: AsyncClient) -> None:
    album = await client.albums.create("A")
    older = await client.upload(make_png(), album_id=album)
    newer = await client.upload(make_png(), album_id=album)
    fetched = await client.albums.get(album)
    assert (fetched.image_count, fetched.cover_image_id, fetched.cover_url) == (2, newer.id, newer.thumb_url)
    await client.images.delete(newer)
    assert (await client.albums.get(album)).cover_image_id == older.id
    await client.images.update(older, album_id=None)
    assert (await client.albums.get(album)).cover_url is None


@pytest.mark.parametrize("body", [{}, {"image_ids": "x"}, {"image_ids": [1]}, {"image_ids": []}])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_adding_or_removing_without_a_list_of_ids_is_422(
    http: httpx2.AsyncClient, body: dict[str, object], method: str
) -> None:
    album = await data_of(http.post("/albums", json={"name": "A"}), 201)
    response = await http.request(method, f"/albums/{album['id']}/images", json=body)
    assert_error(response, 422, "VALIDATION_ERROR", "image_ids")


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
    client: AsyncClient, anonymous_http: httpx2.AsyncClient
) -> None:
    album = await client.albums.create("A")
    image, other = await client.upload(make_png(), album_id=album), await client.upload(make_png())
    await client.albums.delete(album, delete_images=True)
    assert [one.id async for one in client.images.list()] == [other.id]
    assert (await anonymous_http.get(image.url)).status_code == 404


async def test_delete_images_is_a_boolean(http: httpx2.AsyncClient) -> None:
    album = await data_of(http.post("/albums", json={"name": "A"}), 201)
    path = f"/albums/{album['id']}"
    assert_error(await http.delete(f"{path}?delete_images=maybe"), 400, "BAD_REQUEST", "delete_images")
    assert (await data_of(http.delete(f"{path}?delete_images=False")))["deleted"] is True


@pytest.mark.parametrize("album", ["999999", "x", "0", "01", "1.0"])
async def test_a_missing_album_is_404(http: httpx2.AsyncClient, album: str) -> None:
    assert_error(await http.get(f"/albums/{album}"), 404, "NOT_FOUND")
    assert_error(await http.patch(f"/albums/{album}", json={"name": "A"}), 404, "NOT_FOUND")
    assert_error(await http.delete(f"/albums/{album}"), 404, "NOT_FOUND")
    assert_error(await http.put(f"/albums/{album}/images", json={"image_ids": ["x"]}), 404, "NOT_FOUND")


async def test_an_album_of_another_account_is_404(
    client: AsyncClient, connect: Connect, other: Account
) -> None:
    album, other_client = await client.albums.create("A"), connect(other.token)
    image_of_other = await other_client.upload(make_png())
    for call in (
        lambda: other_client.albums.get(album),
        lambda: other_client.albums.update(album, name="Mine"),
        lambda: other_client.albums.delete(album, delete_images=True),
        lambda: other_client.albums.add_images(album, image_of_other),
        lambda: other_client.albums.remove_images(album, image_of_other),
    ):
        with pytest.raises(NotFoundError):
            await call()
    with pytest.raises(NotFoundError):
        await other_client.images.list(album_id=album).first_page()
    assert await client.albums.get(album) == album
