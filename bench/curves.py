"""Compare the encoders of variants: bytes and CPU time at the SSIMULACRA2 of a WebP of quality 80.

    python -m bench.curves IMAGE.jpg… [--widths 320,640,1280] [--svt]

Needs `ssimulacra2` (PyPI) in the environment; with `pillow-jxl-plugin`, JPEG XL is measured too, and with
`--svt` and `pillow-avif-plugin` SVT-AV1 instead of the others, as that package replaces Pillow's plug-in.
Each image is downscaled in linear light, and encoded at two qualities by each encoder, on one thread; bytes
and CPU time are interpolated at the score of the WebP. A table has the medians over the images, as ratios to
the WebP, and the worst ratio of bytes. At last the uploads are recompressed as JPEG XL without loss.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from math import exp, log
from pathlib import Path

from attrs import frozen
from bench.peers import machine
from bench.quality import linear_reference, score
from PIL import Image, ImageOps

from imagehost_core.formats import Format
from imagehost_core.pixels.chroma_subsampling import subsample_420
from imagehost_core.pixels.codecs import CODECS
from imagehost_core.pixels.encode import encode
from imagehost_core.transform import Size

QUALITY = 80
AOM = {"codec": "aom", "max_threads": 1, "autotiling": False, "subsampling": "4:2:0"}
AVIF_QUALITIES, JXL_QUALITIES = (45, 62), (72, 86)


@frozen
class Encoder:
    """An encoder with its options.

    Attributes:
        plugin: The name of Pillow's plug-in.
        options: The plug-in's options.
        qualities: Two qualities near the score of the WebP.
    """

    plugin: str
    options: dict[str, object]
    qualities: tuple[int, int]

    def encode(self, image: Image.Image, quality: int) -> bytes:
        """Encode an image; its chroma is subsampled as that of variants where the encoder would do it."""
        if self.plugin == "WEBP" or self.options.get("subsampling") == "4:2:0":
            image = subsample_420(image, "RGB")
        buffer = BytesIO()
        image.save(buffer, self.plugin, quality=quality, **self.options)
        return buffer.getvalue()


@frozen
class Measured:
    """A file: its bytes, the CPU time of its encoding, and its score."""

    size: int
    seconds: float
    score: float


def encoders(svt: bool) -> Iterator[tuple[str, Encoder]]:
    """Yield the encoders with their names."""
    if svt:
        for speed in (4, 6, 8, 10):
            options: dict[str, object] = {**AOM, "codec": "svt", "speed": speed}
            yield f"AVIF, SVT, speed {speed}", Encoder("AVIF", options, AVIF_QUALITIES)
        return
    for speed in (6, 7, 8, 9, 10):
        for tune in ("ssimulacra2", "iq"):
            options = {**AOM, "speed": speed, "advanced": {"color:tune": tune}}
            yield f"AVIF, aom, speed {speed}, {tune}", Encoder("AVIF", options, AVIF_QUALITIES)
    options = {**AOM, "speed": 9, "advanced": {"color:tune": "iq"}, "subsampling": "4:4:4"}
    yield "AVIF, aom, speed 9, iq, 4:4:4", Encoder("AVIF", options, AVIF_QUALITIES)
    if find_spec("pillow_jxl"):
        import_module("pillow_jxl")
        for effort in range(1, 6):
            options = {"effort": effort, "num_threads": 1}
            yield f"JPEG XL, effort {effort}", Encoder("JXL", options, JXL_QUALITIES)
    for method in (0, 1, 4, 6):
        yield f"WebP, method {method}", Encoder("WEBP", {"method": method}, (74, 86))


class Meter:
    """What encodes and scores one image in one size."""

    def __init__(self, reference: Image.Image, folder: Path) -> None:
        """Write the reference."""
        self.reference, self._folder = reference, folder
        reference.save(folder / "reference.png", compress_level=1)

    def measure(self, function: Callable[[], bytes]) -> Measured:
        """Encode the reference twice; return the file's bytes, score, and time of the second."""
        function()
        started = time.process_time()
        data = function()
        seconds = time.process_time() - started
        decoded = Image.open(BytesIO(data)).convert("RGB")
        points = score(self._folder / "reference.png", decoded, self._folder)
        return Measured(len(data), seconds, points)

    def at_score(self, encoder: Encoder, target: float) -> tuple[float, float]:
        """Return the bytes and the CPU time of an encoder at a score."""
        low, high = (
            self.measure(partial(encoder.encode, self.reference, quality)) for quality in encoder.qualities
        )
        share = (target - low.score) / max(high.score - low.score, 0.5)
        size = exp(log(low.size) + share * (log(high.size) - log(low.size)))
        return size, low.seconds + min(max(share, 0), 1) * (high.seconds - low.seconds)


def print_recompressed(files: list[Path]) -> None:
    """Print what JPEG XL saves of the uploads without loss, and its CPU time beside that of their WebP."""
    sizes, times = [], []
    for file in files:
        image = Image.open(file)
        started = time.process_time()
        buffer = BytesIO()
        image.save(buffer, "JXL", lossless_jpeg=True, effort=3, num_threads=1)
        recompressed = time.process_time()
        Encoder("WEBP", dict(CODECS[Format.WEBP].options), (0, 0)).encode(image.convert("RGB"), QUALITY)
        sizes.append(len(buffer.getvalue()) / file.stat().st_size)
        times.append((recompressed - started) / (time.process_time() - recompressed))
    print(
        f"{len(files)} JPEGs as JPEG XL without loss, effort 3: {statistics.median(sizes):.2f} of the bytes, "
        f"{statistics.median(times):.2f} × the CPU time of decoding, and encoding a WebP of quality {QUALITY}"
    )


def main() -> None:
    """Print a table for each width."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("images", nargs="+", type=Path)
    parser.add_argument("--widths", default="320,640,1280")
    parser.add_argument("--svt", action="store_true")
    options = parser.parse_args()
    if options.svt:
        import_module("pillow_avif")
    print(machine())
    for width in map(int, options.widths.split(",")):
        ratios: dict[str, list[tuple[float, float]]] = {}
        webp: list[Measured] = []
        with tempfile.TemporaryDirectory() as name:
            for file in options.images:
                image = ImageOps.exif_transpose(Image.open(file)).convert("RGB")
                size = Size(width, round(image.height * width / image.width))
                meter = Meter(linear_reference(image, size), Path(name))
                own = meter.measure(partial(encode, Format.WEBP, meter.reference, QUALITY, subsample=True))
                webp.append(own)
                for label, encoder in encoders(options.svt):
                    total, seconds = meter.at_score(encoder, own.score)
                    ratios.setdefault(label, []).append((total / own.size, seconds / own.seconds))
        means = [
            statistics.mean(getattr(each, name) for each in webp) for name in ("size", "seconds", "score")
        ]
        print(
            f"\n{width} px, {len(webp)} images: WebP {means[0]:,.0f} bytes, {1_000 * means[1]:.1f} ms, "
            f"{means[2]:.1f} points"
        )
        for label, values in ratios.items():
            sizes, times = zip(*values, strict=True)
            print(
                f"  {label:34} {statistics.median(sizes):.2f} × the bytes (worst {max(sizes):.2f}), "
                f"{statistics.median(times):.2f} × the CPU time"
            )
    if find_spec("pillow_jxl") and not options.svt:
        print_recompressed(options.images)


if __name__ == "__main__":
    main()
