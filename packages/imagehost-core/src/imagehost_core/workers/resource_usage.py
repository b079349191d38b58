"""The meter: what a worker has used since it was started, read from within its cage."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

from imagehost_core.workers.messages import ResourceUsage

if sys.platform != "win32":
    import resource

_PEAK = re.compile(rb"^VmHWM:\s*(\d+) kB$", re.MULTILINE)


class ResourceMeter:
    """Reads the memory and the time of this process; make it before the cage closes.

    Linux counts the largest size of a process in two places. `ru_maxrss` begins with that of the
    program which started it, in whose memory a new process lives at first; `VmHWM` does not, so the
    file that has it is opened here and kept open.
    """

    def __init__(self) -> None:
        status = Path("/proc/self/status")
        self._status = status.open("rb", buffering=0) if status.exists() else None

    def read(self) -> ResourceUsage:
        """Return what was used so far."""
        return ResourceUsage(self._peak_bytes(), time.process_time())

    def close(self) -> None:
        """Close the file."""
        if self._status is not None:
            self._status.close()

    def _peak_bytes(self) -> int:
        if self._status is not None:
            self._status.seek(0)
            found = _PEAK.search(self._status.read())
            return int(found[1]) * 1024 if found else 0
        if sys.platform == "win32":
            return 0
        else:  # noqa: RET505 - for mypy, which reads one branch per system
            # In bytes on macOS, in KiB elsewhere (getrusage(2) of each).
            unit = 1 if sys.platform == "darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
