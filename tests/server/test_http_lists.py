"""Filters, orders and cursors of image lists, and the gallery of an album, over HTTP."""

from __future__ import annotations

from collections.abc import Collection
from inspect import signature
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
from litestar.handlers import HTTPRouteHandler
from tests.open_host import open_host
from tests.server.in_process import serving

from imagehost_core.lists import LIST_PARAMETERS
from imagehost_core.resources import PublicAlbumRecord, PublicImageRecord
from imagehost_core.testing import make_image
from imagehost_server.routes import images
from imagehost_server.routes.lists import GALLERY_PARAMETERS
from imagehost_server.settings import GallerySettings, ServerSettings
from imagehost_server.web.pages.images import LIBRARY_FILTERS


def upload(client: httpx2.Client, filename: str = "a.png", side: int = 4, **fields: str) -> str:
    """Upload an image; return its id."""
    files = {"image": (filename, make_image(side, side))}
    response = client.post("/v1/upload", files=files, data={"format": "png", **fields})
    return str(response.json()["data"]["id"])


def listed(client: httpx2.Client, path: str = "/v1/images", **query: str) -> list[str]:
    return [image["id"] for image in client.get(path, params=query).json()["data"]["images"]]


def create_album(client: httpx2.Client, **fields: Any) -> int:
    return int(client.post("/v1/albums", json={"name": "Trip", **fields}).json()["data"]["id"])


@pytest.mark.parametrize(
    ("route", "names"),
    [(images.list_images, LIST_PARAMETERS), (images.list_gallery, GALLERY_PARAMETERS)],
)
def test_the_parameters_that_are_described_are_those_that_are_read(
    route: HTTPRouteHandler, names: Collection[str]
) -> None:
    assert signature(route.fn).parameters.keys() - {"request"} == set(names)
    assert set(LIBRARY_FILTERS) <= set(LIST_PARAMETERS)


def test_images_are_filtered_and_sorted(account: httpx2.Client) -> None:
    album = create_album(account)
    harbour = upload(account, "b harbour.png", 40, description="Sunset", album_id=str(album))
    private = upload(account, "a.png", 4, description="The harbour of Málaga", is_public="0")
    webp = upload(account, "c.webp", 90, format="webp")
    created_at = account.get(f"/v1/images/{private}").json()["data"]["created_at"]
    assert listed(account, q="HARB") == [private, harbour]
    assert listed(account, q="harbour malaga") == [private]
    assert listed(account, q="harbour", album_id=str(album)) == [harbour]
    assert listed(account, q="!!!") == []
    assert listed(account, q=" ") == listed(account) == [webp, private, harbour]
    assert listed(account, is_public="false") == [private]
    assert listed(account, format="WebP") == [webp]
    assert listed(account, created_after=created_at) == [webp]
    assert listed(account, created_before=created_at) == [harbour]
    assert listed(account, sort="created_at") == [harbour, private, webp]
    assert listed(account, sort="-filename") == [webp, harbour, private]
    sizes = {id_: account.get(f"/v1/images/{id_}").json()["data"]["size"] for id_ in (harbour, private, webp)}
    assert listed(account, sort="size") == sorted(sizes, key=lambda id_: sizes[id_])


@pytest.mark.parametrize(
    ("query", "total"), [({}, 3), ({"is_public": "1"}, 2), ({"q": "x"}, None), ({"format": "png"}, None)]
)
def test_the_total_is_null_where_images_would_have_to_be_counted(
    account: httpx2.Client, query: dict[str, str], total: int | None
) -> None:
    for flag in ("1", "1", "0"):
        upload(account, is_public=flag)
    pagination = account.get("/v1/images", params=query).json()["data"]["pagination"]
    assert (pagination["total"], pagination["total_pages"]) == (total, None if total is None else 1)


def test_a_cursor_with_other_filters_or_another_order_is_400(account: httpx2.Client) -> None:
    for _ in range(2):
        upload(account)
    query = {"per_page": "1", "sort": "-size", "is_public": "true"}
    cursor = account.get("/v1/images", params=query).json()["data"]["pagination"]["next_cursor"]
    assert len(listed(account, **query, cursor=cursor)) == 1
    for change in ({"sort": "size"}, {"is_public": "false"}, {"q": "a"}, {"format": "png"}):
        response = account.get("/v1/images", params={**query, **change, "cursor": cursor})
        assert response.status_code == 400
        assert "for cursor" in response.json()["error"]["details"]
    assert account.get("/v1/gallery", params={"cursor": cursor}).status_code == 400


def test_all_errors_of_a_list_are_reported_together_with_an_unknown_album(account: httpx2.Client) -> None:
    response = account.get(
        "/v1/images?page=0&per_page=101&cursor=x&q=a&q=b&is_public=maybe&format=avif&created_after=today"
        "&created_before=2026-01-01&sha256=x&sort=name&album_id=999999"
    )
    assert response.status_code == 400
    details = response.json()["error"]["details"]
    names = (
        "page",
        "per_page",
        "cursor",
        "q",
        "is_public",
        "format",
        "created_after",
        "created_before",
        "sha256",
        "sort",
    )
    assert [name for name in names if f"for {name} but received" not in details] == []
    assert "one of your albums but received 999999" in details
    assert account.get("/v1/images?album_id=999999&sort=size").status_code == 404
    assert account.get("/v1/images?album_id=x&sort=x").json()["error"]["details"].count("expected") == 2


def test_the_gallery_of_an_album_has_the_album_and_its_public_images(
    account: httpx2.Client, anonymous: httpx2.Client
) -> None:
    album = create_album(account, description="By train")
    first, second = (upload(account, album_id=str(album)) for _ in range(2))
    upload(account, album_id=str(album), is_public="0")
    page = anonymous.get(f"/v1/gallery?album_id={album}&per_page=1").json()["data"]
    assert list(page["album"]) == [attribute.name for attribute in attrs.fields(PublicAlbumRecord)]
    assert (page["album"]["name"], page["album"]["description"]) == ("Trip", "By train")
    assert (page["album"]["image_count"], page["album"]["cover_image_id"]) == (2, second)
    assert list(page["images"][0]) == [attribute.name for attribute in attrs.fields(PublicImageRecord)]
    assert page["pagination"]["total"] == 2
    cursor = page["pagination"]["next_cursor"]
    assert listed(anonymous, "/v1/gallery", album_id=str(album), cursor=cursor) == [first]
    assert "album" not in anonymous.get("/v1/gallery").json()["data"]


def test_a_private_album_hides_its_images_from_galleries_and_not_from_their_urls(
    account: httpx2.Client, anonymous: httpx2.Client
) -> None:
    album = create_album(account)
    image = upload(account, album_id=str(album))
    url = account.get(f"/v1/images/{image}").json()["data"]["url"]
    assert image in listed(anonymous, "/v1/gallery", per_page="100")
    total = anonymous.get("/v1/gallery").json()["data"]["pagination"]["total"]
    account.patch(f"/v1/albums/{album}", json={"is_public": False})
    assert image not in listed(anonymous, "/v1/gallery", per_page="100")
    assert anonymous.get("/v1/gallery").json()["data"]["pagination"]["total"] == total - 1
    private, missing = (anonymous.get(f"/v1/gallery?album_id={id_}") for id_ in (album, 999_999))
    assert private.status_code == missing.status_code == 404
    assert private.text.replace(str(album), "999999") == missing.text
    assert anonymous.get(httpx2.URL(url).path).status_code == 200
    account.patch(f"/v1/images/{image}", json={"album_id": None, "images_public": True})
    assert image in listed(anonymous, "/v1/gallery", per_page="100")


def test_the_gallery_reports_all_errors_and_ignores_other_parameters(anonymous: httpx2.Client) -> None:
    response = anonymous.get("/v1/gallery?page=0&per_page=0&album_id=999999&q=1&q=2&sort=x")
    assert "expected one value for q" in response.json()["error"]["details"]
    assert response.status_code == 400
    details = response.json()["error"]["details"]
    assert all(name in details for name in ("for page", "for per_page", "a public album but received 999999"))
    assert anonymous.get("/v1/gallery?album_id=1&album_id=2").status_code == 400
    assert anonymous.get("/v1/gallery?q=anything&sort=x").status_code == 200
    assert anonymous.get(f"/v1/gallery?q={'x' * 101}").status_code == 400


def test_a_setting_requires_a_token_for_the_gallery(tmp_path: Path) -> None:
    settings = ServerSettings(gallery=GallerySettings(require_sign_in=True))
    with open_host(tmp_path / "data", settings=settings) as host, serving(host, settings) as origin:
        token = host.keys.create(owner="admin", scopes=["webhooks:manage"]).token
        refused = httpx2.get(f"{origin}/v1/gallery?page=0")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx2.get(f"{origin}/v1/gallery", headers=headers).status_code == 200
