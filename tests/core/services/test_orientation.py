"""Every image is sent upright, whether browsers apply EXIF of its format, and of that form, or not."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from PIL import Image as PILImage
from tests.oriented_files import ORIENTATION, ORIENTED, TRANSPOSITIONS, corners, upright_pixels

from imagehost_core import Image, ImageHost
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


def store_sideways(host: ImageHost, name: str, orientation: int) -> Image:
    """Return an image whose master is a file with an orientation, as earlier versions have stored it."""
    stored = upload_pixels(host, name, upright_pixels(orientation))
    path = host.path / "images" / stored.id[:2] / stored.id / "master"
    path.write_bytes(ORIENTED[name](orientation))
    return stored


def upload_pixels(host: ImageHost, name: str, pixels: PILImage.Image) -> Image:
    others = [PILImage.new("RGB", pixels.size)]
    animation: dict[str, Any] = {"save_all": True, "append_images": others} if "animated" in name else {}
    file = BytesIO()
    pixels.save(file, name.split()[0], **animation)
    return host.upload(file.getvalue(), owner="admin", convert_to_webp=False)


OTHERS = [name for name in ORIENTED if name not in STANDARD and "0xFF" not in name and "apng" not in name]
"""The files that an earlier version stored so that browsers show them sideways."""


@pytest.mark.parametrize("name", OTHERS)
def test_a_master_that_an_earlier_version_stored_sideways_is_sent_upright(host: ImageHost, name: str) -> None:
    for orientation in (4, 5):
        image = store_sideways(host, name, orientation)
        stored = ORIENTED[name](orientation)
        resolved = host.delivery.resolve(image.id)
        for _ in range(2):
            with host.delivery.open(resolved) as blob:
                sent = blob.read()
            assert corners(as_shown(sent)) == corners(upright_pixels(orientation))
            upright = blob.resolved
            assert upright.etag not in (resolved.etag, f'"{image.sha256[:32]}"')
            assert (host.render(image).data, host.render(image).etag) == (sent, upright.etag)
        assert not host.delivery.is_upright(image)
        assert (b"VP8L" in sent) is (b"VP8L" in stored)


def test_a_master_that_browsers_turn_or_that_is_damaged_is_sent_as_it_is(host: ImageHost) -> None:
    for name in ("jpeg SHORT", "jpeg labelled Exif 0xFF", "png before the pixels"):
        image = store_sideways(host, name, 6)
        assert not host.delivery.is_known_upright(image)
        assert read(host, image.id) == ORIENTED[name](6)
        assert host.delivery.is_known_upright(image)
    path = host.path / "images" / image.id[:2] / image.id / "master"
    path.write_bytes(b"damaged")
    assert read(host, image.id) == b"damaged"
