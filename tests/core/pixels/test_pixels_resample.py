"""The compiled reducer does what Pillow's floats do, and takes nothing that does not fit."""

from __future__ import annotations

import subprocess
import sys
from array import array
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.pixels import codec_fingerprint, resize
from imagehost_core.pixels import resample_pillow as floats
from imagehost_core.pixels.linear_light import LINEAR_TO_SRGB, SRGB_TO_LINEAR, Box
from imagehost_core.transform.geometry import Size

LIGHT, LEVELS = array("f", SRGB_TO_LINEAR).tobytes(), bytes(LINEAR_TO_SRGB)


@pytest.fixture(scope="module")
def compiled(compiler: Callable[[], Any]) -> Any:
    return compiler()


@st.composite
def reductions(draw: st.DrawFn) -> tuple[Size, Size, Box]:
    """Draw a source, a target, and a box of the source that the target does not enlarge."""
    axes = []
    for _ in range(2):
        side = draw(st.integers(1, 150))
        target = draw(st.integers(1, side))
        start = draw(st.floats(0, side - target))
        # An axis that is not reduced is taken whole, as the resizer does it.
        end = draw(st.floats(start + target, side)) if target < side else side
        axes.append((side, target, start if target < side else 0.0, float(end)))
    (width, across, left, right), (height, down, top, bottom) = axes
    return Size(width, height), Size(across, down), Box(left, top, right, bottom)


@settings(max_examples=300)
@given(reductions(), st.sampled_from(["RGB", "RGBA"]), st.integers(0, 9), st.booleans())
def test_it_makes_the_same_picture_as_floats(
    compiled: Any, studio: Any, reduction: tuple[Size, Size, Box], mode: str, seed: int, soft: bool
) -> None:
    source, target, box = reduction
    if soft:
        image = studio.photo(source.width, source.height, seed, mode)
    else:
        image = studio.noise(source.width, source.height, seed).convert(mode)
        if mode == "RGBA":
            image.putalpha(studio.noise(source.width, source.height, seed + 1).getchannel(0))
    ours, theirs = compiled.downscale(image, target, box), floats.downscale(image, target, box)
    assert (ours.mode, ours.size) == (theirs.mode, theirs.size)
    pixels = zip(_pixels(ours), _pixels(theirs), strict=True)
    # Where next to nothing is seen, its colour is a quotient of two small numbers.
    assert all(
        max(abs(x - y) for x, y in zip(a, b, strict=True)) <= 1 for a, b in pixels if len(a) == 3 or a[3] > 2
    )


def _pixels(image: Image.Image) -> list[tuple[int, ...]]:
    data, count = image.tobytes(), len(image.getbands())
    return [tuple(data[at : at + count]) for at in range(0, len(data), count)]


def test_nearly_all_pixels_are_just_those_of_floats(compiled: Any, studio: Any) -> None:
    image, box = studio.noise(700, 500), Box(0, 0, 700, 500)
    ours, theirs = (way.downscale(image, Size(301, 211), box).tobytes() for way in (compiled, floats))
    assert sum(a != b for a, b in zip(ours, theirs, strict=True)) < len(ours) / 1_000


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("source", [(1, 5_000), (5_000, 1), (3_000, 2)])
def test_a_thread_of_pixels_is_reduced_to_one(
    compiled: Any, studio: Any, source: tuple[int, int], mode: str
) -> None:
    image = studio.photo(*source, mode=mode)
    ours, theirs = (way.downscale(image, Size(1, 1), Box(0, 0, *source)) for way in (compiled, floats))
    assert studio.difference(ours, theirs) <= 1


GOOD: dict[str, Any] = {
    "pixels": bytes(8 * 6 * 4),
    "size": (8, 6),
    "target": (4, 3),
    "box": (0.0, 0.0, 8.0, 6.0),
    "cell": (1, 1),
    "alpha": False,
    "to_light": LIGHT,
    "from_light": LEVELS,
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
        ("target", (0, 3)),
        ("target", (4, -3)),
        ("target", (4, 1_000_001)),
        ("box", (-0.1, 0, 8, 6)),
        ("box", (0, -0.1, 8, 6)),
        ("box", (0, 0, 8.1, 6)),
        ("box", (0, 0, 8, 6.1)),
        ("box", (4, 0, 4, 6)),
        ("box", (0, 5, 8, 4)),
        ("box", (0, float("nan"), 8, 6)),
        ("box", (0, 0, float("nan"), 6)),
        ("box", (0, 0, float("inf"), 6)),
        ("cell", (2, 1)),
        ("cell", (1, 2)),
        ("cell", (0, 1)),
        ("cell", (1, -1)),
        ("to_light", LIGHT[:-1]),
        ("from_light", LEVELS[:-1]),
    ],
)
def test_what_does_not_fit_is_refused(compiled: Any, name: str, value: object) -> None:
    reduce = compiled._resample.reduce
    assert len(reduce(*GOOD.values())) == 4 * 3 * 4
    with pytest.raises(ValueError, match="expected sizes, a box and tables that fit each other"):
        reduce(*{**GOOD, name: value}.values())


@pytest.mark.parametrize(("name", "value"), [("size", (8.0, 6)), ("pixels", "text"), ("box", (0, 0, 8))])
def test_what_is_of_another_type_is_refused(compiled: Any, name: str, value: object) -> None:
    with pytest.raises(TypeError):
        compiled._resample.reduce(*{**GOOD, name: value}.values())


@pytest.mark.parametrize("mode", ["L", "F", "P"])
def test_pixels_of_another_kind_are_refused_where_they_lie(compiled: Any, mode: str) -> None:
    capsule = Image.new(mode, (8, 6)).__arrow_c_array__()[1]
    with pytest.raises(ValueError, match="fit each other"):
        compiled._resample.reduce(*{**GOOD, "pixels": capsule}.values())


@pytest.mark.parametrize("size", [(8, 7), (7, 6), (9, 6)])
def test_pixels_of_another_size_are_refused_where_they_lie(compiled: Any, size: tuple[int, int]) -> None:
    capsules = Image.new("RGB", size).__arrow_c_array__()
    with pytest.raises(ValueError, match="fit each other"):
        compiled._resample.reduce(*{**GOOD, "pixels": capsules[1]}.values())
    with pytest.raises(TypeError):
        compiled._resample.reduce(*{**GOOD, "pixels": capsules[0]}.values())


def test_a_picture_that_lies_in_pieces_is_copied(
    compiled: Any, studio: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pillow makes pieces of 16 MiB.
    image, box = studio.photo(2_200, 2_000), Box(0, 0, 2_200, 2_000)
    banded = compiled.downscale(image, Size(110, 100), box)
    with pytest.raises(ValueError, match="contiguous"):
        image.__arrow_c_array__()
    monkeypatch.setattr(compiled, "STRIP_PIXELS", 10**9)
    assert studio.difference(compiled.downscale(image, Size(110, 100), box), banded) < 0.01


def test_a_reduction_for_which_there_is_no_memory_is_refused(compiled: Any) -> None:
    # Four bytes for each pixel of such a target are more than anybody has.
    arguments = {**GOOD, "size": (100_000, 1), "pixels": bytes(400_000), "box": (0.0, 0.0, 1e5, 1.0)}
    with pytest.raises(MemoryError):
        compiled._resample.reduce(*{**arguments, "target": (1_000_000, 1_000_000)}.values())


WITHOUT = """
import sys
sys.modules["imagehost_core.pixels._resample"] = None
from imagehost_core.pixels import codec_fingerprint, resize
print(resize.RESAMPLER, codec_fingerprint())
"""


def test_without_it_floats_reduce_and_every_etag_is_another(compiled: Any) -> None:
    command = [sys.executable, "-c", WITHOUT]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found[0] == "pillow"
    assert found[1] != codec_fingerprint()
    assert resize.RESAMPLER == "native"
