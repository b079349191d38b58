"""Image records that are encoded once, and lists that the event loop reads itself."""

from __future__ import annotations

import httpx2
import pytest
from attrs import evolve

from imagehost_core import ImageHost
from imagehost_core.resources import ImageRecord, PublicImageRecord
from imagehost_core.testing import make_image
from imagehost_server.http.responses import success_response
from imagehost_server.routes.images import image_record, image_records, public_records
from imagehost_server.routes.lists import is_short_read


def test_an_encoded_record_equals_the_record(operator: ImageHost) -> None:
    image = operator.upload(make_image(), owner="admin", description="[a] <b> & 'c' \\ \"d\" ä")
    pairs: list[tuple[object, object]] = [
        (image_record(image), ImageRecord.of(image)),
        (image_records([image] * 2), [ImageRecord.of(image)] * 2),
        (public_records([image] * 2), [PublicImageRecord.of(image)] * 2),
        (image_records([]), []),
    ]
    for encoded, record in pairs:
        assert success_response({"data": encoded}).body == success_response({"data": record}).body


def test_records_of_other_urls_and_of_changed_images_are_encoded_anew(operator: ImageHost) -> None:
    image = operator.upload(make_image(), owner="admin")
    records = [
        success_response(image_record(evolve(changed, urls=urls))).body
        for urls in (operator.urls, evolve(operator.urls, cdn_url="https://cdn.example"))
        for changed in (image, evolve(image, is_public=False))
    ]
    assert len(set(records)) == 4


def test_a_record_has_no_album_any_more_when_the_album_is_deleted(account: httpx2.Client, png: bytes) -> None:
    album = account.post("/v1/albums", json={"name": "Cats"}).json()["data"]
    form = {"album_id": str(album["id"])}
    image = account.post("/v1/upload", files={"image": ("cat.png", png)}, data=form).json()["data"]
    path = f"/v1/images/{image['id']}"

    def records() -> list[object]:
        return [account.get(path).json()["data"], *account.get("/v1/images").json()["data"]["images"]]

    assert records() == [image, image]
    assert account.delete(f"/v1/albums/{album['id']}").status_code == 200
    assert records() == [{**image, "album_id": None}] * 2


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", True),
        ("page=99&per_page=100", True),
        ("cursor=abc", True),
        ("page=100", False),
        ("page=1&page=1000", False),
        ("q=cat", False),
        ("sort=size", False),
        ("album_id=1", False),
    ],
)
def test_the_event_loop_reads_only_pages_near_the_start_of_lists_without_filters(
    query: str, expected: bool
) -> None:
    assert is_short_read(httpx2.QueryParams(query).multi_items()) is expected
