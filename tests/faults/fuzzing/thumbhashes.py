"""ThumbHashes: any text is rejected, or has an average colour."""

from __future__ import annotations

import re
from base64 import b64encode

from imagehost_client.urls import average_colour, background_colour

DICTIONARY = (b"=", b"==", b"\xc3\xa9", b"\n", b"-_", b"AAAAAA==")
FINDINGS = ()
_DECLARATION = re.compile(r"background-color:#[0-9a-f]{6}")


def seeds() -> list[bytes]:
    return [b"1QcSHQRnh493V4dIh4eXh1h4kJUI", b"", b"AAAAAAA=", b"/////////w=="]


def check(data: bytes) -> None:
    texts = (data.decode("utf-8", "surrogateescape"), b64encode(data).decode())
    for text in texts:
        colour, declaration = average_colour(text), background_colour(text)
        assert (colour is None) == (declaration is None)
        if colour is not None:
            assert all(0 <= value <= 255 for value in colour)
            assert _DECLARATION.fullmatch(declaration or "")
    assert (average_colour(texts[1]) is None) == (len(data) < 5)
