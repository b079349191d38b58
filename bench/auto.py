"""Compare `fm=auto` with each single format: bytes, and bytes at equal SSIMULACRA2.

    python -m bench.auto [IMAGE…] [--widths 640,320]

Needs `ssimulacra2` (PyPI) in the environment. Screenshots and photographs are drawn; images on the command
line are measured too. Each is uploaded to a host, and its variants in its own size and in every smaller width
are rendered for a browser that accepts AVIF and WebP, and for a client that accepts neither. A ratio is the
bytes of `auto` divided by those of the smallest format that the client accepts at the score of `auto`,
interpolated between two qualities; where `auto` is exact, by those of the smallest exact file. The reference
is the PNG of the same size.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from io import BytesIO
from math import exp, log
from pathlib import Path

from attrs import frozen
from bench.quality import score
from PIL import Image as PILImage
from tests.screenshots import SCREENSHOTS, encode, photograph

from imagehost_core import Format, Image, ImageHost, ImageHostError
from imagehost_core.pixels.encode import encode_lossless
from imagehost_core.testing import memory_host
from imagehost_core.transform import AUTO, Transform

WIDTHS = "640,320"
MAX_PIXELS = 1_500_000
"""Larger variants are left out: their scores take too long."""
QUALITIES = {Format.AVIF: (50, 70), Format.WEBP: (60, 85), Format.JPEG: (60, 85)}
CLIENTS = {
    "AVIF and WebP": ("image/avif,image/webp,*/*;q=0.8", (Format.AVIF, Format.WEBP)),
    "neither": ("*/*", (Format.JPEG, Format.PNG)),
}
"""The `Accept` headers, and the formats that they accept."""


@frozen
class Scored:
    """A file and its SSIMULACRA2; 100 is exact."""

    size: int
    score: float


class Meter:
    """What renders and scores the variants of one size of an image."""

    def __init__(self, host: ImageHost, image: Image, width: int | None, folder: Path) -> None:
        """Render the reference."""
        self._host, self._image, self._width, self._folder = host, image, width, folder
        self._reference = _flat(host.render(image, Transform(width, format=Format.PNG)).data)
        self._reference.save(folder / "reference.png", compress_level=1)

    def auto(self, accept: str) -> tuple[Format, Scored]:
        """Return what a client gets."""
        resolved = self._host.delivery.build(self._image, Transform(self._width, format=AUTO), accept)
        with self._host.delivery.open(resolved) as blob:
            data = blob.read()
        return resolved.format_of(data), self._scored(data)

    def single(self, fmt: Format, quality: int | None = None) -> Scored:
        """Return the variant of a fixed format."""
        return self._scored(
            self._host.render(self._image, Transform(self._width, None, quality, format=fmt)).data
        )

    def smallest(self, formats: Sequence[Format], target: float) -> float:
        """Return the bytes of the smallest format at a score, 100 for exact files."""
        sizes = [
            float(len(encode_lossless(fmt, self._reference)))
            for fmt in (Format.WEBP, Format.PNG)
            if fmt in formats
        ]
        for fmt in formats:
            if fmt in QUALITIES and target < 100:
                low, high = (self.single(fmt, quality) for quality in QUALITIES[fmt])
                slope = (log(high.size) - log(low.size)) / max(high.score - low.score, 0.5)
                sizes.append(exp(log(low.size) + slope * (target - low.score)))
        return min(sizes)

    def _scored(self, data: bytes) -> Scored:
        image = _flat(data)
        if image.tobytes() == self._reference.tobytes():
            return Scored(len(data), 100)
        return Scored(len(data), score(self._folder / "reference.png", image, self._folder))


def _flat(data: bytes) -> PILImage.Image:
    """Return an image on grey, as scores have no alpha."""
    with PILImage.open(BytesIO(data)) as opened:
        image = opened.convert("RGBA")
    canvas = PILImage.new("RGBA", image.size, "grey")
    canvas.alpha_composite(image)
    return canvas.convert("RGB")


def drawn() -> dict[str, bytes]:
    """Return screenshots as PNG and as JPEG, and photographs."""
    files = {name: encode(draw(1_000, 700)) for name, draw in SCREENSHOTS.items()}
    files |= {
        f"{name}.jpg": encode(draw(1_000, 700), "JPEG", quality=88) for name, draw in SCREENSHOTS.items()
    }
    return files | {"photograph": encode(photograph(1_000, 700), "JPEG", quality=92)}


def main() -> None:
    """Print a line for each variant, and the sums."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("images", nargs="*", type=Path)
    parser.add_argument("--widths", default=WIDTHS, help="in pixels, with commas")
    options = parser.parse_args()
    files = drawn() | {path.name: path.read_bytes() for path in options.images}
    totals = {client: Counter[str]() for client in CLIENTS}
    ratios: dict[str, list[tuple[float, str]]] = {client: [] for client in CLIENTS}
    with closing(memory_host()) as host, tempfile.TemporaryDirectory() as folder:
        host.accounts.create("bench")
        for name, data in files.items():
            try:
                image = host.upload(data, owner="bench")
            except ImageHostError as error:
                print(f"{name:24} {error.details}")
                continue
            for width in (None, *(int(text) for text in options.widths.split(","))):
                pixels = image.width * image.height * ((width or image.width) / image.width) ** 2
                if image.is_animated or (width or 0) >= image.width or pixels > MAX_PIXELS:
                    continue
                meter = Meter(host, image, width, Path(folder))
                for client, (accept, formats) in CLIENTS.items():
                    fmt, auto = meter.auto(accept)
                    singles = {single: meter.single(single).size for single in formats}
                    ratio = auto.size / min(meter.smallest(formats, auto.score), auto.size * 10)
                    title = f"{name[:24]:24} {image.format:4} {width or image.width:5} px"
                    ratios[client].append((ratio, title))
                    totals[client].update({"auto": auto.size})
                    totals[client].update({single.value: size for single, size in singles.items()})
                    others = "  ".join(f"{single.value} {size:,}" for single, size in singles.items())
                    print(
                        f"{title} {client:13} {fmt.value:4} {auto.size:8,} B {auto.score:5.1f}"
                        f"  ratio {ratio:4.2f}  {others}",
                        flush=True,
                    )
    for client, sizes in totals.items():
        best = min(size for name, size in sizes.items() if name != "auto")
        worst = max(ratios[client])
        print(
            f"{client}: auto {sizes['auto'] / best:.3f} of the best single format; at equal score worst"
            f" {worst[0]:.2f} ({worst[1]}), {sum(ratio > 1.1 for ratio, _ in ratios[client])} of"
            f" {len(ratios[client])} above 1.1"
        )


if __name__ == "__main__":
    main()
