"""Waiting for programs, threads and servers, with one bound, as no test depends on the speed of a machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 600.0
"""The longest time to wait for what happens unless something is wrong, in seconds: a busy machine takes a
hundred times as long as a quiet one."""


def wait_until(condition: Callable[[], T | None]) -> T:
    """Wait until a condition is true; return its value."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"expected it to become true but it is {value!r}"
        time.sleep(0.01)
    return value


async def until(condition: Callable[[], T | None]) -> T:
    """Wait until a condition is true, and let other tasks run meanwhile; return its value."""
    async with asyncio.timeout(PATIENCE):
        while not (value := condition()):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    return value
