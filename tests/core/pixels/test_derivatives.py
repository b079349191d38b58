"""Derivatives fit their budget, are encoded at a predicted quality, and show the whole image."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from imagehost_core.formats import Format
from imagehost_core.jobs import COPY_QUALITY
from imagehost_core.pixels import encode as encode_module
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.derivatives import (
    AVIF,
    JPEG,
    MIN_COPY_QUALITY,
    PREDICTION_MARGIN,
    ByteBudget,
    make_derivatives,
)
from imagehost_core.transform import Size

UNLIMITED = ByteBudget(10**9, 10**9)
SIZES = (Size(400, 300), Size(200, 150), Size(100, 75))


@given(st.integers(0, 80_000), st.floats(0, 1), st.sampled_from(["photo", "noise", "alpha", "flat"]))
def test_the_derivatives_together_never_exceed_the_limit(
    factory: Any, limit: int, share: float, kind: str
) -> None:
    image = {"noise": factory.noise, "alpha": partial(factory.photo, mode="RGBA")}.get(kind, factory.photo)(
        700, 525
    )
    if kind == "flat":
        image = Image.new("RGB", (700, 525), (10, 200, 30))
    derivatives = make_derivatives(image, SIZES, ByteBudget(int(limit * share), limit)).derivatives
    assert sum(len(blob) for _, blob in derivatives) <= limit


@given(st.integers(10, 10**9), st.integers(1, 10**9))
def test_what_is_stored_has_at_most_one_and_a_half_times_the_bytes_of_upload_or_master(
    upload: int, master: int
) -> None:
    assert master + ByteBudget.of(upload, master).limit <= 1.5 * max(upload, master)


@given(st.integers(1_000, 10**9), st.floats(0, 1))
def test_the_target_is_less_than_half_of_the_upload_and_within_the_limit(upload: int, share: float) -> None:
    budget = ByteBudget.of(upload, int(upload * share))
    assert budget.target <= min(0.5 * upload, budget.limit)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_derivatives_are_the_whole_image_largest_first(factory: Any, mode: str) -> None:
    image = factory.photo(1600, 900, mode=mode)
    sizes = [Size(400, 225), Size(200, 113), Size(100, 56)]
    derivatives = make_derivatives(image, sizes, UNLIMITED).derivatives
    assert [size for size, _ in derivatives] == sizes
    for size, blob in derivatives:
        assert factory.difference(factory.decode(blob), image.resize((size.width, size.height))) < 3


def test_a_derivative_with_alpha_has_at_most_a_third_of_the_pixels(factory: Any) -> None:
    image = factory.photo(600, 400, mode="RGBA")
    derivatives = make_derivatives(image, [Size(450, 300), Size(225, 150)], UNLIMITED).derivatives
    assert [size for size, _ in derivatives] == [Size(225, 150)]


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Record the width and the quality of each derivative that is encoded."""
    recorded: list[tuple[int, int]] = []
    encode = encode_module.encode

    def recording(fmt: Format, image: Image.Image, quality: int, **options: Any) -> bytes:
        recorded.append((image.width, quality))
        return encode(fmt, image, quality, **options)

    monkeypatch.setattr("imagehost_core.pixels.derivatives.encode", recording)
    return recorded


def test_each_derivative_is_encoded_once_at_a_quality_that_meets_the_target(
    factory: Any, encodings: list[tuple[int, int]]
) -> None:
    grain = factory.noise(200, 150).resize((800, 600))
    image = Image.blend(factory.photo(800, 600), grain, 0.3)
    best = make_derivatives(image, SIZES, UNLIMITED).derivatives
    total = sum(len(blob) for _, blob in best)
    for percent in (100, 90, 80, 70):
        encodings.clear()
        budget = ByteBudget(total * percent // 100, 10**9)
        derivatives = make_derivatives(image, SIZES, budget).derivatives
        assert [width for width, _ in encodings] == [100, 200, 400]
        assert sum(len(blob) for _, blob in derivatives) <= budget.target * PREDICTION_MARGIN
    assert encodings[-1][1] < encodings[0][1] == JPEG.smallest_quality


@given(st.integers(0, 10**9), st.lists(st.integers(1, 9_000), min_size=1, max_size=5))
def test_the_target_is_shared_in_proportion_to_the_widths(target: int, sides: list[int]) -> None:
    sizes = [Size(side, side) for side in sorted(sides, reverse=True)]
    budget, shares = ByteBudget(target, 10**9), []
    while sizes:
        size = sizes.pop()
        share = budget.share(size, sizes)
        assert share.limit == budget.limit
        shares.append(share.target / size.width)
        budget = ByteBudget(budget.target - share.target, budget.limit)
    assert 0 <= budget.target <= 1
    assert max(shares) - min(shares) <= 1


@pytest.mark.parametrize("percent", [40, 50, 60])
def test_no_derivative_takes_the_bytes_of_larger_ones(factory: Any, percent: int) -> None:
    image = Image.blend(factory.photo(800, 600), factory.noise(200, 150).resize((800, 600)), 0.3)
    total = sum(len(blob) for _, blob in make_derivatives(image, SIZES, UNLIMITED).derivatives)
    budget = ByteBudget(total * percent // 100, 10**9)
    (largest, _), (middle, blob), (_, smallest) = make_derivatives(image, SIZES, budget).derivatives
    share = budget.after(smallest).share(middle, [largest])
    assert len(blob) <= share.target * PREDICTION_MARGIN**2


def test_without_a_quality_that_meets_the_target_the_lowest_is_used_up_to_the_limit(
    factory: Any, encodings: list[tuple[int, int]]
) -> None:
    image = factory.noise(800, 600)
    assert len(make_derivatives(image, SIZES, ByteBudget(0, 10**9)).derivatives) == 3
    assert {quality for _, quality in encodings[1:]} == {min(JPEG.relative_bytes)}


COPY_SIZES = (Size(400, 300), Size(200, 150))


def test_a_copy_of_the_image_has_at_least_its_quality_whatever_the_target(
    factory: Any, encodings: list[tuple[int, int]]
) -> None:
    image = factory.noise(400, 300)
    assert len(make_derivatives(image, COPY_SIZES, ByteBudget(0, 10**9)).derivatives) == 2
    assert encodings == [(200, COPY_QUALITY), (400, COPY_QUALITY)]
    encodings.clear()
    assert len(make_derivatives(image, COPY_SIZES, UNLIMITED).derivatives) == 2
    assert encodings == [(200, COPY_QUALITY), (400, max(JPEG.relative_bytes))]


@given(st.floats(0, 1.5), st.sampled_from(["noise", "photo"]))
def test_a_copy_that_exceeds_the_limit_is_left_out(factory: Any, share: float, kind: str) -> None:
    """Variants near the size of the image would look worse from a copy of lower quality."""
    image = getattr(factory, kind)(400, 300)
    (_, best), (_, small) = make_derivatives(image, COPY_SIZES, ByteBudget(0, 10**9)).derivatives
    limit = int((len(small) + len(best)) * share)
    derivatives = make_derivatives(image, COPY_SIZES, ByteBudget(0, limit)).derivatives
    assert sum(len(blob) for _, blob in derivatives) <= limit
    sizes = [size for size, _ in derivatives]
    assert sizes in ([*COPY_SIZES], [COPY_SIZES[1]], [])
    if sizes == [*COPY_SIZES]:
        assert len(derivatives[0][1]) >= 0.8 * len(best)
    if share > 1.3:
        assert sizes == [*COPY_SIZES]
    if share > 0.75:
        assert sizes


def test_the_smaller_derivative_beside_a_copy_has_a_lower_quality_if_the_limit_requires_it(
    factory: Any, encodings: list[tuple[int, int]]
) -> None:
    image = factory.noise(400, 300)
    small = len(make_derivatives(image, COPY_SIZES, UNLIMITED).derivatives[1][1])
    encodings.clear()
    limit = round(0.75 * small)
    derivatives = make_derivatives(image, COPY_SIZES, ByteBudget(limit, limit)).derivatives
    assert [size for size, _ in derivatives] == [COPY_SIZES[1]]
    assert encodings[0] == (200, COPY_QUALITY)
    assert encodings[1][1] < MIN_COPY_QUALITY


def test_a_derivative_that_exceeds_the_limit_is_encoded_again_once(
    factory: Any, encodings: list[tuple[int, int]]
) -> None:
    image, size = factory.noise(800, 600), [Size(400, 300)]
    ((_, best),) = make_derivatives(image, size, UNLIMITED).derivatives
    encodings.clear()
    ((_, blob),) = make_derivatives(image, size, ByteBudget(len(best) - 1, len(best) - 1)).derivatives
    assert len(blob) < len(best)
    assert [width for width, _ in encodings] == [400, 400]
    assert encodings[1][1] < encodings[0][1]


def test_a_derivative_that_fits_at_no_quality_is_left_out_with_all_larger_ones(factory: Any) -> None:
    image = factory.noise(800, 600)
    best = make_derivatives(image, SIZES, UNLIMITED).derivatives
    limit = len(best[2][1]) + len(best[1][1]) // 5
    derivatives = make_derivatives(image, SIZES, ByteBudget(limit, limit)).derivatives
    assert [size.width for size, _ in derivatives] == [100]


@pytest.mark.parametrize(("mode", "fmt"), [("RGB", Format.JPEG), ("RGBA", Format.AVIF)])
def test_the_format_of_a_derivative_depends_on_alpha(factory: Any, mode: str, fmt: Format) -> None:
    ((_, blob),) = make_derivatives(
        factory.photo(400, 300, mode=mode), [Size(100, 75)], UNLIMITED
    ).derivatives
    assert open_image(fmt, blob).size == (100, 75)
    assert {JPEG.format, AVIF.format} == {Format.JPEG, Format.AVIF}


def test_the_smallest_downscaled_image_is_returned_for_the_placeholder(factory: Any) -> None:
    image = factory.photo(800, 600)
    assert make_derivatives(image, SIZES, UNLIMITED).smallest.size == (100, 75)
    no_budget = make_derivatives(image, SIZES, ByteBudget(0, 0))
    assert (list(no_budget.derivatives), no_budget.smallest.size) == ([], (100, 75))
    assert make_derivatives(image, (), UNLIMITED).smallest is image
