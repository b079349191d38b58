"""Chromium shows every image upright, however its file states the EXIF orientation, at every URL."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from io import BytesIO
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from tests.oriented_files import ORIENTED, corners, stored_pixels, upright_pixels

from imagehost_core import ImageHost
from imagehost_core.formats import FORMATS
from imagehost_core.headers.scanner import scan
from imagehost_core.settings import Settings
from imagehost_core.uploads import UploadKeywords

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = [pytest.mark.external, pytest.mark.slow]

ORIENTATIONS = range(1, 9)
DRAW = """async (files) => {
  const drawn = [];
  for (const [text, type] of files) {
    const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const image = new Image();
    image.src = URL.createObjectURL(new Blob([bytes], {type}));
    await image.decode();
    const {naturalWidth: width, naturalHeight: height} = image;
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(image, 0, 0);
    drawn.push([width, height, Array.from(context.getImageData(0, 0, width, height).data)]);
  }
  return drawn;
}"""
OPTIONS: tuple[UploadKeywords, ...] = ({}, {"convert_to_webp": False})
URLS = (("", ""), (".webp", ""), ("", "w=16"))


@pytest.fixture
def page(context: BrowserContext) -> Page:
    return context.new_page()


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with ImageHost.open(":memory:", settings=Settings(base_url="https://img.example/v1")) as host:
        yield host


def shown(page: Page, files: list[tuple[bytes, str]]) -> list[tuple[object, ...]]:
    """Return the corners of images, with their media types, that Chromium shows."""
    drawn = page.evaluate(DRAW, [(base64.b64encode(data).decode(), media_type) for data, media_type in files])
    return [
        corners(Image.frombytes("RGBA", (width, height), bytes(samples))) for width, height, samples in drawn
    ]


@pytest.mark.parametrize("name", ORIENTED)
def test_the_scan_tells_whether_chromium_turns_a_file(page: Page, name: str) -> None:
    files, expected = [], []
    for orientation in ORIENTATIONS:
        data = ORIENTED[name](orientation)
        header = scan(BytesIO(data), len(data))
        assert header.orientation == orientation
        files.append((data, FORMATS[header.format].media_type))
        seen = upright_pixels(orientation) if header.is_upright_in_browsers else stored_pixels()
        expected.append(corners(seen))
    assert shown(page, files) == expected


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", ORIENTED)
def test_every_url_of_an_image_is_upright(
    page: Page, host: ImageHost, name: str, options: UploadKeywords
) -> None:
    files, expected = [], []
    for orientation in ORIENTATIONS:
        image = host.upload(ORIENTED[name](orientation), owner="admin", **options)
        assert (image.width, image.height) == upright_pixels(orientation).size
        for extension, query in URLS:
            resolved = host.delivery.resolve(image.id + extension, query)
            with host.delivery.open(resolved) as blob:
                files.append((blob.read(), blob.media_type))
            expected.append(corners(upright_pixels(orientation)))
    assert shown(page, files) == expected
