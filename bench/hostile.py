"""Measure the CPU time of files that cost much for their size, which `tests/hostile_files.py` generates.

    python -m bench.hostile [--size 52428800] [--only PATTERN]

For each file: the header scan; then, in a process of their own, decoding, the whole upload with the default
options, and an upload that only removes metadata. A process is killed after `--limit` seconds of CPU time.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import resource
import time
from collections.abc import Callable

from bench.peers import machine
from tests.hostile_files import HOSTILE_FILES

from imagehost_core.errors import ImageHostError
from imagehost_core.headers.scanner import scan
from imagehost_core.jobs import IngestJob
from imagehost_core.pixels.decoded_upload import decode_upload
from imagehost_core.pixels.decoder_errors import suppress_warnings
from imagehost_core.pixels.ingest import ingest

MAX_SIZE = 50 * 2**20
MEMORY = 3 * 2**30


def cpu_seconds(work: Callable[[], object], limit: int) -> str:
    """Return the CPU time of a function in a process of its own, marked if it was rejected or killed."""
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        status = 0
        try:
            with suppress_warnings():
                work()
        except ImageHostError:
            status = 1
        finally:
            os._exit(status)
    _, status, usage = os.wait4(child, 0)
    mark = "killed" if os.WIFSIGNALED(status) else "422" if os.WEXITSTATUS(status) else ""
    return f"{usage.ru_utime + usage.ru_stime:6.2f} {mark:6}"


def measure(name: str, data: bytes, limit: int) -> None:
    """Print the CPU time of each step for one file."""
    started = time.process_time()
    try:
        header = scan(io.BytesIO(data), len(data))
    except ImageHostError as error:
        print(f"{name:44} {time.process_time() - started:5.2f}  {error.details:.80}", flush=True)
        return
    scanned = time.process_time() - started
    image = data[: header.end_offset]
    convert = IngestJob(header.format, is_displayable=header.is_displayable)
    strip = IngestJob(
        header.format, convert_to_webp=False, remove_exif=True, is_displayable=header.is_displayable
    )
    steps: tuple[Callable[[], object], ...] = (
        lambda: decode_upload(convert, image),
        lambda: ingest(convert, image),
        lambda: ingest(strip, image),
    )
    print(f"{name:44} {scanned:5.2f}", *(cpu_seconds(step, limit) for step in steps), flush=True)


def main() -> None:
    """Measure all files, or those whose names match."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=MAX_SIZE)
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=int, default=30)
    options = parser.parse_args()
    print(machine())
    print(f"{'CPU seconds':44}  scan decode        upload        strip")
    for name, (generate, _) in HOSTILE_FILES.items():
        if re.search(options.only, name):
            measure(name, generate(options.size), options.limit)


if __name__ == "__main__":
    main()
