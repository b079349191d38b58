"""An encoder that runs out of memory raises MemoryError."""

from __future__ import annotations

import pytest
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.pixels.encode import encode


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
