"""An encoder that runs out of memory raises MemoryError; a sample of line art tells what is smaller."""

from __future__ import annotations

import io
import zlib

import pytest
from PIL import Image
from tests.screenshots import SCREENSHOTS

from imagehost_core.formats import Format
from imagehost_core.pixels.encode import encode, encode_lossless, lossless_ratio
from imagehost_core.pixels.formats.png_file import iter_chunks
from imagehost_core.pixels.render import CLEAR_RATIO
from imagehost_core.pixels.save import Metadata, save


@pytest.mark.parametrize(
    ("message", "error"), [("encoding error 1", MemoryError), ("encoding error 6", ValueError)]
)
def test_the_out_of_memory_error_of_libwebp_is_a_memory_error(
    monkeypatch: pytest.MonkeyPatch, message: str, error: type[Exception]
) -> None:
    """The encoder is replaced, since running out of memory cannot be provoked reliably."""

    def fail(*_: object) -> bytes:
        raise ValueError(message)

    monkeypatch.setattr("PIL.WebPImagePlugin._webp.WebPEncode", fail)
    with pytest.raises(error, match=message):
        encode(Format.WEBP, Image.new("RGB", (4, 4)), 80)


def test_a_clear_sample_of_a_screenshot_tells_which_encoding_is_smaller() -> None:
    told = set[bool]()
    for name, draw in SCREENSHOTS.items():
        image = draw(960, 600)
        for width, height in ((960, 600), (640, 400)):
            scaled = image.resize((width, height), Image.Resampling.BICUBIC)
            ratio = lossless_ratio(Format.WEBP, Format.WEBP, [scaled], 80)
            is_smaller = len(encode_lossless(Format.WEBP, scaled)) < len(encode(Format.WEBP, scaled, 80))
            if not 1 < ratio < CLEAR_RATIO:
                assert is_smaller is (ratio <= 1), (name, width)
                told.add(is_smaller)
    assert told == {True, False}


def gradient(width: int, height: int) -> Image.Image:
    """Return a thousand colours, each one step from its neighbours, in rows that differ."""
    shades = (1_023 * x * y // (width * height) for y in range(height) for x in range(width))
    samples = bytes(level for shade in shades for level in (shade // 4, (shade + 1) // 4, (shade + 2) // 4))
    return Image.frombytes("RGB", (width, height), samples)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("name", [*SCREENSHOTS, "gradient"])
def test_line_art_has_no_filters_in_a_png_where_it_is_smaller_so(name: str, mode: str) -> None:
    image = gradient(480, 300) if name == "gradient" else SCREENSHOTS[name](480, 300).convert("RGB")
    if mode == "RGBA":
        image.putalpha(255)
        image.paste((0, 0, 0, 0), (20, 20, 60, 60))
    exif = Image.Exif()
    exif[0x010F] = "maker"
    data = encode(Format.PNG, image, metadata=Metadata(profile=b"profile", exif=exif.tobytes()))
    decoded = Image.open(io.BytesIO(data))
    assert (decoded.mode, decoded.tobytes()) == (image.mode, image.tobytes())
    assert decoded.getexif()[0x010F] == "maker"
    assert decoded.info["icc_profile"] == b"profile"
    chunks = [(kind, data[start + 8 : end - 4]) for kind, start, end in iter_chunks(data)]
    assert b"PLTE" not in dict(chunks)
    rows = zlib.decompress(b"".join(content for kind, content in chunks if kind == b"IDAT"))
    filters = set(rows[:: 1 + len(mode) * image.width])
    assert (filters == {0}) is (name != "gradient")
    filtered = save([image], "PNG", {"compress_level": 6})
    assert len(encode(Format.PNG, image)) <= 1.05 * len(filtered)
