"""Sizes equal sharp's, and images look like sharp's, for a few hundred random requests.

sharp is the reference of the geometry. npm installs it unless it is found by `NODE_PATH`; without Node.js the
test is skipped with the reason.
"""

from __future__ import annotations

import json
import subprocess
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import pytest
from attrs import frozen
from PIL import Image
from tests.node import environment

from imagehost_core.formats import Format
from imagehost_core.jobs import RenderJob
from imagehost_core.pixels.render import render
from imagehost_core.transform import Fit, Size, Transform, plan

CASES = 320
SEED = 20_261_121
LOW_CONTRAST = (104, 152)
"""The levels of the images. With low contrast, sharp's averages of gamma-encoded samples and our averages of
linear light are nearly equal, so that differences show in the geometry only."""
MAX_DIFFERENCE = 5.0
"""The maximum mean difference of an image from sharp's, in 8-bit levels on white."""
MAX_AVERAGE_DIFFERENCE = 0.7
"""The maximum average of the mean differences over all images."""

SharpResult = tuple[dict[str, int], bytes]
SCRIPT = Path(__file__).with_name("sharp.cjs")


@frozen
class Case:
    """A request and its source image."""

    name: str
    fmt: Format
    data: bytes
    upright: Size
    transform: Transform
    animated: bool


def _case(factory: Any, random: Random, number: int) -> Case:
    kind = ("oriented", "plain", "alpha", "animation")[number % 4]
    stored = Size(random.randint(8, 300), random.randint(8, 300))
    if kind == "animation":
        stored = Size(random.randint(8, 90), random.randint(8, 90))
    mode = "RGBA" if kind == "alpha" else "RGB"
    image = factory.photo(stored.width, stored.height, number, mode, LOW_CONTRAST)
    orientation = random.randint(1, 8) if kind == "oriented" else 1
    upright = Size(stored.height, stored.width) if orientation > 4 else stored
    if kind == "oriented":
        # Not JPEG: sharp's sizes can be off by one when it shrinks on load.
        fmt, data = Format.PNG, factory.oriented(image, orientation, Format.PNG)
    elif kind == "animation":
        fmt = random.choice((Format.GIF, Format.WEBP))
        size = (stored.width, stored.height)
        data = factory.animation(fmt, random.randint(2, 4), size, levels=LOW_CONTRAST, lossless=True)
    else:
        fmt, data = Format.PNG, factory.encode(image)
    width, height = random.choice(((1, 1), (1, 1), (1, 0), (0, 1)))
    sides = [random.choice((random.randint(1, 40), random.randint(20, 400))) for _ in range(2)]
    transform = Transform(
        sides[0] if width else None, sides[1] if height else None, fit=random.choice(list(Fit))
    )
    name = f"{number} {kind} {orientation} {stored} {transform.to_query()}"
    return Case(name, fmt, data, upright, transform, kind == "animation")


@pytest.fixture(scope="module")
def cases(factory: Any) -> list[Case]:
    random = Random(SEED)
    return [_case(factory, random, number) for number in range(CASES)]


@pytest.fixture(scope="module")
def sharp_results(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> list[SharpResult]:
    """The output of sharp for each case: size, number of frames, and pixels in RGBA."""
    folder = tmp_path_factory.mktemp("sharp")
    requests = []
    for number, case in enumerate(cases):
        (folder / f"{number}.in").write_bytes(case.data)
        requests.append(
            {
                "input": str(folder / f"{number}.in"),
                "output": str(folder / f"{number}.out"),
                "width": case.transform.width,
                "height": case.transform.height,
                "fit": case.transform.fit.value,
                "animated": case.animated,
            }
        )
    (folder / "requests.json").write_text(json.dumps(requests))
    command = ["node", str(SCRIPT), str(folder / "requests.json")]
    process = subprocess.run(command, capture_output=True, text=True, env=environment("sharp"), check=False)
    assert process.returncode == 0, process.stderr
    results = json.loads(process.stdout)
    return [(result, (folder / f"{number}.out").read_bytes()) for number, result in enumerate(results)]


def _still(case: Case) -> Image.Image:
    """Return the lossless variant; of an animation, its first frame."""
    job = RenderJob(plan(case.upright, case.transform), Format.PNG, None)
    return Image.open(BytesIO(render(job, case.fmt, case.data)[1][0])).convert("RGBA")


def _frames(case: Case) -> int:
    """Return the number of frames of the animated variant."""
    job = RenderJob(plan(case.upright, case.transform), Format.WEBP, 100, animated=case.animated)
    return render(job, case.fmt, case.data)[0].frames


@pytest.mark.external
def test_sizes_frames_and_images_equal_those_of_sharp(
    factory: Any, cases: list[Case], sharp_results: list[SharpResult]
) -> None:
    errors, differences = [], []
    for case, (result, pixels) in zip(cases, sharp_results, strict=True):
        ours, size, frames = _still(case), (result["width"], result["height"]), _frames(case)
        if ours.size != size or frames != result["frames"]:
            expected = (*size, result["frames"])
            errors.append(f"{case.name}: expected {expected} but received {(*ours.size, frames)}")
            continue
        theirs = Image.frombytes("RGBA", size, pixels[: 4 * size[0] * size[1]])
        differences.append(factory.difference(ours, theirs))
        if differences[-1] > MAX_DIFFERENCE:
            errors.append(
                f"{case.name}: expected at most {MAX_DIFFERENCE} apart but received {differences[-1]:.2f}"
            )
    assert not errors, "\n".join(errors)
    assert sum(differences) / len(differences) <= MAX_AVERAGE_DIFFERENCE, sum(differences) / len(differences)


def test_the_cases_include_every_fit_orientation_and_kind(cases: list[Case]) -> None:
    assert {case.transform.fit for case in cases} == set(Fit)
    assert {case.name.split()[2] for case in cases if " oriented " in case.name} == set("12345678")
    assert len([case for case in cases if case.animated]) >= 50
