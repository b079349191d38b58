"""Images, gallery and albums over HTTP."""

from __future__ import annotations

import attrs
import httpx2
import pytest

from imagehost_core.resources import PublicImageRecord
from imagehost_core.testing import make_image
from imagehost_server.testing import RunningServer


def upload_images(client: httpx2.Client, count: int, **fields: str) -> list[str]:
    """Upload images one by one; return their ids, newest first."""
    ids = []
    for number in range(count):
        files = {"image": make_image(4, 4, seed=number)}
        ids.append(client.post("/v1/upload", files=files, data=fields).json()["data"]["id"])
    return ids[::-1]


def ids_of(response: httpx2.Response) -> list[str]:
    return [image["id"] for image in response.json()["data"]["images"]]


def test_the_list_is_paged_newest_first(account: httpx2.Client) -> None:
    ids = upload_images(account, 5)
    first = account.get("/v1/images?per_page=2")
    assert ids_of(first) == ids[:2]
    pagination = first.json()["data"]["pagination"]
    cursor = pagination.pop("next_cursor")
    assert pagination == {"page": 1, "per_page": 2, "total": 5, "total_pages": 3}
    second = account.get(f"/v1/images?per_page=2&cursor={cursor}")
    assert (ids_of(second), second.json()["data"]["pagination"]["page"]) == (ids[2:4], None)
    last = account.get("/v1/images?per_page=2&page=3")
    assert (ids_of(last), last.json()["data"]["pagination"]["next_cursor"]) == (ids[4:], None)
    assert ids_of(account.get("/v1/images?page=9")) == []


def test_a_cursor_neither_skips_nor_repeats_while_images_are_added_and_deleted(
    account: httpx2.Client,
) -> None:
    ids = upload_images(account, 6)
    seen: list[str] = []
    query = "?per_page=2"
    while query:
        page = account.get(f"/v1/images{query}")
        seen += ids_of(page)
        cursor = page.json()["data"]["pagination"]["next_cursor"]
        query = cursor and f"?per_page=2&cursor={cursor}"
        account.delete(f"/v1/images/{ids[0]}")
        upload_images(account, 1)
    assert seen == ids


def test_the_list_can_be_filtered_by_album(account: httpx2.Client) -> None:
    album = account.post("/v1/albums", json={"name": "Cats"}).json()["data"]["id"]
    in_album = upload_images(account, 2, album_id=str(album))
    upload_images(account, 1)
    assert ids_of(account.get(f"/v1/images?album_id={album}")) == in_album


def test_an_image_can_be_read_updated_and_deleted(account: httpx2.Client) -> None:
    (image_id,) = upload_images(account, 1)
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
        ({"is_public": "1"}, "is_public"),
        ({"is_public": -1}, "is_public"),
        ({"filename": None}, "filename"),
    ],
)
def test_an_invalid_update_changes_nothing(
    account: httpx2.Client, changes: dict[str, object], word: str
) -> None:
    (image_id,) = upload_images(account, 1)
    response = account.patch(f"/v1/images/{image_id}", json={"description": "new", **changes})
    assert (response.status_code, word in response.json()["error"]["details"]) == (422, True)
    assert account.get(f"/v1/images/{image_id}").json()["data"]["description"] == ""


@pytest.mark.parametrize(
    "body",
    [
        {"expires_in": 0},
        {"expires_in": "60"},
        {"expires_in": 60, "w": 0},
        {"expires_in": 60, "fit": "crop"},
    ],
)
def test_a_signed_url_requires_valid_parameters(account: httpx2.Client, body: dict[str, object]) -> None:
    (image_id,) = upload_images(account, 1)
    response = account.post(f"/v1/images/{image_id}/signed-url", json=body)
    assert response.status_code == 422


def test_the_gallery_lists_public_images_without_a_token(
    account: httpx2.Client, anonymous: httpx2.Client
) -> None:
    public, private = upload_images(account, 1)[0], upload_images(account, 1, is_public="0")[0]
    images = anonymous.get("/v1/gallery?per_page=100").json()["data"]["images"]
    by_id = {image["id"]: image for image in images}
    assert public in by_id
    assert private not in by_id
    assert list(by_id[public]) == [attribute.name for attribute in attrs.fields(PublicImageRecord)]
    account.patch(f"/v1/images/{public}", json={"is_public": False})
    assert public not in ids_of(anonymous.get("/v1/gallery?per_page=100"))


def test_a_created_album_has_a_location_and_is_listed(account: httpx2.Client, server: RunningServer) -> None:
    response = account.post("/v1/albums", json={"name": " Cats ", "description": "All", "is_public": False})
    album = response.json()["data"]
    assert response.status_code == 201
    assert response.headers["location"] == f"{server.base_url}/albums/{album['id']}"
    assert (album["name"], album["description"], album["is_public"]) == ("Cats", "All", False)
    assert (album["image_count"], album["cover_image_id"], album["cover_url"]) == (0, None, None)
    (image_id,) = upload_images(account, 1, album_id=str(album["id"]))
    listed = account.get("/v1/albums").json()["data"]
    assert listed["pagination"]["total"] == 1
    assert (listed["albums"][0]["image_count"], listed["albums"][0]["cover_image_id"]) == (1, image_id)


def test_albums_are_paged_per_account(account: httpx2.Client, api: httpx2.Client) -> None:
    ids = [account.post("/v1/albums", json={"name": f"{n}"}).json()["data"]["id"] for n in range(3)]
    api.post("/v1/albums", json={"name": "of another"})
    response = account.get("/v1/albums?per_page=2").json()["data"]
    assert [album["id"] for album in response["albums"]] == ids[:0:-1]
    assert response["pagination"]["total"] == 3
    assert account.get("/v1/albums?per_page=0").status_code == 400


def test_head_equals_get_without_the_body(account: httpx2.Client) -> None:
    get, head = account.get("/v1/images"), account.head("/v1/images")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == get.headers["content-length"]


def test_api_responses_are_not_cached(account: httpx2.Client) -> None:
    headers = account.get("/v1/images").headers
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
