"""An encoder that runs out of memory says so."""

from __future__ import annotations

import pytest
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.pixels.encode import encode


@pytest.mark.parametrize(
    ("words", "kind"), [("encoding error 1", MemoryError), ("encoding error 6", ValueError)]
)
def test_webp_without_memory_is_a_lack_of_memory(
    monkeypatch: pytest.MonkeyPatch, words: str, kind: type[Exception]
) -> None:
    """The encoder's own words stand for the lack, which cannot be had on demand."""

    def refuse(*_: object) -> bytes:
        raise ValueError(words)

    monkeypatch.setattr("PIL.WebPImagePlugin._webp.WebPEncode", refuse)
    with pytest.raises(kind, match=words):
        encode(Format.WEBP, Image.new("RGB", (4, 4)), 80)
