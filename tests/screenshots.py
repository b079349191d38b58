"""Drawn screenshots and photographs, for tests and benchmarks of formats."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from random import Random

from PIL import Image, ImageDraw, ImageFont

WORDS = ("the", "quick", "image", "host", "stores", "every", "byte", "once", "def", "return")
DARK, GREEN, RED, BLUE, GREY = (24, 26, 31), (152, 195, 121), (224, 108, 117), (97, 175, 239), (200, 203, 208)
SYNTAX = ((36, 41, 46), (215, 58, 73), (0, 92, 197), (106, 115, 125))
SERIES = ((31, 119, 180), (255, 127, 14), (44, 160, 44), (214, 39, 40))


def photograph(width: int, height: int, *, seed: int = 0) -> Image.Image:
    """Return shapes of all sizes, the smaller the fainter, as photographs have."""
    random, size = Random(seed), (width, height)
    image, columns = Image.new("RGB", size, "grey"), 3
    while columns < width:
        rows = max(2, columns * height // width)
        shapes = Image.frombytes("RGB", (columns, rows), random.randbytes(3 * columns * rows))
        strength = 0.25 if columns > 3 else 1
        image = Image.blend(image, shapes.resize(size, Image.Resampling.BICUBIC), strength)
        columns *= 2
    return image


def terminal(width: int, height: int, *, seed: int = 0) -> Image.Image:
    """Return text in several colours on a dark background."""
    return _text(width, height, Random(seed), 14, DARK, (GREY, GREEN, RED, BLUE))


def code(width: int, height: int, *, seed: int = 0) -> Image.Image:
    """Return text in several colours on white."""
    return _text(width, height, Random(seed), 15, "white", SYNTAX)


def web_page(width: int, height: int, *, seed: int = 0) -> Image.Image:
    """Return text on white beside a photograph, below a gradient."""
    image = _text(width, height, Random(seed), 17, "white", SYNTAX[:1])
    draw = ImageDraw.Draw(image)
    for y in range(height // 12):
        draw.line((0, y, width, y), fill=(20 + y, 60 + y, 140 + y))
    image.paste(photograph(width // 3, height // 4, seed=seed), (width // 20, height // 8))
    return image


def chart(width: int, height: int, *, seed: int = 0) -> Image.Image:
    """Return antialiased curves over a grid."""
    random, scale = Random(seed), 2
    image = Image.new("RGB", (width * scale, height * scale), "white")
    draw = ImageDraw.Draw(image)
    for y in range(0, height * scale, 80):
        draw.line((0, y, width * scale, y), fill=(225, 225, 225), width=2)
    for colour in SERIES:
        level = random.uniform(0.2, 0.8) * height * scale
        points = [(x, level := level + random.gauss(0, height / 15)) for x in range(0, width * scale, 24)]
        draw.line(points, fill=colour, width=5, joint="curve")
    return image.resize((width, height), Image.Resampling.LANCZOS)


def chat(width: int, height: int, *, seed: int = 0) -> Image.Image:
    """Return rounded bubbles with text, and portraits, on a gradient."""
    random = Random(seed)
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    for y in range(height):
        draw.line((0, y, width, y), fill=(225 - y // 40, 235 - y // 50, 240 - y // 60))
    top = 12
    while top < height:
        lines, is_own = random.randint(1, 3), random.random() < 0.5
        bottom, left = top + 24 + 24 * lines, width // 3 if is_own else 60
        box = (left, top, left + width * 3 // 5, bottom)
        colour = (220, 248, 198) if is_own else (255, 255, 255)
        draw.rounded_rectangle(box, 16, fill=colour)
        if not is_own:
            image.paste(photograph(40, 40, seed=top), (10, top))
        bubble = _text(width * 3 // 5 - 28, 24 * lines, random, 17, colour, ("black",))
        image.paste(bubble, (left + 14, top + 12))
        top = bottom + 14
    return image


def _text(
    width: int, height: int, random: Random, size: int, background: object, colours: tuple[object, ...]
) -> Image.Image:
    image = Image.new("RGB", (width, height), background)  # type: ignore[arg-type]
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size)
    for y in range(0, height, size + 5):
        x = 8.0 + random.choice((0, 24, 48))
        while x < width * random.uniform(0.3, 1):
            word = random.choice(WORDS) + " "
            draw.text((x, y), word, font=font, fill=random.choice(colours))  # type: ignore[arg-type]
            x += draw.textlength(word, font=font)
    return image


SCREENSHOTS: Mapping[str, Callable[[int, int], Image.Image]] = {
    "terminal": terminal,
    "code": code,
    "web page": web_page,
    "chart": chart,
    "chat": chat,
}
"""What draws a screenshot of a width and a height, by the name of its kind."""


def encode(image: Image.Image, plugin: str = "PNG", **options: object) -> bytes:
    """Return the file of an image, by default a PNG."""
    file = io.BytesIO()
    image.save(file, plugin, **options)
    return file.getvalue()
