"""Fixtures: generated test images, comparison of results, and the native resampler."""

from __future__ import annotations

import shutil
import struct
import sysconfig
from collections.abc import Iterator, Sequence
from importlib import import_module
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageStat, _imaging

from imagehost_core.formats import Format
from imagehost_core.pixels.chroma_subsampling import BLOCK_BYTES


class ImageFactory:
    """Generates, encodes, decodes and compares test images."""

    P3_TO_XYZ = ((0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841))
    """The red, green and blue of Display P3 in XYZ under D50 (ICC registry, Display P3)."""

    def photo(
        self,
        width: int = 240,
        height: int = 160,
        seed: int = 0,
        mode: str = "RGB",
        levels: tuple[int, int] = (40, 216),
    ) -> Image.Image:
        """Return smooth patches of random colours, without symmetry, so that every orientation differs."""
        random = Random(seed)
        patches = Image.new(mode, (6, 5))
        for x in range(6):
            for y in range(5):
                patches.putpixel((x, y), tuple(random.randrange(*levels) for _ in patches.getbands()))
        return patches.resize((width, height), Image.Resampling.BICUBIC)

    def noise(self, width: int = 96, height: int = 64, seed: int = 0) -> Image.Image:
        """Return an image of random pixels."""
        return Image.frombytes("RGB", (width, height), Random(seed).randbytes(3 * width * height))

    def encode(self, image: Image.Image, fmt: Format = Format.PNG, **options: Any) -> bytes:
        """Return the image as a file of a format."""
        buffer = BytesIO()
        image.save(buffer, fmt.value.upper(), **options)
        return buffer.getvalue()

    def animation(
        self,
        fmt: Format,
        frames: int = 4,
        size: tuple[int, int] = (60, 40),
        durations: Sequence[int] = (100, 50, 200, 130),
        mode: str = "RGB",
        levels: tuple[int, int] = (40, 216),
        **options: Any,
    ) -> bytes:
        """Return an animated file with distinct frames."""
        images = [self.photo(*size, seed=seed, mode=mode, levels=levels) for seed in range(frames)]
        times = [durations[index % len(durations)] for index in range(frames)]
        return self.encode(images[0], fmt, save_all=True, append_images=images[1:], duration=times, **options)

    def oriented(
        self, image: Image.Image, orientation: int, fmt: Format = Format.JPEG, **options: Any
    ) -> bytes:
        """Return a file with an EXIF orientation, and the camera maker "A maker"."""
        exif = Image.Exif()
        exif[0x0112] = orientation
        exif[0x010F] = "A maker"
        return self.encode(image, fmt, exif=exif, **options)

    def decode(self, data: bytes) -> Image.Image:
        """Return the decoded image of a file."""
        image = Image.open(BytesIO(data))
        image.load()
        return image

    def difference(self, one: Image.Image, other: Image.Image) -> float:
        """Return the mean difference of two images on white, in 8-bit levels."""
        assert one.size == other.size
        return max(ImageStat.Stat(ImageChops.difference(self.on_white(one), self.on_white(other))).mean)

    def on_white(self, image: Image.Image) -> Image.Image:
        """Return the image composited on white."""
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")

    def icc_profile(self, colourants: Sequence[Sequence[float]] = P3_TO_XYZ, gamma: float = 2.2) -> bytes:
        """Return an ICC profile (version 2, matrix and gamma) with given primaries."""

        def fixed(value: float) -> bytes:
            return struct.pack(">i", round(value * 65536))

        def xyz(values: Sequence[float]) -> bytes:
            return b"XYZ \0\0\0\0" + b"".join(map(fixed, values))

        curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"
        text = b"desc\0\0\0\0" + struct.pack(">I", 5) + b"Test\0" + b"\0" * 79
        tags = {b"desc": text, b"wtpt": xyz((0.9642, 1.0, 0.8249)), b"cprt": b"text\0\0\0\0none\0\0\0\0"}
        tags |= {
            name: xyz(value) for name, value in zip((b"rXYZ", b"gXYZ", b"bXYZ"), colourants, strict=True)
        }
        tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)
        table, body = b"", b""
        for name, content in tags.items():
            padded = content + b"\0" * (-len(content) % 4)
            table += name + struct.pack(">II", 132 + 12 * len(tags) + len(body), len(content))
            body += padded
        head = struct.pack(">I4sI4s4s4s", 0, b"test", 0x02400000, b"mntr", b"RGB ", b"XYZ ")
        head += (
            struct.pack(">6H4s", 2026, 1, 1, 0, 0, 0, b"acsp")
            + b"\0" * 28
            + b"".join(map(fixed, (0.9642, 1, 0.8249)))
        )
        head = head.ljust(128, b"\0") + struct.pack(">I", len(tags))
        profile = head + table + body
        return struct.pack(">I", len(profile)) + profile[4:]


@pytest.fixture(scope="session")
def factory() -> ImageFactory:
    """The generator of test images."""
    return ImageFactory()


@pytest.fixture(scope="session")
def native_resampler() -> Any:
    """The module of the native resampler. Skips only where it cannot be built: else it has to be there."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("NOT TESTED: the C extensions, since there is no C compiler")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("NOT TESTED: the C extensions, since there are no Python headers")
    return import_module("imagehost_core.pixels.resample_native")


@pytest.fixture
def small_blocks() -> Iterator[None]:
    """Let Pillow store pixels in blocks of 1 MiB, so that a large image is not contiguous."""
    _imaging.set_block_size(1 << 20)
    yield
    _imaging.set_block_size(BLOCK_BYTES)
