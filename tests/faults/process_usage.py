"""Memory and file descriptors of the processes of a server, read from /proc, and how they change."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean, linear_regression
from time import monotonic

from attrs import define, field, frozen
from tests.server_processes import IMAGE_WORKER

MIB = 2**20
WINDOW_SECONDS = 120.0
"""Seconds of the windows whose minima `fit_slope` takes: requests in progress only add to a process."""
MIN_WINDOWS = 3


@frozen
class ProcessUsage:
    """What a process uses.

    Attributes:
        pid: Its ID.
        role: `supervisor`, `server process` or `image worker`.
        memory: Bytes of anonymous and shared memory, pages of several processes in equal parts. Pages of
            files are left out: other programs map the same libraries, and the kernel can drop them.
        pss: Bytes of the proportional set size, which includes them.
        descriptors: The number of its open file descriptors.
    """

    pid: int
    role: str
    memory: int
    pss: int
    descriptors: int


def read_usage(supervisor: int) -> list[ProcessUsage]:
    """Return the usage of a supervisor and all of its descendants; processes that exit are left out.

    Args:
        supervisor: The ID of the process.
    """
    usage, waiting = [], [(supervisor, "supervisor")]
    while waiting:
        pid, role = waiting.pop()
        directory = Path(f"/proc/{pid}")
        try:
            sizes = dict(
                re.findall(r"^(\w+): +(\d+) kB", (directory / "smaps_rollup").read_text(), re.MULTILINE)
            )
            memory = 1024 * (int(sizes["Pss_Anon"]) + int(sizes["Pss_Shmem"]))
            descriptors = sum(1 for _ in (directory / "fd").iterdir())
            children = [int(child) for task in (directory / "task").iterdir() for child in _children(task)]
        except (OSError, KeyError):
            continue
        usage.append(ProcessUsage(pid, role, memory, 1024 * int(sizes["Pss"]), descriptors))
        waiting += [(child, _role_of(child)) for child in children]
    return usage


def _children(task: Path) -> list[str]:
    return (task / "children").read_text(encoding="ascii").split()


def _role_of(pid: int) -> str:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "image worker"
    return "image worker" if IMAGE_WORKER in command else "server process"


def pids_of(usage: Iterable[ProcessUsage], role: str) -> list[int]:
    """Return the process IDs of a role."""
    return [process.pid for process in usage if process.role == role]


def count_descriptors(usage: Iterable[ProcessUsage]) -> Counter[str]:
    """Return the number of descriptors of all processes of each role but image workers, which come and go."""
    counts: Counter[str] = Counter()
    for process in usage:
        if process.role != "image worker":
            counts[process.role] += process.descriptors
    return counts


def fit_slope(samples: Mapping[float, float], window: float = WINDOW_SECONDS) -> float:
    """Return the slope of the line through the minima of all windows by least squares, per second.

    Args:
        samples: Values by time in seconds.
        window: Seconds of a window.

    Raises:
        ValueError: There are fewer than `MIN_WINDOWS` windows.
    """
    minima: dict[int, tuple[float, float]] = {}
    for time, value in samples.items():
        number = int(time // window)
        minima[number] = min(minima.get(number, (value, time)), (value, time))
    if len(minima) < MIN_WINDOWS:
        raise ValueError(f"expected {MIN_WINDOWS} windows for a slope but received {len(minima)}")
    values, times = zip(*minima.values(), strict=True)
    return linear_regression(times, values).slope


@define
class UsageLog:
    """The usage of a server's processes over time.

    Attributes:
        memory: Bytes by time in seconds, for each process that is no image worker and for the mean of those,
            whose number depends on the requests.
        descriptors: The same, of descriptors.
    """

    memory: dict[str, dict[float, float]] = field(factory=lambda: defaultdict(dict))
    descriptors: dict[str, dict[float, float]] = field(factory=lambda: defaultdict(dict))

    def add(self, usage: Iterable[ProcessUsage]) -> None:
        """Add a sample of the present."""
        now = monotonic()
        by_name: dict[str, list[ProcessUsage]] = defaultdict(list)
        for process in usage:
            is_worker = process.role == "image worker"
            by_name["image worker" if is_worker else f"{process.role} {process.pid}"].append(process)
        for name, processes in by_name.items():
            self.memory[name][now] = fmean(process.memory for process in processes)
            self.descriptors[name][now] = fmean(process.descriptors for process in processes)

    def slopes(self) -> dict[str, float]:
        """Return the slope of the memory of each process that ran long enough, in MiB per hour."""
        return {name: slope / MIB for name, slope in _hourly_slopes(self.memory).items()}

    def descriptor_slopes(self) -> dict[str, float]:
        """Return the slope of the descriptors of each process that ran long enough, per hour."""
        return _hourly_slopes(self.descriptors)


def _hourly_slopes(samples: Mapping[str, Mapping[float, float]]) -> dict[str, float]:
    long_enough = {name: values for name, values in samples.items() if _windows(values) >= MIN_WINDOWS}
    return {name: 3_600 * fit_slope(values) for name, values in long_enough.items()}


def _windows(samples: Mapping[float, float]) -> int:
    return len({int(time // WINDOW_SECONDS) for time in samples})
