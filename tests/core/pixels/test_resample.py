"""The native resampler gives the result of the Pillow resampler, and rejects inconsistent arguments."""

from __future__ import annotations

import subprocess
import sys
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, _imaging

from imagehost_core.formats import Format
from imagehost_core.pixels import codec_fingerprint, resample_pillow, resize
from imagehost_core.pixels.chroma_subsampling import BLOCK_BYTES
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.linear_light import LINEAR_TO_SRGB, SRGB_TO_LINEAR, Box
from imagehost_core.transform import Size

TO_LINEAR, TO_SRGB = array("f", SRGB_TO_LINEAR).tobytes(), bytes(LINEAR_TO_SRGB)


@st.composite
def downscales(draw: st.DrawFn) -> tuple[Size, Size, Box]:
    """Draw a source size, a target size, and a box of the source that is not smaller than the target."""
    axes = []
    for _ in range(2):
        side = draw(st.integers(1, 150))
        target = draw(st.integers(1, side))
        start = draw(st.floats(0, side - target))
        # `resample` passes an axis that is not downscaled in full.
        end = draw(st.floats(start + target, side)) if target < side else side
        axes.append((side, target, start if target < side else 0.0, float(end)))
    (width, across, left, right), (height, down, top, bottom) = axes
    return Size(width, height), Size(across, down), Box(left, top, right, bottom)


@given(downscales(), st.sampled_from(["RGB", "RGBA"]), st.integers(0, 9), st.booleans())
def test_it_equals_the_pillow_resampler_within_one_level(
    native_resampler: Any, factory: Any, downscale: tuple[Size, Size, Box], mode: str, seed: int, smooth: bool
) -> None:
    source, target, box = downscale
    if smooth:
        image = factory.photo(source.width, source.height, seed, mode)
    else:
        image = factory.noise(source.width, source.height, seed).convert(mode)
        if mode == "RGBA":
            image.putalpha(factory.noise(source.width, source.height, seed + 1).getchannel(0))
    native, pillow = (
        native_resampler.downscale(image, target, box),
        resample_pillow.downscale(image, target, box),
    )
    assert (native.mode, native.size) == (pillow.mode, pillow.size)
    pixels = zip(_pixels(native), _pixels(pillow), strict=True)
    # Colours of almost transparent pixels are quotients of two small numbers.
    assert all(
        max(abs(x - y) for x, y in zip(a, b, strict=True)) <= 1 for a, b in pixels if len(a) == 3 or a[3] > 2
    )


def _pixels(image: Image.Image) -> list[tuple[int, ...]]:
    data, count = image.tobytes(), len(image.getbands())
    return [tuple(data[at : at + count]) for at in range(0, len(data), count)]


def test_nearly_all_samples_equal_those_of_the_pillow_resampler(native_resampler: Any, factory: Any) -> None:
    image, box = factory.noise(700, 500), Box(0, 0, 700, 500)
    native, pillow = (
        module.downscale(image, Size(301, 211), box).tobytes()
        for module in (native_resampler, resample_pillow)
    )
    assert sum(a != b for a, b in zip(native, pillow, strict=True)) < len(native) / 1_000


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("source", [(1, 5_000), (5_000, 1), (3_000, 2)])
def test_a_line_of_pixels_is_downscaled_to_one(
    native_resampler: Any, factory: Any, source: tuple[int, int], mode: str
) -> None:
    image = factory.photo(*source, mode=mode)
    native, pillow = (
        module.downscale(image, Size(1, 1), Box(0, 0, *source))
        for module in (native_resampler, resample_pillow)
    )
    assert factory.difference(native, pillow) <= 1


VALID: dict[str, Any] = {
    "pixels": bytes(8 * 6 * 4),
    "size": (8, 6),
    "target": bytearray(4 * 3 * 4),
    "target_size": (4, 3),
    "box": (0.0, 0.0, 8.0, 6.0),
    "box_factor": (1, 1),
    "has_alpha": False,
    "srgb_to_linear": TO_LINEAR,
    "linear_to_srgb": TO_SRGB,
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pixels", bytes(8 * 6 * 4 - 1)),
        ("pixels", bytes(8 * 6 * 4 + 1)),
        ("pixels", b""),
        ("size", (8, 5)),
        ("size", (0, 6)),
        ("size", (-8, -6)),
        ("size", (1_000_001, 1_000_001)),
        ("size", (65_536, 65_536)),
        ("target", bytearray(4 * 3 * 4 - 1)),
        ("target", bytearray(4 * 3 * 4 + 1)),
        ("target_size", (0, 3)),
        ("target_size", (4, -3)),
        ("target_size", (4, 1_000_001)),
        ("box", (-0.1, 0, 8, 6)),
        ("box", (0, -0.1, 8, 6)),
        ("box", (0, 0, 8.1, 6)),
        ("box", (0, 0, 8, 6.1)),
        ("box", (4, 0, 4, 6)),
        ("box", (0, 5, 8, 4)),
        ("box", (0, float("nan"), 8, 6)),
        ("box", (0, 0, float("nan"), 6)),
        ("box", (0, 0, float("inf"), 6)),
        ("box_factor", (2, 1)),
        ("box_factor", (1, 2)),
        ("box_factor", (0, 1)),
        ("box_factor", (1, -1)),
        ("srgb_to_linear", TO_LINEAR[:-1]),
        ("linear_to_srgb", TO_SRGB[:-1]),
    ],
)
def test_inconsistent_arguments_are_a_value_error(native_resampler: Any, name: str, value: object) -> None:
    downscale = native_resampler._resample.downscale
    downscale(*VALID.values())
    with pytest.raises(ValueError, match="expected consistent sizes, box and lookup tables"):
        downscale(*{**VALID, name: value}.values())


@pytest.mark.parametrize(
    ("name", "value"), [("size", (8.0, 6)), ("pixels", "text"), ("target", "text"), ("box", (0, 0, 8))]
)
def test_arguments_of_another_type_are_a_type_error(native_resampler: Any, name: str, value: object) -> None:
    with pytest.raises(TypeError):
        native_resampler._resample.downscale(*{**VALID, name: value}.values())


def test_a_target_that_cannot_be_written_is_a_buffer_error(native_resampler: Any) -> None:
    with pytest.raises(BufferError):
        native_resampler._resample.downscale(*{**VALID, "target": bytes(4 * 3 * 4)}.values())


@pytest.mark.parametrize("mode", ["L", "F", "P"])
def test_an_arrow_array_with_another_pixel_type_is_a_value_error(native_resampler: Any, mode: str) -> None:
    capsule = Image.new(mode, (8, 6)).__arrow_c_array__()[1]
    with pytest.raises(ValueError, match="expected consistent"):
        native_resampler._resample.downscale(*{**VALID, "pixels": capsule}.values())


@pytest.mark.parametrize("size", [(8, 7), (7, 6), (9, 6)])
def test_an_arrow_array_of_another_size_is_a_value_error(
    native_resampler: Any, size: tuple[int, int]
) -> None:
    capsules = Image.new("RGB", size).__arrow_c_array__()
    with pytest.raises(ValueError, match="expected consistent"):
        native_resampler._resample.downscale(*{**VALID, "pixels": capsules[1]}.values())
    with pytest.raises(TypeError):
        native_resampler._resample.downscale(*{**VALID, "pixels": capsules[0]}.values())


@pytest.mark.usefixtures("small_blocks")
def test_an_image_that_is_not_contiguous_is_copied(native_resampler: Any, factory: Any) -> None:
    image, box = factory.photo(2_200, 2_000), Box(0, 0, 2_200, 2_000)
    with pytest.raises(ValueError, match="contiguous"):
        image.__arrow_c_array__()
    _imaging.set_block_size(BLOCK_BYTES)
    copied = native_resampler.downscale(image, Size(110, 100), box)
    assert native_resampler.downscale(image.copy(), Size(110, 100), box) == copied


def test_a_decoded_image_is_contiguous(factory: Any) -> None:
    image = open_image(Format.PNG, factory.encode(Image.new("RGB", (2_200, 2_000)))).first_frame()
    assert image.__arrow_c_array__()


LARGE_LINES = """
import resource, sys
from imagehost_core.pixels import _resample
# The lines of a million pixels would take 500 MB of linear light.
tables = bytes(int(sys.argv[1])), bytes(int(sys.argv[2]))
pixels, target = bytes(4_000_000), bytearray(4_000_000)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (48 << 20), resource.RLIM_INFINITY))
try:
    _resample.downscale(
        pixels, (1_000_000, 1), target, (1_000_000, 1), (0.0, 0.0, 1e6, 1.0), (1, 1), False, *tables
    )
except MemoryError:
    print("MemoryError")
"""
"""A program with little free memory: what a process with all tests has freed might be enough."""


def test_buffers_too_large_for_the_memory_are_a_memory_error(native_resampler: Any) -> None:
    if sys.platform != "linux":
        pytest.skip("NOT TESTED: a limit of the address space")
    sizes = str(len(TO_LINEAR)), str(len(TO_SRGB))
    command = [sys.executable, "-c", LARGE_LINES, *sizes]
    assert subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout == "MemoryError\n"


WITHOUT_EXTENSION = """
import sys
sys.modules["imagehost_core.pixels._resample"] = None
from imagehost_core.pixels import codec_fingerprint, resize
print(resize.RESAMPLER, codec_fingerprint())
"""


def test_without_it_pillow_downscales_and_every_etag_differs(native_resampler: Any) -> None:
    command = [sys.executable, "-c", WITHOUT_EXTENSION]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert output[0] == "pillow"
    assert output[1] != codec_fingerprint()
    assert resize.RESAMPLER == "native"


RENDER_TWICE = """
import sys
sys.modules["imagehost_core.pixels._resample"] = None
from imagehost_core import render
from imagehost_core.testing import make_image
for width in (20, 30):
    render(make_image(), w=width)
"""


def test_without_it_render_says_once_what_is_slower(native_resampler: Any) -> None:
    command = [sys.executable, "-c", RENDER_TWICE]
    messages = subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()
    assert messages == [
        "C extensions of imagehost-core not built: resizing falls back to Pillow (about 4x slower)"
    ]
