"""Every image is sent upright, whether browsers apply EXIF of its format, and of that form, or not."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image as PILImage
from tests.oriented_files import ORIENTATION, ORIENTED, TRANSPOSITIONS, corners, upright_pixels

from imagehost_core import ImageHost
from imagehost_core.headers.scanner import scan
from imagehost_core.uploads import UploadKeywords

OPTIONS: tuple[UploadKeywords, ...] = (
    {},
    {"convert_to_webp": False},
    {"convert_to_webp": False, "remove_exif": True},
)

STANDARD = {"jpeg SHORT", "jpeg SHORT big-endian", "png before the pixels", "apng before the pixels"}
"""The files whose orientation all browsers apply."""


def read(host: ImageHost, path: str, query: str = "") -> bytes:
    with host.delivery.open(host.delivery.resolve(path, query)) as blob:
        return blob.read()


def as_shown(data: bytes) -> PILImage.Image:
    """Return what a browser shows of a file: its pixels, turned if the file has EXIF that browsers apply."""
    image = PILImage.open(BytesIO(data))
    header = scan(BytesIO(data), len(data))
    value = header.orientation if header.is_upright_in_browsers else 1
    return image.transpose(TRANSPOSITIONS[value]) if value in TRANSPOSITIONS else image


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ORIENTED)
def test_an_image_is_upright_at_every_url(host: ImageHost, name: str, options: UploadKeywords) -> None:
    for orientation in (2, 6):
        image = host.upload(ORIENTED[name](orientation), owner="admin", **options)
        upright = upright_pixels(orientation)
        assert (image.width, image.height) == upright.size
        assert image.is_animated == ("anim" in name or "apng" in name)
        for path, query in ((image.id, ""), (f"{image.id}.webp", ""), (image.id, "w=16")):
            assert corners(as_shown(read(host, path, query))) == corners(upright), (path, query)


@pytest.mark.parametrize("name", [name for name in ORIENTED if name.startswith(("jpeg", "png", "apng"))])
def test_pixels_are_kept_where_browsers_can_turn_them(host: ImageHost, name: str) -> None:
    data = ORIENTED[name](6)
    stored = read(host, host.upload(data, owner="admin", convert_to_webp=False).id)
    kept = PILImage.open(BytesIO(stored))
    assert kept.getexif()[ORIENTATION] == 6
    assert kept.tobytes() == PILImage.open(BytesIO(data)).tobytes()
    assert (stored == data) is (name in STANDARD)


@pytest.mark.parametrize("name", ["webp lossless", "webp labelled", "webp animated lossless"])
@pytest.mark.parametrize("remove_exif", [False, True])
def test_a_lossless_image_is_turned_without_losses(host: ImageHost, name: str, remove_exif: bool) -> None:
    image = host.upload(ORIENTED[name](7), owner="admin", remove_exif=remove_exif)
    data = read(host, image.id)
    turned = PILImage.open(BytesIO(data))
    assert b"VP8L" in data
    assert b"VP8 " not in data
    assert turned.convert("RGB").tobytes() == upright_pixels(7).tobytes()
    assert dict(turned.getexif()).get(ORIENTATION, 1) == 1
    assert bool(turned.getexif()) is not remove_exif


def test_an_upright_webp_with_exif_is_kept(host: ImageHost) -> None:
    data = ORIENTED["webp lossy"](1)
    image = host.upload(data, owner="admin")
    assert read(host, image.id) == data
