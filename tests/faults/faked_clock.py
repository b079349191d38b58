"""Processes whose clock is wrong, by libfaketime."""

from __future__ import annotations

from pathlib import Path

import pytest

SITE = """
import select
import time

# CPython sleeps until a time of the monotonic clock. With FAKETIME_DONT_FAKE_MONOTONIC, clock_nanosleep(2) of
# libfaketime 0.9.10 fails with EINVAL then.
time.sleep = lambda seconds: (select.select([], [], [], seconds), None)[1]
"""
"""A module that Python imports when it starts."""


def clock_variables(directory: Path, **variables: str) -> dict[str, str]:
    """Return the environment variables of a process with a wrong clock; skip the test without libfaketime.

    The monotonic clock, from which timeouts are counted, stays right.

    Args:
        directory: A directory for a module that the process imports.
        variables: The variables of libfaketime that set the clock.
    """
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
    if library is None:
        pytest.skip("NOT TESTED: wrong clocks, because faketime is not installed")
    site = directory / "faked_clock"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE, encoding="utf-8")
    return {
        "LD_PRELOAD": str(library),
        "PYTHONPATH": str(site),
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        **variables,
    }


def clock_file_variables(directory: Path, clock: Path) -> dict[str, str]:
    """Return the variables of a process whose clock is set by a file, which it reads every second."""
    return clock_variables(directory, FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_CACHE_DURATION="1")
