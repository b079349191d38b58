"""Animations for tests."""

from __future__ import annotations

import io
import struct

from PIL import Image


def make_animation(width: int, height: int) -> bytes:
    """Return a GIF of two frames: red, then blue."""
    first, second = (Image.new("RGB", (width, height), colour) for colour in ("red", "blue"))
    file = io.BytesIO()
    first.save(file, "GIF", save_all=True, append_images=[second], duration=80, loop=0)
    return file.getvalue()


def make_gif(frames: int = 2) -> bytes:
    """Return a GIF of 1×1 pixel with a number of frames, from 1, without Pillow."""
    header = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + b"\x00\x00\x00\xff\xff\xff"
    frame = b"\x21\xf9\x04\x00\x0a\x00\x00\x00" + b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0)
    return header + (frame + b"\x02\x02\x44\x01\x00") * frames + b"\x3b"


def count_frames(data: bytes) -> int:
    """Return the number of frames of an image file."""
    with Image.open(io.BytesIO(data)) as image:
        return getattr(image, "n_frames", 1)
