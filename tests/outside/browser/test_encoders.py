"""Files of other encoders: each is accepted, and a variant has the pixels that Chromium shows of it."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PIL import Image
from tests.core.pixels.conftest import ImageFactory
from tests.outside.browser.test_browser_pixels import DRAW
from tests.waiting import PATIENCE

from imagehost_core import ImageHost
from imagehost_core.formats import Format, detect
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels.render import render
from imagehost_core.transform import Plan, Size

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

pytestmark = pytest.mark.external

MAX_DIFFERENCE = 3
"""The most levels by which a variant may differ from what Chromium shows."""

ENCODERS = {
    "cjpeg, baseline": "cjpeg -quality 85 -outfile out.jpg in.ppm",
    "cjpeg, progressive": "cjpeg -progressive -outfile out.jpg in.ppm",
    "cjpeg, arithmetic": "cjpeg -arithmetic -outfile out.jpg in.ppm",
    "cjpeg, arithmetic, progressive": "cjpeg -arithmetic -progressive -outfile out.jpg in.ppm",
    "cjpeg, arithmetic, 200 kB": "cjpeg -arithmetic -quality 100 -sample 1x1 -outfile out.jpg noise.ppm",
    "cjpeg, 4:4:0": "cjpeg -sample 1x2 -outfile out.jpg in.ppm",
    "cjpeg, 4:1:1": "cjpeg -sample 4x1 -outfile out.jpg in.ppm",
    "cjpeg, restart markers": "cjpeg -restart 1 -outfile out.jpg in.ppm",
    "cjpeg, RGB": "cjpeg -rgb -outfile out.jpg in.ppm",
    "cjpeg, grey": "cjpeg -grayscale -outfile out.jpg in.ppm",
    "jpegtran, arithmetic": "jpegtran -arithmetic -outfile out.jpg in.jpg",
    "jpegtran, rotated": "jpegtran -rotate 90 -outfile out.jpg in.jpg",
    "ImageMagick, JPEG": "convert in.png -quality 90 out.jpg",
    "ImageMagick, CMYK": "convert in.png -colorspace CMYK out.jpg",
    "ImageMagick, PNG": "convert in.png out.png",
    "ImageMagick, PNG of 16 bits": "convert in.png -depth 16 PNG48:out.png",
    "ImageMagick, PNG with a palette": "convert in.png -colors 32 PNG8:out.png",
    "ImageMagick, interlaced PNG": "convert in.png -interlace PNG out.png",
    "ImageMagick, GIF": "convert in.png out.gif",
    "ImageMagick, WebP": "convert in.png -quality 85 out.webp",
    "cwebp": "cwebp -quiet in.png -o out.webp",
    "cwebp, lossless": "cwebp -quiet -lossless in.png -o out.webp",
    "cwebp, alpha": "cwebp -quiet -alpha_q 60 alpha.png -o out.webp",
    "ffmpeg, JPEG of limited range": "ffmpeg -v error -i in.png -pix_fmt yuv420p -strict unofficial out.jpg",
    "ffmpeg, JPEG": "ffmpeg -v error -i in.png -pix_fmt yuvj420p out.jpg",
    "ffmpeg, PNG": "ffmpeg -v error -i in.png out.png",
    "ffmpeg, GIF": "ffmpeg -v error -i in.png out.gif",
    "ffmpeg, WebP": "ffmpeg -v error -i in.png out.webp",
    "pngcrush": "pngcrush -q -brute in.png out.png",
    "optipng": "optipng -quiet -i1 -out out.png in.png",
    "zopflipng": "zopflipng --iterations=1 alpha.png out.png",
    "gifsicle": "gifsicle -O3 --interlace in.gif -o out.gif",
}
"""Commands by encoder and kind of file; docs/http.md has the same kinds in a table."""


@pytest.fixture(scope="module")
def host() -> Iterator[ImageHost]:
    with ImageHost.open(":memory:") as host:
        yield host


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with images of which encoders make others."""
    directory = tmp_path_factory.mktemp("sources")
    photo = ImageFactory().photo(96, 64)
    for name in ("in.png", "in.ppm", "in.gif"):
        photo.save(directory / name)
    photo.save(directory / "in.jpg", quality=90)
    noise = [Image.effect_noise((320, 320), 90) for _ in range(3)]
    Image.merge("RGB", noise).save(directory / "noise.ppm")
    # Fully transparent pixels have no colour that a browser shows.
    photo.putalpha(Image.linear_gradient("L").resize(photo.size).point(lambda level: 128 + level // 2))
    photo.save(directory / "alpha.png")
    return directory


@pytest.mark.parametrize("name", ENCODERS)
def test_a_variant_of_a_file_of_another_encoder_is_what_chromium_shows(
    host: ImageHost, context: BrowserContext, sources: Path, tmp_path: Path, name: str
) -> None:
    command = ENCODERS[name].split()
    if shutil.which(command[0]) is None:
        pytest.skip(f"NOT TESTED with {command[0]}: it is not installed")
    shutil.copytree(sources, tmp_path, dirs_exist_ok=True)
    subprocess.run(command, cwd=tmp_path, check=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    (file,) = tmp_path.glob("out.*")
    data = file.read_bytes()
    page = context.new_page()
    page.route("https://page.test/*", lambda route: route.fulfill(body="", content_type="text/html"))
    page.goto("https://page.test/")
    shown = bytes(page.evaluate(DRAW, [base64.b64encode(data).decode(), "image/*"]))
    page.close()
    kept = host.upload(data, owner="admin", convert_to_webp=False)
    stored = host.upload(data, owner="admin")
    assert (kept.width, kept.height) == (stored.width, stored.height)
    assert kept.format == detect(data)
    assert kept.size == len(data) or "arithmetic" in name
    # Encoded anew, without losses, from the file that was uploaded.
    size = Size(kept.width, kept.height)
    job = RenderJob(Plan.unchanged(size), Format.PNG, None)
    variant = Image.open(BytesIO(render(job, Format(kept.format), data)[1][0])).convert("RGBA").tobytes()
    assert max(abs(one - other) for one, other in zip(variant, shown, strict=True)) <= MAX_DIFFERENCE
