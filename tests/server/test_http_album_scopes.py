"""Deleting an album with its images needs what deleting images needs."""

from __future__ import annotations

from collections.abc import Callable

import httpx2

Caller = Callable[..., httpx2.Client]


def test_images_go_with_their_album_only_for_a_token_that_may_delete_images(
    client_of: Caller, api: httpx2.Client, picture: bytes
) -> None:
    album_id = api.post("/v1/albums", json={"name": "Cats"}).json()["data"]["id"]
    files, data = {"image": ("cat.png", picture)}, {"album_id": str(album_id)}
    image_id = api.post("/v1/upload", files=files, data=data).json()["data"]["id"]
    weak = client_of("admin", "albums:write", "albums:read", "images:write", "images:read")
    refused = weak.delete(f"/v1/albums/{album_id}?delete_images=true")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert weak.get(f"/v1/albums/{album_id}").json()["data"]["image_count"] == 1
    assert weak.get(f"/v1/images/{image_id}").status_code == 200
    strong = client_of("admin", "albums:write", "images:delete")
    assert strong.delete(f"/v1/albums/{album_id}?delete_images=true").status_code == 200
    assert api.get(f"/v1/images/{image_id}").status_code == 404
