"""Pictures that the tests of the pixels make for themselves, and a way to look at results."""

from __future__ import annotations

import shutil
import struct
import sysconfig
from collections.abc import Callable, Sequence
from importlib import import_module
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageStat

from imagehost_core.formats import Format


class Studio:
    """Makes pictures, writes them as files, opens results and compares them."""

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
        """Return soft patches of colour, with no symmetry that could hide a turn."""
        random = Random(seed)
        patches = Image.new(mode, (6, 5))
        for x in range(6):
            for y in range(5):
                patches.putpixel((x, y), tuple(random.randrange(*levels) for _ in patches.getbands()))
        return patches.resize((width, height), Image.Resampling.BICUBIC)

    def noise(self, width: int = 96, height: int = 64, seed: int = 0) -> Image.Image:
        """Return a picture of which every pixel differs from its neighbours."""
        return Image.frombytes("RGB", (width, height), Random(seed).randbytes(3 * width * height))

    def file(self, image: Image.Image, fmt: Format = Format.PNG, **options: Any) -> bytes:
        """Return the picture as a file."""
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
        """Return an animated file whose frames all differ."""
        pictures = [self.photo(*size, seed=seed, mode=mode, levels=levels) for seed in range(frames)]
        times = [durations[index % len(durations)] for index in range(frames)]
        return self.file(
            pictures[0], fmt, save_all=True, append_images=pictures[1:], duration=times, **options
        )

    def oriented(
        self, image: Image.Image, orientation: int, fmt: Format = Format.JPEG, **options: Any
    ) -> bytes:
        """Return a file that is to be shown turned as EXIF's `orientation` says."""
        exif = Image.Exif()
        exif[0x0112] = orientation
        exif[0x010F] = "A maker"
        return self.file(image, fmt, exif=exif, **options)

    def opened(self, data: bytes) -> Image.Image:
        """Return the picture in a file, decoded."""
        image = Image.open(BytesIO(data))
        image.load()
        return image

    def difference(self, one: Image.Image, other: Image.Image) -> float:
        """Return the mean difference of two pictures on white, in 8-bit levels."""
        assert one.size == other.size
        return max(ImageStat.Stat(ImageChops.difference(self.on_white(one), self.on_white(other))).mean)

    def on_white(self, image: Image.Image) -> Image.Image:
        """Return the picture as it looks on white paper."""
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")

    def profile(self, colourants: Sequence[Sequence[float]] = P3_TO_XYZ, gamma: float = 2.2) -> bytes:
        """Return an ICC profile (version 2, matrix and gamma) with the given primaries."""

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
        whole = head + table + body
        return struct.pack(">I", len(whole)) + whole[4:]


@pytest.fixture(scope="session")
def studio() -> Studio:
    """Where pictures are made and looked at."""
    return Studio()


@pytest.fixture(scope="session")
def compiler() -> Callable[[], Any]:
    """Return what gives the compiled reducer; where it could have been compiled, it has to be there."""

    def compiled() -> Any:
        if not any(map(shutil.which, ("cc", "gcc", "clang"))):
            pytest.skip("NOT TESTED: the compiled reducer, for want of a compiler")
        if not Path(sysconfig.get_path("include"), "Python.h").exists():
            pytest.skip("NOT TESTED: the compiled reducer, for want of the headers of Python")
        return import_module("imagehost_core.pixels.resample_native")

    return compiled
