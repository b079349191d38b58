"""Search the quantisation tables of our JPEGs: the best mean score at the bytes of libjpeg's quality 80.

    python bench/tables.py PICTURE.jpg… [--width 640]

Needs `ssimulacra2` (PyPI) in the environment. Each picture is reduced to the width as the host reduces it;
a table is scored by SSIMULACRA2 of the JPEG against the picture reduced by Lanczos. Every candidate is
scaled until all JPEGs together have as many bytes as with libjpeg's own tables, so that only the tables'
shape counts. From the tables in use, one number after the other is moved as long as that helps.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from attrs import evolve, frozen
from bench.quality import reference_of, score
from PIL import Image

from imagehost_core.pixels.colour import normalize, to_srgb
from imagehost_core.pixels.decode import apply_orientation, image_orientation
from imagehost_core.pixels.quantisation import BLOCK_SIDE, CHROMA, LUMA, TableCurve
from imagehost_core.pixels.resize import resize_to
from imagehost_core.transform import Size, Transform, plan

QUALITY = 80
HALVINGS = 9
"""How often the scale of a table is narrowed down: to a hundredth of its bytes."""

STEPS = (("growth", 0.05), ("exponent", 0.1), ("base", 2.0))


@frozen
class Subject:
    """A picture at the width, and what it is compared with."""

    image: Image.Image
    reference: Path


@frozen
class Shape:
    """A candidate: the slopes of both tables."""

    brightness: TableCurve = LUMA
    colour: TableCurve = CHROMA

    def tables(self, scale: float) -> list[list[int]]:
        """Return the divisors, both slopes multiplied by a scale."""
        places = [(across, down) for down in range(BLOCK_SIDE) for across in range(BLOCK_SIDE)]
        return [
            [min(255, max(1, round(slope.at(*place) * scale))) for place in places]
            for slope in (self.brightness, self.colour)
        ]


def jpeg(image: Image.Image, tables: list[list[int]] | None) -> bytes:
    """Return the JPEG by the tables, or by libjpeg's own."""
    buffer = BytesIO()
    if tables is None:
        image.save(buffer, "JPEG", quality=QUALITY, optimize=True, progressive=True)
    else:
        image.save(buffer, "JPEG", quality=50, qtables=tables, optimize=True, progressive=True)
    return buffer.getvalue()


def fitted(shape: Shape, subjects: Sequence[Subject], size: int) -> list[list[int]]:
    """Return the tables of a shape, scaled to give that many bytes in all."""
    low, high = 0.05, 3.0
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        tables = shape.tables(middle)
        larger = sum(len(jpeg(subject.image, tables)) for subject in subjects) > size
        low, high = (middle, high) if larger else (low, middle)
    return shape.tables((low * high) ** 0.5)


def scores(subjects: Sequence[Subject], tables: list[list[int]] | None, folder: Path) -> list[float]:
    """Return the score of each picture."""
    return [
        score(subject.reference, Image.open(BytesIO(jpeg(subject.image, tables))), folder)
        for subject in subjects
    ]


def subject_of(file: Path, width: int, folder: Path) -> Subject:
    """Return a photograph, reduced."""
    opened = Image.open(file)
    opened.load()
    whole = to_srgb(normalize(apply_orientation(opened, image_orientation(opened))))
    size = plan(Size(*whole.size), Transform(width=width)).output
    reference = folder / f"{file.stem}.png"
    reference_of(whole, size).save(reference, compress_level=1)
    return Subject(resize_to(whole, size), reference)


def neighbours(shape: Shape, share: float) -> list[Shape]:
    """Return the shapes one step away; `share` is the length of a step."""
    return [
        evolve(shape, **{table: evolve(slope, **{name: getattr(slope, name) + sign * step * share})})
        for table, slope in (("brightness", shape.brightness), ("colour", shape.colour))
        for name, step in STEPS
        for sign in (1, -1)
        if getattr(slope, name) + sign * step * share > 0
    ]


def main() -> None:
    """Search, and print each better shape."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("pictures", nargs="+", type=Path, help="large JPEG photographs")
    parser.add_argument("--width", type=int, default=640)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subjects = [subject_of(file, options.width, folder) for file in options.pictures]
        size = sum(len(jpeg(subject.image, None)) for subject in subjects)
        before = scores(subjects, None, folder)

        def gain(shape: Shape) -> float:
            return statistics.mean(scores(subjects, fitted(shape, subjects, size), folder))

        print(f"libjpeg's tables: {statistics.mean(before):.2f} with {size:,} bytes")
        best = Shape()
        most = gain(best)
        print(f"{most:.2f} {best}", flush=True)
        for share in (1.0, 0.5):
            for shape in neighbours(best, share):
                found = gain(shape)
                if found > most:
                    best, most = shape, found
                    print(f"{most:.2f} {best}", flush=True)
        after = scores(subjects, fitted(best, subjects, size), folder)
        ahead = [new - old for new, old in zip(after, before, strict=True)]
        print(f"ahead of libjpeg's: mean {statistics.mean(ahead):+.2f}, worst {min(ahead):+.2f}")


if __name__ == "__main__":
    main()
