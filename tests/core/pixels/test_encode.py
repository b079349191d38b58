"""An encoder that runs out of memory raises MemoryError; a sample of line art tells what is smaller."""

from __future__ import annotations

import pytest
from PIL import Image
from tests.screenshots import SCREENSHOTS

from imagehost_core.formats import Format
from imagehost_core.pixels.encode import encode, encode_lossless, lossless_ratio
from imagehost_core.pixels.render import CLEAR_RATIO


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
