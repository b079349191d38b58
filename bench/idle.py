"""Measure an idle server: its processes, the memory of each, and how often they wake up.

    python -m bench.idle [--seconds 10]

Memory is the proportional set size: pages that several processes share count once in all. A wake-up is a
voluntary context switch of any thread: it had waited for something, and the something came.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.peers import UNLIMITED, descendants, machine

from imagehost_server.testing import running

MIB = 2**20
SETTLE_SECONDS = 20.0
"""Time after the start until the first cleanup is done and the webhook sender polls slowly."""


def role(pid: int) -> str:
    """Return what a process does. Server processes are forks of the supervisor, with its command line."""
    status = Path(f"/proc/{pid}/status").read_text()
    parent = re.search(r"^PPid:\s+(\d+)", status, re.MULTILINE)
    if "imagehost_core.workers.main" in command(pid):
        return "image worker"
    return "server" if parent and command(int(parent[1])) == command(pid) else "supervisor"


def command(pid: int) -> str:
    """Return the command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")


def pss_bytes(pid: int) -> int:
    """Return the proportional set size of a process."""
    match = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    return int(match[1]) * 1024 if match else 0


def wake_ups(pid: int) -> int:
    """Return the number of voluntary context switches of all threads of a process."""
    texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(
        int(count) for text in texts for count in re.findall(r"\nvoluntary_ctxt_switches:\s+(\d+)", text)
    )


def measure(title: str, seconds: float, flags: Sequence[str] = (), processes: int | None = None) -> None:
    """Run a server, leave it alone, and print the figures of its processes.

    Args:
        title: What is measured.
        seconds: How long to count wake-ups.
        flags: Flags of `imagehost serve`.
        processes: Number of image workers; by default that of cores.
    """
    variables = UNLIMITED | {"IMAGEHOST_WEBHOOKS_SEND_IN_SERVER": "true"}
    if processes is not None:
        variables["IMAGEHOST_RENDERING_PROCESSES"] = str(processes)
    with (
        tempfile.TemporaryDirectory() as name,
        running(Path(name) / "data", *flags, variables=variables) as server,
    ):
        time.sleep(SETTLE_SECONDS)
        pids = [server.process.pid, *descendants(server.process.pid)]
        before = {pid: wake_ups(pid) for pid in pids}
        time.sleep(seconds)
        rates = {pid: (wake_ups(pid) - before[pid]) / seconds for pid in pids}
        memory = {pid: pss_bytes(pid) / MIB for pid in pids}
        roles = {pid: role(pid) for pid in pids}
    print(f"{title}: {len(pids)} processes")
    for name in (*dict.fromkeys(roles.values()), "total"):
        group = [pid for pid in pids if name in (roles[pid], "total")]
        total, wakes = sum(memory[pid] for pid in group), sum(rates[pid] for pid in group)
        print(f"  {len(group):3} × {name:<13} {total:8.1f} MiB {wakes:6.1f} wake-ups/s")


def main() -> None:
    """Measure one server process, then four with sixteen image workers allowed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    print(machine())
    measure("1 server process", options.seconds)
    measure(
        "4 server processes, 16 image workers allowed",
        options.seconds,
        ("--workers", "4"),
        processes=16,
    )


if __name__ == "__main__":
    main()
