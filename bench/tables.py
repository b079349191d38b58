"""Search for JPEG quantisation tables with the best mean score at the bytes of libjpeg's quality 80.

    python -m bench.tables IMAGE.jpg… [--width 640]

Needs `ssimulacra2` (PyPI) in the environment. Each image is downscaled to the width as the renderer does;
tables are scored by SSIMULACRA2 of the JPEG against the image downscaled by Lanczos. Every candidate is
scaled until all JPEGs together have as many bytes as with libjpeg's own tables, so that only the shape of the
tables is compared. The search is a coordinate descent from the tables in use.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

from attrs import evolve, frozen
from bench.quality import linear_reference, score
from PIL import Image

from imagehost_core.formats import Format, sniff
from imagehost_core.pixels.colour import normalize, to_srgb
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.quantisation import BLOCK_SIDE, CHROMA, LUMA, TableCurve
from imagehost_core.pixels.resize import resize_to
from imagehost_core.pixels.source import apply_orientation
from imagehost_core.transform import Size, Transform, plan

QUALITY = 80
BISECTIONS = 9
"""The number of bisection steps for the scale of the tables."""

STEP_SIZES = (("growth", 0.05), ("exponent", 0.1), ("base", 2.0))


@frozen
class Sample:
    """A downscaled image, and the reference to score it against."""

    image: Image.Image
    reference: Path


@frozen
class Candidate:
    """The curves of both tables."""

    luma: TableCurve = LUMA
    chroma: TableCurve = CHROMA

    def tables(self, scale: float) -> list[list[int]]:
        """Return the divisors of both curves, multiplied by a scale."""
        frequencies = [(u, v) for v in range(BLOCK_SIDE) for u in range(BLOCK_SIDE)]
        return [
            [min(255, max(1, round(curve.at(u, v) * scale))) for u, v in frequencies]
            for curve in (self.luma, self.chroma)
        ]


def jpeg(image: Image.Image, tables: list[list[int]] | None) -> bytes:
    """Return a JPEG with the tables, or with libjpeg's own."""
    buffer = BytesIO()
    if tables is None:
        image.save(buffer, "JPEG", quality=QUALITY, optimize=True, progressive=True)
    else:
        image.save(buffer, "JPEG", quality=50, qtables=tables, optimize=True, progressive=True)
    return buffer.getvalue()


def scaled_tables(candidate: Candidate, samples: Sequence[Sample], size: int) -> list[list[int]]:
    """Return a candidate's tables, scaled so that all JPEGs together have a size in bytes."""
    low, high = 0.05, 3.0
    for _ in range(BISECTIONS):
        middle = (low * high) ** 0.5
        tables = candidate.tables(middle)
        larger = sum(len(jpeg(sample.image, tables)) for sample in samples) > size
        low, high = (middle, high) if larger else (low, middle)
    return candidate.tables((low * high) ** 0.5)


def scores(samples: Sequence[Sample], tables: list[list[int]] | None, folder: Path) -> list[float]:
    """Return the score of each image."""
    return [
        score(sample.reference, Image.open(BytesIO(jpeg(sample.image, tables))), folder) for sample in samples
    ]


def sample_of(file: Path, width: int, folder: Path) -> Sample:
    """Downscale a photograph, and write its reference."""
    data = file.read_bytes()
    source = open_image(sniff(data[:16]) or Format.JPEG, data)
    original = to_srgb(normalize(apply_orientation(source.first_frame(), source.orientation)))
    size = plan(Size(*original.size), Transform(width=width)).output
    reference = folder / f"{file.stem}.png"
    linear_reference(original, size).save(reference, compress_level=1)
    return Sample(resize_to(original, size), reference)


def neighbours(candidate: Candidate, factor: float) -> list[Candidate]:
    """Return the candidates one step away; `factor` scales the step sizes."""
    return [
        evolve(candidate, **{table: evolve(curve, **{name: getattr(curve, name) + sign * step * factor})})
        for table, curve in (("luma", candidate.luma), ("chroma", candidate.chroma))
        for name, step in STEP_SIZES
        for sign in (1, -1)
        if getattr(curve, name) + sign * step * factor > 0
    ]


def main() -> None:
    """Search, and print each better candidate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("images", nargs="+", type=Path, help="large JPEG photographs")
    parser.add_argument("--width", type=int, default=640)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        samples = [sample_of(file, options.width, folder) for file in options.images]
        size = sum(len(jpeg(sample.image, None)) for sample in samples)
        before = scores(samples, None, folder)

        def mean_score(candidate: Candidate) -> float:
            return statistics.mean(scores(samples, scaled_tables(candidate, samples, size), folder))

        print(f"libjpeg's tables: {statistics.mean(before):.2f} with {size:,} bytes")
        best = Candidate()
        best_score = mean_score(best)
        print(f"{best_score:.2f} {best}", flush=True)
        for factor in (1.0, 0.5):
            for candidate in neighbours(best, factor):
                value = mean_score(candidate)
                if value > best_score:
                    best, best_score = candidate, value
                    print(f"{best_score:.2f} {best}", flush=True)
        after = scores(samples, scaled_tables(best, samples, size), folder)
        differences = [new - old for new, old in zip(after, before, strict=True)]
        mean, worst = statistics.mean(differences), min(differences)
        print(f"difference from libjpeg: mean {mean:+.2f}, worst {worst:+.2f}")


if __name__ == "__main__":
    main()
