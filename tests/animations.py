"""Animations for tests."""

from __future__ import annotations

import io

from PIL import Image


def make_animation(width: int, height: int) -> bytes:
    """Return a GIF of two frames: red, then blue."""
    first, second = (Image.new("RGB", (width, height), colour) for colour in ("red", "blue"))
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=[second], duration=80, loop=0)
    return file.getvalue()


def count_frames(data: bytes) -> int:
    """Return the number of frames of an image file."""
    with Image.open(io.BytesIO(data)) as image:
        return getattr(image, "n_frames", 1)
