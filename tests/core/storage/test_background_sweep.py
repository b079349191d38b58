"""Sweeps of a cache in the background: when they are started."""

from __future__ import annotations

import threading
from collections.abc import Callable

from imagehost_core.storage.cache.background_sweep import BackgroundSweep


def test_what_is_written_during_a_sweep_is_swept_after_it() -> None:
    started, released = threading.Event(), threading.Event()
    sweeps: list[int] = []

    def sweep(_is_stopped: Callable[[], bool]) -> None:
        sweeps.append(len(sweeps))
        started.set()
        assert released.wait(60)

    background = BackgroundSweep(sweep, limit_bytes=20)
    background.add(1)
    assert sweeps == [], "a twentieth of the limit may be written"
    background.add(1)
    assert started.wait(60)
    background.add(2)
    assert not background.may_write()
    released.set()
    background.wait()
    assert sweeps == [0, 1]
    assert background.may_write()
