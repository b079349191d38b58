"""Camera data on the page of an account's image, with a warning where a place is public."""

from __future__ import annotations

import httpx2
import pytest
from tests.core.headers.test_headers_camera import photograph
from tests.server.web.conftest import SignedIn
from tests.server.web.test_web_attacks import require_text_only
from tests.server.web.test_web_gallery import HOSTILE

from imagehost_core import ImageHost
from imagehost_core.errors import NotFoundError
from imagehost_core.storage import MASTER
from imagehost_core.testing import make_image
from imagehost_core.uploads import UploadFormat

WARNING = "The file contains the place where it was taken"


def test_the_page_of_an_image_says_what_its_file_holds(host: ImageHost, owner: httpx2.Client) -> None:
    image = host.upload(photograph(), owner="admin", is_public=False)
    page = owner.get(f"/images/{image.id}").text
    for value in ("-33.85875, 151.21417", "2024-05-06 07:08:09+02:00", "Canon EOS 5D", "1/250 s", "f/2.8"):
        assert f"<dd>{value}</dd>" in page
    for value in ("35 mm", "400", "EF35mm f/2 IS USM", "darktable 4.6", "Zoë", "© Zoë"):
        assert f"<dd>{value}</dd>" in page
    assert WARNING not in page


def test_a_place_in_a_public_image_is_warned_of(host: ImageHost, owner: httpx2.Client) -> None:
    image = host.upload(photograph(), owner="admin")
    assert WARNING in owner.get(f"/images/{image.id}").text
    cleaned = host.upload(photograph(), owner="admin", remove_exif=True)
    page = owner.get(f"/images/{cleaned.id}").text
    assert WARNING not in page
    assert "The file contains none." in page


def test_the_public_page_says_how_it_was_taken_and_never_where_or_by_whom(
    host: ImageHost, visitor: httpx2.Client
) -> None:
    image = host.upload(photograph(), owner="admin")
    page = visitor.get(f"/i/{image.id}").text
    for value in ("2024-05-06 07:08:09+02:00", "Canon EOS 5D", "1/250 s", "f/2.8", "35 mm", "400"):
        assert f"<dd>{value}</dd>" in page
    for value in ("33.85", "151.21", "darktable", "Zoë"):
        assert value not in page
    cleaned = host.upload(photograph(), owner="admin", remove_exif=True)
    assert "Canon" not in visitor.get(f"/i/{cleaned.id}").text


@pytest.mark.parametrize("format_", ["webp", "jpeg", "png"])
def test_the_data_of_converted_images_is_read_too(host: ImageHost, format_: UploadFormat) -> None:
    image = host.upload(photograph(), owner="admin", format=format_)
    assert host.camera_data(image, owner="admin").camera == "Canon EOS 5D"


def test_hostile_camera_data_is_text(host: ImageHost, owner: httpx2.Client) -> None:
    image = host.upload(photograph(camera={0xA434: HOSTILE}), owner="admin")
    for path in (f"/images/{image.id}", f"/i/{image.id}"):
        page = owner.get(path).text
        assert "&lt;script&gt;" in page
        require_text_only(page)


def test_the_data_of_others_is_not_read(host: ImageHost, session: SignedIn) -> None:
    image = host.upload(photograph(), owner=host.accounts.get_or_create("walter"))
    with pytest.raises(NotFoundError):
        host.camera_data(image, owner="admin")


def test_the_page_is_shown_without_it_where_the_file_cannot_be_read(
    host: ImageHost, owner: httpx2.Client
) -> None:
    image = host.upload(make_image(30, 20), owner="admin")
    next(host.path.rglob(f"{image.id}/{MASTER}*")).write_bytes(b"damaged")
    for path in (f"/images/{image.id}", f"/i/{image.id}"):
        response = owner.get(path)
        assert response.status_code == 200
        assert "Camera data" not in response.text
