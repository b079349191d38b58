"""Deleting an album with its images requires the scope images:delete too."""

from __future__ import annotations

from collections.abc import Callable

import httpx2

CreateClient = Callable[..., httpx2.Client]


def test_deleting_an_album_with_its_images_requires_images_delete(
    client_of: CreateClient, api: httpx2.Client, png: bytes
) -> None:
    album_id = api.post("/v1/albums", json={"name": "Cats"}).json()["data"]["id"]
    files, data = {"image": ("cat.png", png)}, {"album_id": str(album_id)}
    image_id = api.post("/v1/upload", files=files, data=data).json()["data"]["id"]
    without_scope = client_of("admin", "albums:write", "albums:read", "images:write", "images:read")
    refused = without_scope.delete(f"/v1/albums/{album_id}?delete_images=true")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert without_scope.get(f"/v1/albums/{album_id}").json()["data"]["image_count"] == 1
    assert without_scope.get(f"/v1/images/{image_id}").status_code == 200
    with_scope = client_of("admin", "albums:write", "images:delete")
    assert with_scope.delete(f"/v1/albums/{album_id}?delete_images=true").status_code == 200
    assert api.get(f"/v1/images/{image_id}").status_code == 404
