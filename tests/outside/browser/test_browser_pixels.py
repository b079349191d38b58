"""Chromium and the host show the same pixels: animations frame by frame, and colours of every kind."""

from __future__ import annotations

import base64
import struct
from io import BytesIO
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image
from tests.core.pixels.conftest import ImageFactory
from tests.unusual_files import GifFrame, gif, png_of_samples

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.render import render
from imagehost_core.transform import ORIGIN, Plan, Size

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.external

SIZE = (8, 8)
GREY, RGB = 0, 2

DRAW = """async ([text, type]) => {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([bytes], {type}));
  await image.decode();
  const context = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext("2d");
  context.drawImage(image, 0, 0);
  return Array.from(context.getImageData(0, 0, image.naturalWidth, image.naturalHeight).data);
}"""
FRAMES = """async ([text, type]) => {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const decoder = new ImageDecoder({data: bytes, type, preferAnimation: true});
  await decoder.tracks.ready;
  await decoder.completed;
  const frames = [];
  for (let frameIndex = 0; frameIndex < decoder.tracks.selectedTrack.frameCount; frameIndex++) {
    const {image} = await decoder.decode({frameIndex});
    const context = new OffscreenCanvas(image.displayWidth, image.displayHeight).getContext("2d");
    context.drawImage(image, 0, 0);
    frames.push(Array.from(context.getImageData(0, 0, image.displayWidth, image.displayHeight).data));
  }
  return frames;
}"""


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page of a secure origin, which `ImageDecoder` needs."""
    page = context.new_page()
    page.route("https://page.test/*", lambda route: route.fulfill(body="", content_type="text/html"))
    page.goto("https://page.test/")
    return page


def random_gif(seed: int) -> bytes:
    random = Random(seed)
    frames = []
    for _ in range(random.randint(2, 6)):
        width, height = random.randint(1, 8), random.randint(1, 8)
        indices = [random.randrange(4) for _ in range(width * height)]
        left, top = random.randrange(6), random.randrange(6)
        transparent = random.choice((None, 0, 1, 2, 3))
        disposal, has_control = random.randrange(8), random.random() < 0.9
        frames.append(GifFrame(left, top, width, indices, disposal, 10, transparent, has_control))
    return gif(SIZE, frames, random.randrange(4))


def visible(samples: Any) -> list[tuple[int, ...]]:
    """Return pixels, those that are fully transparent as zeros."""
    pixels = [tuple(samples[index : index + 4]) for index in range(0, len(samples), 4)]
    return [pixel if pixel[3] else (0, 0, 0, 0) for pixel in pixels]


def test_random_gifs_have_the_frames_that_chromium_shows(page: Page) -> None:
    for seed in range(80):
        data = random_gif(seed)
        shown = page.evaluate(FRAMES, [base64.b64encode(data).decode(), "image/gif"])
        frames = [list(frame.convert("RGBA").tobytes()) for frame, _ in open_image(Format.GIF, data).frames()]
        assert list(map(visible, frames)) == list(map(visible, shown)), seed


def rendered(png: bytes, size: Size) -> bytes:
    """Return the samples of a lossless variant of a PNG in its own size, as RGBA."""
    job = RenderJob(Plan(resize=size, crop=ORIGIN, pad=ORIGIN, output=size), Format.PNG, None)
    return Image.open(BytesIO(render(job, Format.PNG, png)[1][0])).convert("RGBA").tobytes()


def gama(value: float) -> tuple[bytes, bytes]:
    return b"gAMA", struct.pack(">I", round(value * 100_000))


def chrm(*values: float) -> tuple[bytes, bytes]:
    return b"cHRM", struct.pack(">8I", *(round(value * 100_000) for value in values))


ADOBE_RGB = chrm(0.3127, 0.329, 0.64, 0.33, 0.21, 0.71, 0.15, 0.06)
SRGB = chrm(0.3127, 0.329, 0.64, 0.33, 0.3, 0.6, 0.15, 0.06)
CHUNKS = [
    [gama(0.45455), SRGB],
    [gama(1)],
    [gama(0.45455)],
    [gama(0.55)],
    [gama(0.45455), ADOBE_RGB],
    [ADOBE_RGB],
    [gama(1), ADOBE_RGB, (b"sRGB", b"\0")],
    *(
        [(b"cICP", bytes((primaries, transfer, 0, 1)))]
        for primaries in (1, 5, 6, 9, 12)
        for transfer in (1, 8, 13)
    ),
    [(b"cICP", bytes((12, 13, 0, 0))), gama(1)],
]


@pytest.mark.parametrize("depth", [8, 16])
@pytest.mark.parametrize("colour_type", [GREY, RGB])
def test_colours_without_a_profile_are_those_that_chromium_shows(
    page: Page, colour_type: int, depth: int
) -> None:
    random, scale = Random(depth + colour_type), 257 if depth == 16 else 1
    for chunks in CHUNKS:
        samples = [scale * random.randrange(40, 256) for _ in range(30)]
        data = png_of_samples([samples], colour_type, depth, *chunks)
        shown = page.evaluate(DRAW, [base64.b64encode(data).decode(), "image/png"])
        own = rendered(data, Size(len(shown) // 4, 1))
        assert max(abs(one - other) for one, other in zip(own, shown, strict=True)) <= 4, (chunks, samples)


@pytest.mark.parametrize("gamma", [1.0, 2.2])
@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGB", "RGBA"])
def test_colours_with_a_profile_are_those_that_chromium_shows(page: Page, mode: str, gamma: float) -> None:
    colours = [(12, 10, 9, 255), (90, 200, 120, 255), (200, 150, 130, 200), (110, 180, 140, 60)]
    image = Image.new("RGBA", (4, 1))
    for left, colour in enumerate(colours):
        image.putpixel((left, 0), colour)
    file = BytesIO()
    image.convert(mode).save(file, "PNG", icc_profile=ImageFactory().icc_profile(gamma=gamma))
    shown = page.evaluate(DRAW, [base64.b64encode(file.getvalue()).decode(), "image/png"])
    own = rendered(file.getvalue(), Size(4, 1))
    assert max(abs(one - other) for one, other in zip(own, shown, strict=True)) <= 4
