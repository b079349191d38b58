"""Private albums: what becomes of their images, by the table of the documentation, with both clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import cycle
from pathlib import Path

import httpx2
import pytest
from tests.contract.conftest import Connect, assert_error, data_of
from tests.transitions import DELETED, MOVES, SWITCHES, Transition, read_transitions

from imagehost_client import UNSET, AsyncClient
from imagehost_client.models import Album, Image
from imagehost_client.testing import make_png

pytestmark = pytest.mark.anyio

Move = Callable[[AsyncClient, Image, Album | None, Album | None, bool], Awaitable[int]]
"""A request that moves an image; it returns how many images it has made private."""


async def update(client: AsyncClient, image: Image, _: Album | None, target: Album | None, flag: bool) -> int:
    changed = await client.images.update(image, album_id=target, images_public=flag)
    return image.is_public and not changed.is_public


async def update_many(
    client: AsyncClient, image: Image, _: Album | None, target: Album | None, flag: bool
) -> int:
    results = await client.images.update_many([image], album_id=target, images_public=flag)
    return sum(result.made_private for result in results)


async def change_members(
    client: AsyncClient, image: Image, source: Album | None, target: Album | None, flag: bool
) -> int:
    if target is None and source is None:
        return await update(client, image, source, target, flag)
    change = client.albums.remove_images if target is None else client.albums.add_images
    changed = await change(target or source, image, images_public=flag)  # type: ignore[arg-type]
    assert [member.made_private for member in changed.results] == [bool(changed.made_private_count)]
    return changed.made_private_count


async def perform(
    client: AsyncClient, image: Image, source: Album | None, each: Transition, move: Move
) -> int:
    """Make a transition; return how many images it has made private."""
    flag = each.images_public
    if each.action in MOVES:
        is_public = MOVES[each.action]
        target = None if is_public is None else await client.albums.create("target", is_public=is_public)
        return await move(client, image, source, target, flag is True)
    assert source is not None
    if each.action == DELETED:
        return (await client.albums.delete(source, images_public=flag is True)).made_private_count
    album = await client.albums.update(
        source, is_public=SWITCHES[each.action], images_public=UNSET if flag is None else flag
    )
    assert album.public_image_count == each.is_public
    return 0


async def test_every_transition_of_the_table_has_its_outcome(
    client: AsyncClient, connect: Connect, anonymous_http: httpx2.AsyncClient, workspace: Path
) -> None:
    anonymous = connect(None)
    image = await client.upload(make_png(), filename="cormorant.png")
    for each, move in zip(read_transitions(workspace), cycle((update, update_many, change_members))):
        source = None if each.album is None else await client.albums.create("source", is_public=each.album)
        before = await client.images.update(image, album_id=source, is_public=each.image)
        made_private = await perform(client, before, source, each, move)
        is_listed = bool(len(await anonymous.gallery(q="cormorant").first_page()))
        is_sent = (await anonymous_http.head(image.url)).status_code == 200
        outcome = "listed" if is_listed else "public" if is_sent else "private"
        assert (outcome, made_private) == (each.outcome, each.is_made_private), each
        assert (await client.images.get(image)).is_public is is_sent


async def test_an_upload_into_a_private_album_is_private_unless_it_says_otherwise(
    client: AsyncClient,
) -> None:
    album = await client.albums.create("Hidden", is_public=False)
    uploads = [
        await client.upload(make_png(), album_id=album, is_public=flag) for flag in (None, True, False)
    ]
    assert [image.is_public for image in uploads] == [False, True, False]
    batch = await client.upload_many([make_png(), make_png()], album_id=album)
    assert [result.image.is_public for result in batch if result.image] == [False, False]
    current = await client.albums.get(album)
    assert (current.image_count, current.public_image_count) == (5, 1)


async def test_images_public_is_a_boolean_everywhere(http: httpx2.AsyncClient) -> None:
    album = (await data_of(http.post("/albums", json={"name": "A"}), 201))["id"]
    image = (await data_of(http.post("/upload", files={"image": make_png()})))["id"]
    body = {"image_ids": [image], "images_public": "yes"}
    for method, path, content in (
        ("PATCH", f"/albums/{album}", {"images_public": "yes"}),
        ("PATCH", f"/images/{image}", {"images_public": "yes"}),
        ("PATCH", "/images", body),
        ("PUT", f"/albums/{album}/images", body),
        ("DELETE", f"/albums/{album}/images", body),
    ):
        response = await http.request(method, path, json=content)
        assert_error(response, 422, "VALIDATION_ERROR", "images_public")
    response = await http.delete(f"/albums/{album}?images_public=yes")
    assert_error(response, 400, "BAD_REQUEST", "images_public")
    assert (await data_of(http.patch(f"/albums/{album}", json={"images_public": 0})))["id"] == album
    deleted = await data_of(http.delete(f"/albums/{album}?images_public=1"))
    assert deleted == {"id": album, "deleted": True, "made_private_count": 0}


async def test_only_what_has_become_private_says_so(http: httpx2.AsyncClient) -> None:
    album = (await data_of(http.post("/albums", json={"name": "A", "is_public": False}), 201))["id"]
    form = {"album_id": str(album), "is_public": "1"}
    ids = [(await data_of(http.post("/upload", files={"image": make_png()}, data=form)))["id"] for _ in "ab"]
    other = (await data_of(http.post("/upload", files={"image": make_png()})))["id"]
    body = {"image_ids": [ids[0], other], "album_id": None}
    moved = await data_of(http.patch("/images", json=body))
    assert moved == {
        "results": [
            {"id": ids[0], "status": "updated", "made_private": True},
            {"id": other, "status": "unchanged"},
        ],
        "made_private_count": 1,
    }
    removed = await data_of(
        http.request("DELETE", f"/albums/{album}/images", json={"image_ids": [ids[1], other]})
    )
    assert removed["results"] == [
        {"image_id": ids[1], "status": "removed", "made_private": True},
        {"image_id": other, "status": "unchanged"},
    ]
    assert removed["made_private_count"] == 1
    assert "made_private_count" not in await data_of(http.post("/images/delete", json={"image_ids": ids}))
