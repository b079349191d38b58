"""Shared by the tests of the header scan: how to scan bytes, and pictures to scan."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from PIL import Image

from imagehost_core.errors import ValidationError
from imagehost_core.headers import ImageHeader, SourceLimits, scan


@pytest.fixture(scope="session")
def look() -> Callable[[bytes], ImageHeader]:
    """Scan bytes as a file."""
    return lambda data: scan(io.BytesIO(data), len(data))


@pytest.fixture(scope="session")
def refusal() -> Callable[..., str]:
    """Scan bytes that must be refused with 422, and return the details."""

    def refuse(data: bytes, **limits: int) -> str:
        with pytest.raises(ValidationError) as caught:
            scan(io.BytesIO(data), len(data), SourceLimits(**limits))
        assert {fault.name for fault in caught.value.errors} == {"image"}
        return caught.value.details

    return refuse


def _saved(kind: str, *frames: Image.Image, **options: object) -> bytes:
    file = io.BytesIO()
    more = {"save_all": True, "append_images": frames[1:]} if len(frames) > 1 else {}
    frames[0].save(file, kind, **more, **options)
    return file.getvalue()


@pytest.fixture(scope="session")
def pictures() -> dict[str, bytes]:
    """One small whole picture of each kind, by name; each carries EXIF with orientation 6 where it can."""
    colours = [Image.new("RGBA", (12, 9), (40 * step, 255 - 40 * step, 99, 128)) for step in range(3)]
    plain = colours[0].convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6
    return {
        "baseline.jpg": _saved("JPEG", plain, exif=exif, icc_profile=b"profile", comment=b"hello"),
        "progressive.jpg": _saved("JPEG", plain, exif=exif, progressive=True),
        "still.png": _saved("PNG", colours[0], exif=exif, icc_profile=b"profile"),
        "palette.png": _saved("PNG", plain.quantize(4), exif=exif, transparency=0),
        "animated.png": _saved("PNG", *colours, exif=exif),
        "still.gif": _saved("GIF", plain, comment=b"hello"),
        "animated.gif": _saved("GIF", *colours),
        "lossy.webp": _saved("WEBP", plain),
        "lossless.webp": _saved("WEBP", colours[0], lossless=True),
        "alpha.webp": _saved("WEBP", colours[0], exif=exif, icc_profile=b"profile", xmp=b"<x/>"),
        "animated.webp": _saved("WEBP", *colours, exif=exif),
    }
