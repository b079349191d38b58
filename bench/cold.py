"""Variants that nobody has made yet, over HTTP with four clients, beside IPX, thumbor and sharp.

    python -m bench.cold [PICTURE.jpg] [--seconds 8] [--rounds 3] [--peers FOLDER]

Without a picture one of 2725×2225 pixels is made. Peers are installed from npm and PyPI into FOLDER, which
is kept, or into a temporary one. No side caches results: each request asks for a width that no request of
the run has asked for before, between 680 and 760 pixels, with a height in the picture's proportion or some
pixels beside it, so that our cache of variants never has it, and what is asked of each peer is the same.
Every side may use all cores, and has as many processes or threads as there are cores. Rounds alternate.

The large picture has 50 million pixels and is stored as WebP by default; sharp gets that same WebP, from a
server of ten lines. Qualities are 80 for JPEG and WebP on both sides. For AVIF ours is 60, which looks like
sharp's default 50 (`bench/quality.py`), at sharp's default effort.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path

from attrs import define, field
from bench.peers import (
    MissingError,
    Peer,
    fetch,
    free_port,
    ipx,
    machine,
    npm,
    ours,
    started,
    thumbor,
    tool,
    upload,
)
from bench.render import LARGE, as_jpeg, made_picture
from PIL import Image

from imagehost_core.formats import Format
from imagehost_server.testing import RunningServer

JPEG = "picture.jpg"
CLIENTS = 4
QUALITY = {Format.WEBP: 80, Format.JPEG: 80, Format.AVIF: 60}
THEIR_QUALITY = {Format.WEBP: 80, Format.JPEG: 80, Format.AVIF: 50}
WIDTHS, HEIGHTS = range(680, 760), range(560, 620)

SHARP = """
const sharp = require('sharp'), { readFileSync } = require('fs')
sharp.cache(false)
require('http').createServer(async (request, response) => {
  const url = new URL(request.url, 'http://localhost'), asked = url.searchParams
  const data = await sharp(process.argv[1] + url.pathname, { limitInputPixels: false })
    .resize(Number(asked.get('w')), Number(asked.get('h')))
    .toFormat(asked.get('fm'), { quality: Number(asked.get('q')) }).toBuffer()
  response.end(data)
}).listen(Number(process.argv[2]), '127.0.0.1')
"""

Address = Callable[[int, int], str]
"""Where a picture of that width and height is had."""


@define
class Side:
    """One server and one job for it.

    Attributes:
        name: Of the server.
        address: Where it makes the variant.
        rates: What was measured: variants a second.
        sizes: The bytes of each variant.
    """

    name: str
    address: Address
    rates: list[float] = field(factory=list)
    sizes: list[int] = field(factory=list)

    @property
    def rate(self) -> float:
        """The median of the rounds."""
        return statistics.median(self.rates)

    def measure(self, sizes: Iterator[tuple[int, int]], seconds: float) -> None:
        """Ask for as many variants as it makes in that time, after two that do not count."""
        for _ in range(2):
            self._ask(next(sizes))
        ends = time.monotonic() + seconds
        lock, made = threading.Lock(), [0]

        def client() -> None:
            while time.monotonic() < ends:
                with lock:
                    size = next(sizes)
                length = self._ask(size)
                with lock:
                    made[0] += 1
                    self.sizes.append(length)

        began = time.monotonic()
        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.rates.append(made[0] / (time.monotonic() - began))

    def _ask(self, size: tuple[int, int]) -> int:
        status, _, body = fetch(self.address(*size))
        assert status == 200, (self.name, status, body[:300])
        return len(body)


def unused_sizes() -> Iterator[tuple[int, int]]:
    """Yield sizes near 720×588, none of them twice."""
    for number in count():
        width, rest = number % len(WIDTHS), number // len(WIDTHS)
        # The height moves with every width too, so that neighbours in time are alike in cost.
        yield WIDTHS[width], HEIGHTS[(width + rest) % len(HEIGHTS)]


def compete(title: str, sides: list[Side], seconds: float, rounds: int) -> None:
    """Print one contest: ours is the first side."""
    print(f"\n{title}", flush=True)
    sizes = unused_sizes()
    for _ in range(rounds):
        for side in sides:
            side.measure(sizes, seconds)
    mine = sides[0].rate
    for side in sides:
        spread = f"{min(side.rates):.1f}–{max(side.rates):.1f}"
        ratio = "" if side is sides[0] else f"; ours is {mine / side.rate:.2f} ×"
        size = statistics.mean(side.sizes)
        print(f"  {side.name:8} {side.rate:6.1f} /s ({spread}), {size:9,.0f} bytes{ratio}", flush=True)


def of_ours(origin: str, image: str, fmt: Format) -> Side:
    """Return our side of a job."""
    return Side("ours", lambda w, h: f"{origin}/img/{image}.{fmt.value}?w={w}&h={h}&q={QUALITY[fmt]}")


def of_ipx(origin: str, name: str, fmt: Format) -> Side:
    """Return IPX's side of a job."""
    quality = THEIR_QUALITY[fmt]
    return Side("ipx", lambda w, h: f"{origin}/s_{w}x{h},fit_cover,f_{fmt.value},q_{quality}/{name}")


def of_thumbor(origin: str, name: str, fmt: Format) -> Side:
    """Return thumbor's side of a job."""
    filters = f"filters:format({fmt.value}):quality({THEIR_QUALITY[fmt]})"
    return Side("thumbor", lambda w, h: f"{origin}/unsafe/{w}x{h}/{filters}/{name}")


def of_sharp(origin: str, name: str, fmt: Format) -> Side:
    """Return sharp's side of a job."""
    quality = THEIR_QUALITY[fmt]
    return Side("sharp", lambda w, h: f"{origin}/{name}?w={w}&h={h}&fm={fmt.value}&q={quality}")


@contextmanager
def sharp(folder: Path, root: Path) -> Iterator[Peer]:
    """Serve pictures of a folder by sharp, with its own number of threads."""
    modules = npm(folder / "sharp", "sharp")
    port = free_port()
    command = [tool("node"), "-e", SHARP, str(root), str(port)]
    with started(command, port, folder / "sharp.log", {"NODE_PATH": str(modules)}) as peer:
        yield peer


def available(opened: ExitStack, server: AbstractContextManager[Peer]) -> str | None:
    """Return the origin of a peer that runs until the stack is closed, or say why there is none."""
    try:
        return opened.enter_context(server).origin
    except MissingError as missing:
        print(f"without this peer: {missing}")
        return None


def beside_services(server: RunningServer, root: Path, peers: Path, options: argparse.Namespace) -> None:
    """Print the contests with IPX and thumbor, from the JPEG as it was uploaded."""
    image = upload(server, (root / JPEG).read_bytes())
    with ExitStack() as opened:
        ipx_origin = available(opened, ipx(peers, root))
        thumbor_origin = available(opened, thumbor(peers, root, os.cpu_count() or 1))
        for fmt in (Format.WEBP, Format.JPEG, Format.AVIF):
            sides = [of_ours(server.origin, image, fmt)]
            if ipx_origin:
                sides.append(of_ipx(ipx_origin, JPEG, fmt))
            if thumbor_origin:
                sides.append(of_thumbor(thumbor_origin, JPEG, fmt))
            title = f"from the JPEG, {fmt.value}: ours q{QUALITY[fmt]}, theirs q{THEIR_QUALITY[fmt]}"
            compete(title, sides, options.seconds, options.rounds)


def beside_sharp(server: RunningServer, root: Path, peers: Path, options: argparse.Namespace) -> None:
    """Print the contests from 50 million pixels stored as WebP, and what their number costs us."""
    with Image.open(root / JPEG) as small:
        large = upload(server, as_jpeg(small.convert("RGB").resize(LARGE, Image.Resampling.BICUBIC)))
        six = upload(server, as_jpeg(small.convert("RGB")))
    (root / "large.webp").write_bytes(fetch(f"{server.origin}/img/{large}")[2])
    with ExitStack() as opened:
        origin = available(opened, sharp(peers, root))
        for fmt in (Format.WEBP, Format.JPEG):
            sides = [of_ours(server.origin, large, fmt)]
            if origin:
                sides.append(of_sharp(origin, "large.webp", fmt))
            compete(f"from 50 Mpixel stored as WebP, {fmt.value} q80", sides, options.seconds, options.rounds)
    sides = [of_ours(server.origin, image, Format.WEBP) for image in (large, six)]
    sides[0].name, sides[1].name = "50 Mpx", "6 Mpx"
    compete("our cold cost by the master's size, webp q80", sides, options.seconds, options.rounds)


def main() -> None:
    """Run every contest."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("picture", nargs="?", type=Path, help="a JPEG of 2725×2225 pixels or so")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, help="where peers are installed, and stay")
    options = parser.parse_args()
    picture = options.picture.read_bytes() if options.picture else as_jpeg(made_picture())
    print(f"{machine()}; {CLIENTS} clients")
    with tempfile.TemporaryDirectory() as name, ours(Path(name)) as server:
        root, peers = Path(name, "files"), (options.peers or Path(name, "peers")).absolute()
        for folder in (root, peers):
            folder.mkdir(parents=True, exist_ok=True)
        (root / JPEG).write_bytes(picture)
        beside_services(server, root, peers, options)
        beside_sharp(server, root, peers, options)
    print(machine())


if __name__ == "__main__":
    main()
