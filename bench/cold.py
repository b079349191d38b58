"""Measure uncached variants over HTTP with four clients: imagehost, IPX, thumbor and sharp.

    python -m bench.cold [IMAGE.jpg] [--seconds 8] [--rounds 3] [--peers DIRECTORY] [--width 1240]

Without an argument, an image of 2725×2225 pixels is generated. Peers are installed from npm and PyPI into
DIRECTORY, or into a temporary one. No result is ever cached: each request has a size that no other request of
the run has, near 720×588 pixels, and all servers get requests of the same kind. With `--width` the sizes are
near that width and the ratio of the image, and only IPX and thumbor are measured, without AVIF. Each server
may use all cores, with one process or thread per core. Rounds alternate.

The large image has 50 million pixels and is stored as WebP by default; sharp reads that same WebP, behind a
server of ten lines. The quality is 80 for JPEG and WebP everywhere. For AVIF, imagehost has 60, which looks
like sharp's default 50 (`bench/quality.py`), at sharp's default effort.
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
from io import BytesIO
from itertools import count
from pathlib import Path

from attrs import define, field
from bench.peers import (
    MissingToolError,
    Peer,
    cpu_seconds,
    fetch,
    free_port,
    imagehost,
    ipx,
    machine,
    npm,
    run_server,
    thumbor,
    tool,
    upload,
)
from bench.render import LARGE, as_jpeg, sample_image
from PIL import Image

from imagehost_core.formats import Format
from imagehost_server.testing import RunningServer

JPEG = "image.jpg"
CLIENTS = 4
QUALITY = {Format.WEBP: 80, Format.JPEG: 80, Format.AVIF: 60}
PEER_QUALITY = {Format.WEBP: 80, Format.JPEG: 80, Format.AVIF: 50}
SIZE = (720, 588)

SHARP_SERVER = """
const sharp = require('sharp'), { readFileSync } = require('fs')
sharp.cache(false)
require('http').createServer(async (request, response) => {
  const url = new URL(request.url, 'http://localhost'), parameters = url.searchParams
  const data = await sharp(process.argv[1] + url.pathname, { limitInputPixels: false })
    .resize(Number(parameters.get('w')), Number(parameters.get('h')))
    .toFormat(parameters.get('fm'), { quality: Number(parameters.get('q')) }).toBuffer()
  response.end(data)
}).listen(Number(process.argv[2]), '127.0.0.1')
"""

UrlForSize = Callable[[int, int], str]
"""Returns the URL of a variant of a width and a height."""


@define
class Candidate:
    """A server, and the variants requested from it.

    Attributes:
        name: The name of the server.
        url: Returns the URL of a variant.
        pid: The server's process.
        rates: The measured variants per second of each round.
        costs: The CPU time of a variant of each round, in milliseconds, with that of descendants.
        sizes: The size of each variant, in bytes.
    """

    name: str
    url: UrlForSize
    pid: int
    rates: list[float] = field(factory=list)
    costs: list[float] = field(factory=list)
    sizes: list[int] = field(factory=list)

    @property
    def rate(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.rates)

    def measure(self, sizes: Iterator[tuple[int, int]], seconds: float) -> None:
        """Request variants for a number of seconds, after a warm-up of two requests."""
        for _ in range(2):
            self._request(next(sizes))
        ends = time.monotonic() + seconds
        lock, responses = threading.Lock(), [0]

        def client() -> None:
            while time.monotonic() < ends:
                with lock:
                    size = next(sizes)
                length = self._request(size)
                with lock:
                    responses[0] += 1
                    self.sizes.append(length)

        start, before = time.monotonic(), cpu_seconds(self.pid)
        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.rates.append(responses[0] / (time.monotonic() - start))
        self.costs.append(1_000 * (cpu_seconds(self.pid) - before) / responses[0])

    def _request(self, size: tuple[int, int]) -> int:
        status, _, body = fetch(self.url(*size))
        assert status == 200, (self.name, status, body[:300])
        return len(body)


def unused_sizes(size: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Yield distinct sizes near a size."""
    width, height = size
    widths, heights = range(width - 40, width + 40), range(height - 30, height + 30)
    for number in count():
        index, rest = number % len(widths), number // len(widths)
        # The height changes with every width too, so that consecutive sizes are similar in cost.
        yield widths[index], heights[(index + rest) % len(heights)]


def compare(title: str, candidates: list[Candidate], options: argparse.Namespace) -> None:
    """Measure the candidates in alternating rounds; the ratios are to the first one."""
    print(f"\n{title}", flush=True)
    sizes = unused_sizes(options.size)
    for _ in range(options.rounds):
        for candidate in candidates:
            candidate.measure(sizes, options.seconds)
    first = candidates[0]
    for candidate in candidates:
        spread = f"{min(candidate.rates):.1f}–{max(candidate.rates):.1f}"
        costs = [theirs / ours for theirs, ours in zip(candidate.costs, first.costs, strict=True)]
        by_cpu = f"{statistics.median(costs):.2f} × (worst round {min(costs):.2f}) by CPU time"
        by_rate = f"{first.rate / candidate.rate:.2f} × by rate"
        ratio = "" if candidate is first else f"; {first.name} is {by_cpu}, {by_rate}"
        size = statistics.mean(candidate.sizes)
        rate = f"{candidate.rate:6.1f} /s ({spread}), {statistics.median(candidate.costs):6.1f} ms"
        print(f"  {candidate.name:9} {rate}, {size:9,.0f} bytes{ratio}", flush=True)


def imagehost_candidate(server: RunningServer, image: str, fmt: Format) -> Candidate:
    """Return the candidate for imagehost."""
    quality = QUALITY[fmt]
    start = f"{server.origin}/img/{image}.{fmt.value}"
    return Candidate("imagehost", lambda w, h: f"{start}?w={w}&h={h}&q={quality}", server.process.pid)


def ipx_candidate(peer: Peer, name: str, fmt: Format) -> Candidate:
    """Return the candidate for IPX."""
    quality = PEER_QUALITY[fmt]
    options = f"fit_cover,f_{fmt.value},q_{quality}"
    return Candidate("ipx", lambda w, h: f"{peer.origin}/s_{w}x{h},{options}/{name}", peer.pid)


def thumbor_candidate(peer: Peer, name: str, fmt: Format) -> Candidate:
    """Return the candidate for thumbor."""
    filters = f"filters:format({fmt.value}):quality({PEER_QUALITY[fmt]})"
    return Candidate("thumbor", lambda w, h: f"{peer.origin}/unsafe/{w}x{h}/{filters}/{name}", peer.pid)


def sharp_candidate(peer: Peer, name: str, fmt: Format) -> Candidate:
    """Return the candidate for sharp."""
    quality = PEER_QUALITY[fmt]
    end = f"fm={fmt.value}&q={quality}"
    return Candidate("sharp", lambda w, h: f"{peer.origin}/{name}?w={w}&h={h}&{end}", peer.pid)


@contextmanager
def sharp(directory: Path, root: Path) -> Iterator[Peer]:
    """Serve the images of a directory by sharp, with its default number of threads."""
    modules = npm(directory / "sharp", "sharp")
    port = free_port()
    command = [tool("node"), "-e", SHARP_SERVER, str(root), str(port)]
    with run_server(command, port, directory / "sharp.log", {"NODE_PATH": str(modules)}) as peer:
        yield peer


def start_if_available(opened: ExitStack, server: AbstractContextManager[Peer]) -> Peer | None:
    """Start a peer until the stack is closed; return it, or `None` if it cannot be installed."""
    try:
        return opened.enter_context(server)
    except MissingToolError as error:
        print(f"peer skipped: {error}")
        return None


def compare_with_services(
    server: RunningServer, root: Path, peers: Path, options: argparse.Namespace
) -> None:
    """Compare with IPX and thumbor, on the uploaded JPEG."""
    image = upload(server, (root / JPEG).read_bytes())
    with ExitStack() as opened:
        ipx_peer = start_if_available(opened, ipx(peers, root))
        thumbor_peer = start_if_available(opened, thumbor(peers, root, os.cpu_count() or 1))
        for fmt in (Format.WEBP, Format.JPEG, *([] if options.width else [Format.AVIF])):
            candidates = [imagehost_candidate(server, image, fmt)]
            if ipx_peer:
                candidates.append(ipx_candidate(ipx_peer, JPEG, fmt))
            if thumbor_peer:
                candidates.append(thumbor_candidate(thumbor_peer, JPEG, fmt))
            title = f"from the JPEG, {fmt.value}: imagehost q{QUALITY[fmt]}, peers q{PEER_QUALITY[fmt]}"
            compare(title, candidates, options)


def compare_with_sharp(server: RunningServer, root: Path, peers: Path, options: argparse.Namespace) -> None:
    """Compare with sharp on a WebP of 50 megapixels, and imagehost with itself by the size of the master."""
    with Image.open(root / JPEG) as small:
        large = upload(server, as_jpeg(small.convert("RGB").resize(LARGE, Image.Resampling.BICUBIC)))
        small_image = upload(server, as_jpeg(small.convert("RGB")))
    (root / "large.webp").write_bytes(fetch(f"{server.origin}/img/{large}")[2])
    with ExitStack() as opened:
        peer = start_if_available(opened, sharp(peers, root))
        for fmt in (Format.WEBP, Format.JPEG):
            candidates = [imagehost_candidate(server, large, fmt)]
            if peer:
                candidates.append(sharp_candidate(peer, "large.webp", fmt))
            compare(f"from 50 megapixels stored as WebP, {fmt.value} q80", candidates, options)
    candidates = [imagehost_candidate(server, image, Format.WEBP) for image in (large, small_image)]
    candidates[0].name, candidates[1].name = "50 Mpx", "6 Mpx"
    compare("imagehost by the size of the master, webp q80", candidates, options)


def main() -> None:
    """Run every comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("image", nargs="?", type=Path, help="a JPEG of about 2725×2225 pixels")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=Path, help="the directory to install peers in")
    parser.add_argument("--width", type=int, help="only near this width, and only beside IPX and thumbor")
    options = parser.parse_args()
    image = options.image.read_bytes() if options.image else as_jpeg(sample_image())
    options.size = SIZE
    if options.width is not None:
        with Image.open(BytesIO(image)) as opened:
            options.size = (options.width, round(options.width * opened.height / opened.width))
    print(f"{machine()}; {CLIENTS} clients; near {options.size[0]}×{options.size[1]} pixels")
    with tempfile.TemporaryDirectory() as name, imagehost(Path(name)) as server:
        root, peers = Path(name, "files"), (options.peers or Path(name, "peers")).absolute()
        for directory in (root, peers):
            directory.mkdir(parents=True, exist_ok=True)
        (root / JPEG).write_bytes(image)
        compare_with_services(server, root, peers, options)
        if options.width is None:
            compare_with_sharp(server, root, peers, options)
    print(machine())


if __name__ == "__main__":
    main()
