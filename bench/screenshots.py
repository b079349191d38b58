"""Compare variants of screenshots with sharp's, and animated WebPs with each encoding that they could have.

    python -m bench.screenshots [ANIMATION.gif…] [--rounds 3]

Screenshots are drawn, in 1280×800 pixels. imagehost renders each from its master, and sharp from the uploaded
PNG, with one thread, in alternation: CPU time and bytes. Of animations, drawn ones and those on the command
line, the bytes of the WebP that is stored are compared with those of the upload, and of both encodings.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from io import BytesIO
from pathlib import Path

from bench.peers import machine
from bench.sizes import QUALITY, Sharp
from PIL import Image
from tests.screenshots import SCREENSHOTS, encode

from imagehost_core.formats import FORMATS, Format, detect
from imagehost_core.jobs import IngestJob, RenderJob
from imagehost_core.pixels.animation import read_animation
from imagehost_core.pixels.colour import normalize, to_srgb
from imagehost_core.pixels.decode import open_image
from imagehost_core.pixels.encode import ANIMATION_EFFORT, encode_animation
from imagehost_core.pixels.ingest import ingest
from imagehost_core.pixels.render import render
from imagehost_core.transform import Size, Transform, plan

SIZE = (1280, 800)
WIDTHS = (1280, 640)


def render_screenshots(rounds: int) -> None:
    """Print the CPU time and the bytes of each variant, and of sharp's."""
    sharp = Sharp()
    with tempfile.TemporaryDirectory() as folder:
        for fmt in (Format.WEBP, Format.PNG):
            for width in WIDTHS:
                ratios = {}
                for name, draw in SCREENSHOTS.items():
                    file = Path(folder, f"{name}.png")
                    file.write_bytes(encode(draw(*SIZE)))
                    result, (master, *_) = ingest(IngestJob(Format.PNG), file.read_bytes())
                    transform = Transform(width)
                    quality = QUALITY if FORMATS[fmt].has_quality else None
                    job = RenderJob(plan(Size(*SIZE), transform), fmt, quality)
                    times, data = [], b""
                    for _ in range(rounds + 1):
                        started = time.process_time()
                        data = render(job, result.format, master or file.read_bytes())[1][0]
                        own = 1_000 * (time.process_time() - started)
                        times.append((own, sharp.render(file, transform, fmt)))
                    own, theirs = (statistics.median(column) for column in zip(*times[1:], strict=True))
                    ratios[name] = theirs / own
                    print(
                        f"{fmt.value} {width} px {name:9} {own:6.1f} ms, {len(data):,} bytes;"
                        f" sharp {theirs:6.1f} ms"
                    )
                worst = min(ratios, key=ratios.__getitem__)
                print(
                    f"{fmt.value} {width} px: {statistics.median(ratios.values()):.2f} × in the median, "
                    f"worst {ratios[worst]:.2f} ({worst})"
                )
    sharp.close()


def drawn_animation() -> bytes:
    """Return a GIF in which shapes move over a chart."""
    frames = [SCREENSHOTS["chart"](480, 320) for _ in range(20)]
    for number, frame in enumerate(frames):
        frame.paste((214, 39, 40), (20 * number, 100, 20 * number + 60, 160))
    return encode(frames[0], "GIF", save_all=True, append_images=frames[1:], duration=80)


def compare_animation(name: str, data: bytes) -> None:
    """Print the bytes of an animation's master, and the bytes and the time of each encoding."""
    fmt = detect(data)
    assert fmt is not None
    animation = read_animation(open_image(fmt, data), lambda frame: to_srgb(normalize(frame)))
    started = time.process_time()
    _, (master, *_) = ingest(IngestJob(fmt, requested_format=Format.WEBP), data)
    upload = time.process_time() - started
    print(f"{name}: {len(data):,} bytes, stored {len(master):,}, upload {1_000 * upload:.0f} ms", end="")
    for label, quality, options in (
        ("with loss", QUALITY, {}),
        ("mixed", QUALITY, {"allow_mixed": True}),
        ("without", ANIMATION_EFFORT, {"lossless": True}),
    ):
        started = time.process_time()
        size = len(encode_animation(Format.WEBP, animation, quality, options=options))
        print(f"; {label} {size:,}, {1_000 * (time.process_time() - started):.0f} ms", end="")
    print(flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("animations", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(machine())
    compare_animation("drawn", drawn_animation())
    for file in options.animations:
        if getattr(Image.open(BytesIO(file.read_bytes())), "n_frames", 1) > 1:
            compare_animation(file.name, file.read_bytes())
    render_screenshots(options.rounds)


if __name__ == "__main__":
    main()
