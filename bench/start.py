"""Compare the start of a server with that of a bare Litestar application on uvicorn.

    python -m bench.start [--rounds 5]

Each start is timed from the command to the first response, and its CPU time is that of all processes until
then: imagehost with an empty data directory, with one that exists, and a Litestar application with one
handler, in alternation. A ratio is the median of imagehost divided by that of the bare application. Then the
CPU time of `imagehost --help`.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from bench.peers import cpu_seconds, free_port, machine

BARE = """
import uvicorn
from litestar import Litestar, get

@get("/healthz")
async def health() -> dict[str, str]:
    return {"status": "alive"}

uvicorn.run(Litestar([health]), port=int(__import__("sys").argv[1]), log_level="error")
"""


def start(command: Sequence[str], port: int) -> tuple[float, float]:
    """Run a server until its first response; return its CPU time and the time, in seconds."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            while not _responds(port):
                time.sleep(0.01)
            return cpu_seconds(process.pid), time.perf_counter() - started
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def _responds(port: int) -> bool:
    with suppress(URLError, ConnectionError), urlopen(f"http://127.0.0.1:{port}/healthz", timeout=60):
        return True
    return False


def main() -> None:
    """Print the medians and their ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(machine())
    results: dict[str, list[tuple[float, float]]] = {"bare": [], "empty directory": [], "existing": []}
    with tempfile.TemporaryDirectory() as name:
        for number in range(options.rounds):
            data = Path(name, str(number))
            for title, times in results.items():
                port = free_port()
                serve = ["-m", "imagehost_server", "serve", "--data", str(data), "--port", str(port)]
                program = ["-c", BARE, str(port)] if title == "bare" else serve
                times.append(start([sys.executable, *program], port))
    medians = {
        title: [statistics.median(each) for each in zip(*times, strict=True)]
        for title, times in results.items()
    }
    for title, (cpu, seconds) in medians.items():
        ratios = (
            f"{cpu / medians['bare'][0]:.2f} × the CPU time, {seconds / medians['bare'][1]:.2f} × the time"
        )
        print(f"{title:<16} {cpu:.2f} s of CPU time, {seconds:.2f} s: {ratios}")
    before = _children_cpu_seconds()
    for _ in range(options.rounds):
        subprocess.run(
            [sys.executable, "-m", "imagehost_server", "--help"], check=True, stdout=subprocess.DEVNULL
        )
    print(f"--help: {(_children_cpu_seconds() - before) / options.rounds:.3f} s of CPU time")


def _children_cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
