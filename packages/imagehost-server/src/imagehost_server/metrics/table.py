"""The table of metrics: memory that all processes of a server map, with a slot for each process.

A process counts in its own slot, without a lock or a system call, so that a count takes 0.1 µs. The metrics
are the sums over all slots. A process that dies leaves its slot as it is, and the process that replaces it
goes on from there: nothing is lost when a process is killed, no counter goes backwards, and no file is left.
The table ends with the server, and Prometheus takes the next one for a restart of the counters.

A slot is taken by a record lock (fcntl(2)) on one byte, which the operating system releases with the process.

Layout of a slot: a header of four words (process id, number of series, kind of process, unused); then the
directory with the position, the width and the key of each series; then the values as 64-bit floats; then the
latest errors (`imagehost_server.metrics.recent_errors`). A series is registered by one write of the number of
series, so that readers need no lock.
"""

from __future__ import annotations

import mmap
import os
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator

from attrs import frozen

from imagehost_server.metrics.families import FAMILIES, Family, Kind
from imagehost_server.metrics.recent_errors import RINGS_BYTES, RecentError, RecentErrors

if sys.platform != "win32":
    import fcntl

MAX_SERIES = 2_048
"""Series of a process. All routes with all their statuses are about 500."""
MAX_VALUES = 16_384
_KEY_BYTES = 184
_ENTRY = struct.Struct(f"=II{_KEY_BYTES}s")
_HEADER_BYTES = 4 * 8
_VALUES_OFFSET = _HEADER_BYTES + MAX_SERIES * _ENTRY.size
_ERRORS_OFFSET = _VALUES_OFFSET + MAX_VALUES * 8
SLOT_BYTES = _ERRORS_OFFSET + RINGS_BYTES
_PID, _COUNT, _ROLE = 0, 1, 2
"""The words of the header."""
ROLES = ("", "server", "webhook_sender")
"""The kinds of processes; a slot has the index of its own."""
_SEPARATOR = "\x1f"
SPARE_SLOTS = 4

SeriesKey = tuple[str, ...]
"""The name of a family and the values of its labels."""


@frozen
class Process:
    """A process that has a slot.

    Attributes:
        name: The kind of process; of server processes, with the number of the slot.
        pid: The process id.
    """

    name: str
    pid: int


def slots_for(workers: int) -> int:
    """Return the number of slots that a server needs: SIGHUP has each server process twice for a while."""
    return 2 * workers + SPARE_SLOTS


def create_table_file(slots: int) -> int:
    """Return the descriptor of a new table for the processes of a server, without a name.

    In memory where the system has such files; pages that no process uses take none.
    """
    if hasattr(os, "memfd_create"):
        descriptor: int = os.memfd_create("imagehost-metrics")
        os.ftruncate(descriptor, slots * SLOT_BYTES)
        return descriptor
    with tempfile.TemporaryFile() as file:
        # Written, not only extended: touching a mapped page of a sparse file on a full disk is fatal.
        file.write(bytes(slots * SLOT_BYTES))
        file.flush()
        return os.dup(file.fileno())


class MetricTable:
    """The table of metrics, with the slot of this process.

    Args:
        descriptor: The descriptor from `create_table_file`; without it, the table has one slot in the memory
            of this process.
        role: One of `ROLES`.
    """

    def __init__(self, descriptor: int | None = None, role: str = "server") -> None:
        size = SLOT_BYTES if descriptor is None else os.fstat(descriptor).st_size
        self._map = mmap.mmap(-1 if descriptor is None else descriptor, size)
        self._slots = [_Slot(self._map, index * SLOT_BYTES) for index in range(size // SLOT_BYTES)]
        self._positions: dict[SeriesKey, int] = {}
        self._lock = threading.Lock()
        self._own = self._claim(descriptor, role)
        self.values: memoryview[float] = self._own.values
        """The values of this process's series, to be changed in place."""
        self.errors: RecentErrors = self._own.errors
        """The latest errors of this process."""

    def series(self, family: Family, *labels: str) -> int:
        """Return the position of a series' first value in `values`; register it if it is new.

        Args:
            family: The family.
            labels: The values of its labels. The caller bounds their number.
        """
        key = (family.name, *labels)
        position = self._positions.get(key)
        if position is None:
            with self._lock:
                position = self._positions.get(key)
                if position is None:
                    position = self._positions[key] = self._own.append(key, family.width)
        return position

    def totals(self) -> dict[SeriesKey, list[float]]:
        """Return the values of each series over all slots: sums, or of `Kind.LATEST` the last one."""
        totals: dict[SeriesKey, list[float]] = {}
        for slot in self._slots:
            for key, position, width in slot.series():
                values = list(slot.values[position : position + width])
                total = totals.setdefault(key, [0.0] * width)
                if FAMILIES[key[0]].kind is Kind.LATEST:
                    totals[key] = max(total, values)
                else:
                    totals[key] = [one + other for one, other in zip(total, values, strict=True)]
        return totals

    def recent_errors(self, count: int) -> list[RecentError]:
        """Return at most so many of the latest errors of all processes, the newest first."""
        errors = [error for slot in self._slots for error in slot.errors]
        return sorted(errors, key=lambda error: error.at, reverse=True)[:count]

    def processes(self) -> Iterator[Process]:
        """Yield the processes that have claimed a slot last; some may have died."""
        for index, slot in enumerate(self._slots):
            role = ROLES[slot.header[_ROLE]]
            if role:
                yield Process(f"{role}-{index}" if role == "server" else role, slot.header[_PID])

    def _claim(self, descriptor: int | None, role: str) -> _Slot:
        """Return the first slot that no process uses; end the gauges of all such slots.

        Raises:
            OSError: All slots are in use.
        """
        free = [
            index for index in range(len(self._slots)) if descriptor is None or _try_lock(descriptor, index)
        ]
        for index in free:
            self._slots[index].clear()
        if not free:
            raise OSError(f"expected a free slot of {len(self._slots)} for the metrics of this process")
        for index in free[1:]:
            if descriptor is not None:
                _unlock(descriptor, index)
        own = self._slots[free[0]]
        self._positions = {key: position for key, position, _ in own.series()}
        own.header[_PID], own.header[_ROLE] = os.getpid(), ROLES.index(role)
        return own


class _Slot:
    """The view of a slot in the mapped memory."""

    def __init__(self, memory: mmap.mmap, start: int) -> None:
        self._memory, self._start = memory, start
        view = memoryview(memory)
        self.header = view[start : start + _HEADER_BYTES].cast("Q")
        self.values = view[start + _VALUES_OFFSET : start + _ERRORS_OFFSET].cast("d")
        self.errors = RecentErrors(view[start + _ERRORS_OFFSET : start + SLOT_BYTES])

    def series(self) -> Iterator[tuple[SeriesKey, int, int]]:
        """Yield key, position and width of each series."""
        for index in range(self.header[_COUNT]):
            position, width, key = _ENTRY.unpack_from(self._memory, self._entry(index))
            yield tuple(key.rstrip(b"\0").decode().split(_SEPARATOR)), position, width

    def append(self, key: SeriesKey, width: int) -> int:
        """Register a series; return its position.

        Raises:
            OverflowError: The slot is full.
        """
        count, position = self.header[_COUNT], 0
        if count:
            last, last_width, _ = _ENTRY.unpack_from(self._memory, self._entry(count - 1))
            position = last + last_width
        encoded = _SEPARATOR.join(key).encode()
        if count >= MAX_SERIES or position + width > MAX_VALUES or len(encoded) > _KEY_BYTES:
            raise OverflowError(f"expected space for the series {key} in {count} of {MAX_SERIES}")
        _ENTRY.pack_into(self._memory, self._entry(count), position, width, encoded)
        self.header[_COUNT] = count + 1
        return position

    def clear(self) -> None:
        """Set the gauges to 0: what they describe has ended with the process."""
        self.header[_PID], self.header[_ROLE] = 0, 0
        for key, position, _ in self.series():
            if FAMILIES[key[0]].kind is Kind.GAUGE:
                self.values[position] = 0.0

    def _entry(self, index: int) -> int:
        return self._start + _HEADER_BYTES + index * _ENTRY.size


if sys.platform == "win32":

    def _try_lock(_descriptor: int, _index: int) -> bool:
        """Return True: there, one process serves."""
        return True

    def _unlock(_descriptor: int, _index: int) -> None:
        """Do nothing."""
else:

    def _try_lock(descriptor: int, index: int) -> bool:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, index)
        except OSError:
            return False
        return True

    def _unlock(descriptor: int, index: int) -> None:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, index)
