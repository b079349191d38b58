"""Sizes equal sharp's, and pictures look like sharp's, for a few hundred random requests.

sharp is the reference of contract 7. Where there is node, npm installs it, unless it is found already
(`NODE_PATH`); else the test is skipped with the reason.
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
from imagehost_core.transform import Fit, Transform
from imagehost_core.transform.geometry import Size, plan

CASES = 320
SEED = 20_261_121
SOFT = (104, 152)
"""The levels of the pictures. With so little contrast, averages of light and of levels are nearly one, so
what differs is what has moved."""
LIKE = 5.0
"""The largest mean difference between ours and sharp's, in 8-bit levels on white."""
LIKE_ON_AVERAGE = 0.7

Answer = tuple[dict[str, int], bytes]
SCRIPT = Path(__file__).with_name("sharp.cjs")


@frozen
class Case:
    """One request, and the picture it is for."""

    name: str
    fmt: Format
    data: bytes
    upright: Size
    transform: Transform
    animated: bool


def _case(studio: Any, random: Random, number: int) -> Case:
    kind = ("turned", "plain", "alpha", "animation")[number % 4]
    stored = Size(random.randint(8, 300), random.randint(8, 300))
    if kind == "animation":
        stored = Size(random.randint(8, 90), random.randint(8, 90))
    mode = "RGBA" if kind == "alpha" else "RGB"
    image = studio.photo(stored.width, stored.height, number, mode, SOFT)
    orientation = random.randint(1, 8) if kind == "turned" else 1
    upright = Size(stored.height, stored.width) if orientation > 4 else stored
    if kind == "turned":
        # Not as JPEG: when sharp lets the decoder shrink it, its sizes can be off by one.
        fmt, data = Format.PNG, studio.oriented(image, orientation, Format.PNG)
    elif kind == "animation":
        fmt = random.choice((Format.GIF, Format.WEBP))
        size = (stored.width, stored.height)
        data = studio.animation(fmt, random.randint(2, 4), size, levels=SOFT, lossless=True)
    else:
        fmt, data = Format.PNG, studio.file(image)
    width, height = random.choice(((1, 1), (1, 1), (1, 0), (0, 1)))
    sides = [random.choice((random.randint(1, 40), random.randint(20, 400))) for _ in range(2)]
    transform = Transform(
        sides[0] if width else None, sides[1] if height else None, fit=random.choice(list(Fit))
    )
    name = f"{number} {kind} {orientation} {stored} {transform.to_query()}"
    return Case(name, fmt, data, upright, transform, kind == "animation")


@pytest.fixture(scope="module")
def cases(studio: Any) -> list[Case]:
    random = Random(SEED)
    return [_case(studio, random, number) for number in range(CASES)]


@pytest.fixture(scope="module")
def by_sharp(cases: list[Case], tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """What sharp makes of each case: the sizes, and the pixels in RGBA."""
    folder = tmp_path_factory.mktemp("sharp")
    orders = []
    for number, case in enumerate(cases):
        (folder / f"{number}.in").write_bytes(case.data)
        orders.append(
            {
                "input": str(folder / f"{number}.in"),
                "output": str(folder / f"{number}.out"),
                "width": case.transform.width,
                "height": case.transform.height,
                "fit": case.transform.fit.value,
                "animated": case.animated,
            }
        )
    (folder / "orders.json").write_text(json.dumps(orders))
    command = ["node", str(SCRIPT), str(folder / "orders.json")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment("sharp"), check=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    return [(answer, (folder / f"{number}.out").read_bytes()) for number, answer in enumerate(answers)]


def _still(case: Case) -> Image.Image:
    """Our variant without loss: of an animation, its first frame."""
    job = RenderJob(plan(case.upright, case.transform), Format.PNG, None)
    return Image.open(BytesIO(render(job, case.fmt, case.data)[1][0])).convert("RGBA")


def _frames(case: Case) -> int:
    """How many frames our animated variant has."""
    job = RenderJob(plan(case.upright, case.transform), Format.WEBP, 100, animated=case.animated)
    return render(job, case.fmt, case.data)[0].frames


def test_sizes_frames_and_pictures_are_as_by_sharp(
    studio: Any, cases: list[Case], by_sharp: list[Answer]
) -> None:
    faults, differences = [], []
    for case, (answer, pixels) in zip(cases, by_sharp, strict=True):
        ours, size, frames = _still(case), (answer["width"], answer["height"]), _frames(case)
        if ours.size != size or frames != answer["frames"]:
            expected = (*size, answer["frames"])
            faults.append(f"{case.name}: expected {expected} but received {(*ours.size, frames)}")
            continue
        theirs = Image.frombytes("RGBA", size, pixels[: 4 * size[0] * size[1]])
        differences.append(studio.difference(ours, theirs))
        if differences[-1] > LIKE:
            faults.append(f"{case.name}: expected at most {LIKE} apart but received {differences[-1]:.2f}")
    assert not faults, "\n".join(faults)
    assert sum(differences) / len(differences) <= LIKE_ON_AVERAGE, sum(differences) / len(differences)


def test_every_fit_orientation_and_kind_is_among_the_cases(cases: list[Case]) -> None:
    assert {case.transform.fit for case in cases} == set(Fit)
    assert {case.name.split()[2] for case in cases if " turned " in case.name} == set("12345678")
    assert len([case for case in cases if case.animated]) >= 50
