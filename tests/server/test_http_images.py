"""Over real HTTP: images and the gallery, listed, shown, changed and deleted; albums."""

from __future__ import annotations

import attrs
import httpx2
import pytest

from imagehost_core.resources import PublicImageRecord
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer


def put(client: httpx2.Client, count: int, **fields: str) -> list[str]:
    """Upload that many images, one after the other, and return their ids, newest first."""
    ids = []
    for number in range(count):
        files = {"image": make_image(4, 4, seed=number)}
        ids.append(client.post("/v1/upload", files=files, data=fields).json()["data"]["id"])
    return ids[::-1]


def ids_of(answer: httpx2.Response) -> list[str]:
    return [image["id"] for image in answer.json()["data"]["images"]]


def test_the_list_is_newest_first_and_paged(account: httpx2.Client) -> None:
    ids = put(account, 5)
    first = account.get("/v1/images?per_page=2")
    assert ids_of(first) == ids[:2]
    pagination = first.json()["data"]["pagination"]
    cursor = pagination.pop("next_cursor")
    assert pagination == {"page": 1, "per_page": 2, "total": 5, "total_pages": 3}
    assert ids_of(account.get(f"/v1/images?per_page=2&cursor={cursor}")) == ids[2:4]
    last = account.get("/v1/images?per_page=2&page=3")
    assert (ids_of(last), last.json()["data"]["pagination"]["next_cursor"]) == (ids[4:], None)
    assert ids_of(account.get("/v1/images?page=9")) == []


def test_a_cursor_neither_skips_nor_repeats_while_images_come_and_go(account: httpx2.Client) -> None:
    ids = put(account, 6)
    seen: list[str] = []
    query = "?per_page=2"
    while query:
        page = account.get(f"/v1/images{query}")
        seen += ids_of(page)
        cursor = page.json()["data"]["pagination"]["next_cursor"]
        query = cursor and f"?per_page=2&cursor={cursor}"
        account.delete(f"/v1/images/{ids[0]}")
        put(account, 1)
    assert seen == ids


def test_the_list_can_be_restricted_to_an_album(account: httpx2.Client) -> None:
    album = account.post("/v1/albums", json={"name": "Cats"}).json()["data"]["id"]
    inside = put(account, 2, album_id=str(album))
    put(account, 1)
    assert ids_of(account.get(f"/v1/images?album_id={album}")) == inside


def test_an_image_is_shown_changed_and_deleted(account: httpx2.Client) -> None:
    (image_id,) = put(account, 1)
    album = account.post("/v1/albums", json={"name": "Cats"}).json()["data"]["id"]
    path = f"/v1/images/{image_id}"
    before = account.get(path).json()["data"]
    changes = {"album_id": str(album), "description": "Asleep", "is_public": False, "filename": "Tom.webp"}
    after = account.patch(path, json=changes).json()["data"]
    assert after == account.get(path).json()["data"]
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"album_id", "description", "is_public", "filename", "links", "updated_at"}
    assert after["album_id"] == album
    assert account.patch(path, json={"album_id": None}).json()["data"]["album_id"] is None
    assert account.patch(path, json={}).json()["data"]["description"] == "Asleep"
    assert account.delete(path).json() == {"success": True, "data": {"id": image_id, "deleted": True}}
    assert account.delete(path).status_code == account.get(path).status_code == 404


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"album_id": "x"}, "album_id"),
        ({"album_id": 999_999}, "album_id"),
        ({"album_id": True}, "album_id"),
        ({"description": "x" * 2_001}, "description"),
        ({"description": 1}, "description"),
        ({"is_public": "no"}, "is_public"),
        ({"filename": None}, "filename"),
    ],
)
def test_a_change_that_is_not_allowed_changes_nothing(
    account: httpx2.Client, changes: dict[str, object], word: str
) -> None:
    (image_id,) = put(account, 1)
    answer = account.patch(f"/v1/images/{image_id}", json={"description": "new", **changes})
    assert (answer.status_code, word in answer.json()["error"]["details"]) == (422, True)
    assert account.get(f"/v1/images/{image_id}").json()["data"]["description"] == ""


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"expires_in": 0},
        {"expires_in": "60"},
        {"expires_in": 60, "w": 0},
        {"expires_in": 60, "fit": "crop"},
    ],
)
def test_a_signed_address_needs_good_parameters(account: httpx2.Client, wanted: dict[str, object]) -> None:
    (image_id,) = put(account, 1)
    answer = account.post(f"/v1/images/{image_id}/signed-url", json=wanted)
    assert answer.status_code == 422


def test_the_gallery_shows_public_images_of_all_to_everybody(
    account: httpx2.Client, anybody: httpx2.Client
) -> None:
    shown, hidden = put(account, 1)[0], put(account, 1, is_public="0")[0]
    images = anybody.get("/v1/gallery?per_page=100").json()["data"]["images"]
    by_id = {image["id"]: image for image in images}
    assert shown in by_id
    assert hidden not in by_id
    assert list(by_id[shown]) == [attribute.name for attribute in attrs.fields(PublicImageRecord)]
    account.patch(f"/v1/images/{shown}", json={"is_public": False})
    assert shown not in ids_of(anybody.get("/v1/gallery?per_page=100"))


def test_an_album_is_made_with_its_address_and_listed(account: httpx2.Client, server: RunningServer) -> None:
    answer = account.post("/v1/albums", json={"name": " Cats ", "description": "All", "is_public": False})
    album = answer.json()["data"]
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{server.base_url}/albums/{album['id']}"
    assert (album["name"], album["description"], album["is_public"]) == ("Cats", "All", False)
    assert (album["image_count"], album["cover_image_id"], album["cover_url"]) == (0, None, None)
    (image_id,) = put(account, 1, album_id=str(album["id"]))
    listed = account.get("/v1/albums").json()["data"]
    assert listed["pagination"]["total"] == 1
    assert (listed["albums"][0]["image_count"], listed["albums"][0]["cover_image_id"]) == (1, image_id)


def test_albums_are_paged_and_each_accounts_own(account: httpx2.Client, api: httpx2.Client) -> None:
    ids = [account.post("/v1/albums", json={"name": f"{n}"}).json()["data"]["id"] for n in range(3)]
    api.post("/v1/albums", json={"name": "of another"})
    answer = account.get("/v1/albums?per_page=2").json()["data"]
    assert [album["id"] for album in answer["albums"]] == ids[:0:-1]
    assert answer["pagination"]["total"] == 3
    assert account.get("/v1/albums?per_page=0").status_code == 400


def test_head_of_the_json_interface_is_get_without_the_body(account: httpx2.Client) -> None:
    got, head = account.get("/v1/images"), account.head("/v1/images")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]


def test_answers_of_the_json_interface_are_kept_by_nobody(account: httpx2.Client) -> None:
    headers = account.get("/v1/images").headers
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
