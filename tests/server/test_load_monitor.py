"""The load of a server process in its metrics: the lag of its event loop, and its threads in use."""

from __future__ import annotations

import asyncio
import threading
import time

import anyio.lowlevel
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from imagehost_core.settings import RenderingSettings
from imagehost_server._executors import Executors, Standing
from imagehost_server.background.load_monitor import monitored_load
from imagehost_server.metrics import HostCollector, Recorder

INTERVAL = 0.001
BLOCKED_SECONDS = 0.02


def samples(recorder: Recorder) -> dict[str, float]:
    """Return the values of the samples of the load, by name or by the label."""
    text = generate_latest(HostCollector(recorder)).decode()
    return {
        sample.labels.get("work", sample.name): sample.value
        for family in text_string_to_metric_families(text)
        if family.name in ("imagehost_event_loop_lag_seconds", "imagehost_threads_in_use")
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


async def measure_again(recorder: Recorder, more: int = 2) -> dict[str, float]:
    """Return the samples after further measurements."""
    before = samples(recorder)["imagehost_event_loop_lag_seconds_count"]
    while (found := samples(recorder))["imagehost_event_loop_lag_seconds_count"] < before + more:
        await anyio.lowlevel.checkpoint()
    return found


@pytest.mark.anyio
async def test_the_metrics_show_threads_in_use_and_how_late_a_blocked_event_loop_is() -> None:
    recorder, release = Recorder(), threading.Event()
    executors = Executors(RenderingSettings(processes=1))
    async with monitored_load(executors, recorder, INTERVAL), asyncio.TaskGroup() as tasks:
        tasks.create_task(executors.database.run(release.wait))
        tasks.create_task(executors.passwords.run(Standing.NEW, ("account", "client"), release.wait))
        found = await measure_again(recorder)
        assert (found["database"], found["passwords"], found["files"]) == (1, 1, 0)
        release.set()
        # The loop does nothing else meanwhile, as with a computation on it.
        time.sleep(BLOCKED_SECONDS)  # noqa: ASYNC251 - what is tested
        late = await measure_again(recorder)
        lag = late["imagehost_event_loop_lag_seconds_sum"] - found["imagehost_event_loop_lag_seconds_sum"]
        assert lag >= BLOCKED_SECONDS - INTERVAL
    recorder.load(0, executors.threads_in_use())
    assert samples(recorder)["database"] == 0
