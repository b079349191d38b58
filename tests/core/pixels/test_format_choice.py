"""The choice of a variant's format by its pixels."""

from __future__ import annotations

import io
from collections.abc import Callable
from itertools import combinations

import pytest
from PIL import Image, ImageFilter
from tests.screenshots import SCREENSHOTS, encode, photograph

from imagehost_core.formats import Format
from imagehost_core.pixels.format_choice import choose_lossless, choose_lossy, is_graphic, is_worth_its_bytes
from imagehost_core.pixels.resize import resize_to
from imagehost_core.transform import Size

AVIF, WEBP, JPEG, PNG = Format.AVIF, Format.WEBP, Format.JPEG, Format.PNG
EVERY = (AVIF, WEBP, JPEG, PNG)


@pytest.mark.parametrize("draw", SCREENSHOTS.values(), ids=SCREENSHOTS)
@pytest.mark.parametrize("scale", [1, 1.5])
def test_a_screenshot_is_a_graphic_also_downscaled_and_as_a_jpeg(
    draw: Callable[[int, int], Image.Image], scale: float
) -> None:
    image = draw(int(640 * scale), int(400 * scale)).resize((640, 400), Image.Resampling.LANCZOS)
    assert is_graphic(image)
    assert is_graphic(Image.open(io.BytesIO(encode(image, "JPEG", quality=90))))


def overexposed() -> Image.Image:
    """Return a photograph before a white background, to which it fades."""
    image = photograph(320, 240).filter(ImageFilter.GaussianBlur(1))
    fade = Image.linear_gradient("L").resize(image.size).point(lambda value: 4 * value - 300)
    return Image.composite(Image.new("RGB", image.size, "white"), image, fade)


PHOTOGRAPHS = {
    "photograph": photograph(320, 240),
    "overexposed": overexposed(),
    "out of focus": photograph(40, 30).resize((640, 480), Image.Resampling.BICUBIC),
    "gradient": Image.linear_gradient("L").convert("RGB"),
    "line": Image.new("RGB", (1, 9)),
}


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_a_photograph_or_a_gradient_is_no_graphic(name: str) -> None:
    assert not is_graphic(PHOTOGRAPHS[name])


def test_text_that_is_too_small_to_be_read_is_no_graphic() -> None:
    image = SCREENSHOTS["code"](1_000, 700)
    assert is_graphic(resize_to(image, Size(640, 448)))
    assert not is_graphic(resize_to(image, Size(320, 224)))


def with_alpha(image: Image.Image, value: int) -> Image.Image:
    """Return an image whose left half has a value of alpha."""
    alpha = Image.new("L", image.size, 255)
    alpha.paste(value, (0, 0, image.width // 2, image.height))
    image = image.copy()
    image.putalpha(alpha)
    return image


PHOTO, GRAPHIC = photograph(64, 48), SCREENSHOTS["code"](320, 200)


@pytest.mark.parametrize(
    ("image", "order"),
    [
        (PHOTO, (AVIF, WEBP, JPEG, PNG)),
        (with_alpha(PHOTO, 255), (AVIF, WEBP, JPEG, PNG)),
        (GRAPHIC, (WEBP, AVIF, JPEG, PNG)),
        (with_alpha(PHOTO, 0), (AVIF, WEBP, PNG, JPEG)),
        (with_alpha(PHOTO, 128), (WEBP, AVIF, PNG, JPEG)),
        (with_alpha(GRAPHIC, 0), (WEBP, AVIF, PNG, JPEG)),
    ],
)
def test_the_image_decides_among_the_formats_that_a_client_accepts(
    image: Image.Image, order: tuple[Format, ...]
) -> None:
    for count in range(1, len(EVERY) + 1):
        for choices in combinations(EVERY, count):
            assert choose_lossy(choices, image) is next(fmt for fmt in order if fmt in choices)
    assert choose_lossy((Format.GIF,), image) is Format.GIF


@pytest.mark.parametrize(
    ("choices", "expected"),
    [(EVERY, WEBP), ((AVIF, WEBP), WEBP), ((JPEG, PNG), PNG), ((AVIF,), None), ((JPEG,), None)],
)
def test_lossless_is_webp_or_png(choices: tuple[Format, ...], expected: Format | None) -> None:
    assert choose_lossless(choices) is expected


@pytest.mark.parametrize(("exact", "lossy", "is_sent"), [(120, 100, True), (121, 100, False), (9, 100, True)])
def test_a_file_without_loss_may_have_a_fifth_more_bytes(exact: int, lossy: int, is_sent: bool) -> None:
    assert is_worth_its_bytes(bytes(exact), bytes(lossy)) is is_sent
