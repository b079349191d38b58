"""Measurement of the memory and the CPU time of a worker process, from within its sandbox."""

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
    """A reader of this process's peak memory and CPU time; create it before entering the sandbox.

    Linux reports the peak resident size in two places. `ru_maxrss` starts with the value of the parent,
    whose memory a new process shares before exec; `VmHWM` does not, so its file is kept open from here on.
    """

    def __init__(self) -> None:
        status = Path("/proc/self/status")
        self._status = status.open("rb", buffering=0) if status.exists() else None

    def read(self) -> ResourceUsage:
        """Return the usage since the start of the process."""
        return ResourceUsage(self._peak_bytes(), time.process_time())

    def close(self) -> None:
        """Close the status file."""
        if self._status is not None:
            self._status.close()

    def _peak_bytes(self) -> int:
        if self._status is not None:
            self._status.seek(0)
            match = _PEAK.search(self._status.read())
            return int(match[1]) * 1024 if match else 0
        if sys.platform == "win32":
            return 0
        else:  # noqa: RET505 - for mypy, which reads one branch per system
            # In bytes on macOS, in KiB elsewhere (getrusage(2) of each).
            unit = 1 if sys.platform == "darwin" else 1024
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
