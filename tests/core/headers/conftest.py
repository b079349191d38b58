"""Fixtures of the header scan's tests: helpers to scan bytes, and sample images."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from PIL import Image

from imagehost_core.errors import ValidationError
from imagehost_core.headers.header import ImageHeader, SourceLimits
from imagehost_core.headers.scanner import scan


@pytest.fixture(scope="session")
def scan_bytes() -> Callable[[bytes], ImageHeader]:
    """Scan bytes as a file."""
    return lambda data: scan(io.BytesIO(data), len(data))


@pytest.fixture(scope="session")
def scan_error() -> Callable[..., str]:
    """Scan bytes that must be rejected as invalid, and return the error's details."""

    def scan_invalid(data: bytes, **limits: int) -> str:
        with pytest.raises(ValidationError) as caught:
            scan(io.BytesIO(data), len(data), SourceLimits(**limits))
        assert {error.name for error in caught.value.errors} == {"image"}
        return caught.value.details

    return scan_invalid


def _saved(kind: str, *frames: Image.Image, **options: object) -> bytes:
    file = io.BytesIO()
    animation = {"save_all": True, "append_images": frames[1:]} if len(frames) > 1 else {}
    frames[0].save(file, kind, **animation, **options)
    return file.getvalue()


@pytest.fixture(scope="session")
def images() -> dict[str, bytes]:
    """A small valid image of each kind, by name, with EXIF orientation 6 if the format supports it."""
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
