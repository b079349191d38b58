"""Run the benchmarks of all performance goals, one after the other, each with the goals that it is about.

    python -m bench.goals DIRECTORY [--peers PEERS] [--lists 100000] [--only sizes upload]

DIRECTORY has JPEG photographs. PEERS keeps what npm installs; without it sharp is installed anew. Each
program runs with as few rounds as give a usable figure, so that all take less than ten minutes on two calm
cores with seven photographs. `bench/README.md` describes the programs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen
from bench.peers import MissingToolError, machine, npm


@frozen
class Goal:
    """A benchmark and the goals that it measures.

    Attributes:
        module: The program, in this directory.
        arguments: Its arguments, in which `{photographs}` and `{images}` are replaced.
        goals: The goals.
    """

    module: str
    arguments: Sequence[str]
    goals: str


GOALS = (
    Goal(
        "sizes",
        ("{photographs}", "--rounds", "1"),
        "WebP at least 2 x sharp, JPEG at least 1 x at each width, the worst image at least 0.7 x",
    ),
    Goal(
        "lists",
        ("--images", "{images}", "--rounds", "20"),
        "pages of long lists at most 1.2 x those with 1,000 images; at most 1 ms, the last page 5 ms",
    ),
    Goal(
        "api",
        ("--seconds", "1", "--rounds", "3"),
        "GET /images at least 15 % of the bare handler, GET /images/{id} at least 30 %",
    ),
    Goal("request_cpu", ("--series", "100"), "the same, without the system calls of connections"),
    Goal(
        "upload",
        ("{photographs}", "--disk"),
        "at least 0.8 x of 0.27 megapixels, 0.9 x of more; disk at most 0.9, never above 1.5",
    ),
    Goal("catalog", ("--uploads", "2000"), "at most 1,600 bytes an image"),
    Goal(
        "idle",
        ("--seconds", "10"),
        "at most 2 wake-ups/s and 125 MiB, the supervisor 30 MiB; as many image workers as cores",
    ),
    Goal(
        "queue",
        ("--loads", "--files", "0", "--clients", "64"),
        "503 at once, with a Retry-After that is true; no 200 after 20 s",
    ),
    Goal("warm", ("--seconds", "2", "--rounds", "2"), "p99 beside a full queue: reported, no goal"),
)


def main() -> None:
    """Run all benchmarks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directory", type=Path, help="JPEG photographs")
    parser.add_argument("--peers", type=Path, help="the directory to install sharp in")
    parser.add_argument("--lists", type=int, default=100_000, help="images of the long lists")
    parser.add_argument("--only", nargs="+", choices=[goal.module for goal in GOALS], help="these only")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        environment = dict(os.environ)
        try:
            environment["NODE_PATH"] = str(npm(options.peers or Path(scratch), "sharp"))
        except MissingToolError as error:
            print(error)
        for goal in GOALS:
            if options.only and goal.module not in options.only:
                continue
            started = time.monotonic()
            print(f"== {goal.module}: {goal.goals}\n   {machine()}", flush=True)
            arguments = [
                text.format(photographs=options.directory, images=options.lists) for text in goal.arguments
            ]
            command = [sys.executable, "-m", f"bench.{goal.module}", *arguments]
            status = subprocess.run(command, env=environment, check=False).returncode
            failed = f"; FAILED with status {status}" if status else ""
            print(f"   {time.monotonic() - started:.0f} s{failed}", flush=True)
    print(f"all: {(time.monotonic() - began) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
