"""A host on a machine of 1 GiB: uploads that ask for much more end with an error, and nothing is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytestmark = [pytest.mark.faults, pytest.mark.skipif(sys.platform != "linux", reason="needs cgroups")]

LIMIT_BYTES = 2**30
VERSIONS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.oom_control"),
    (Path("/sys/fs/cgroup"), "memory.max", "memory.events"),
)
"""The directory of each version of cgroups, the file of the limit, and the one that counts kills."""

PROGRAM = """
import io, json, os, sys, threading
from pathlib import Path

Path(sys.argv[1]).write_text(str(os.getpid()))
from imagehost_core import ImageHost, ImageHostError, Settings
from imagehost_core.settings import RenderingSettings
from imagehost_core.observer import WorkerExited
from PIL import Image
from tests.hostile_files import animated_webp

outcomes, exits = [], []
file = io.BytesIO()
Image.effect_noise((4_000, 3_000), 60).convert("RGB").save(file, "JPEG")
photograph = file.getvalue()
file = io.BytesIO()
noise = Image.effect_noise((6_000, 4_000), 20)
image = Image.merge("RGB", [noise, noise.transpose(Image.Transpose.ROTATE_180), noise])
image.save(file, "JPEG", quality=85)
large_photograph = file.getvalue()
del noise, image, file
files = [animated_webp(9_000, 1)(0)] * 4 + [animated_webp(3_600, 1)(0)] * 4 + [photograph] * 6
files += [large_photograph] * 2

def observe(measurement):
    if isinstance(measurement, WorkerExited):
        exits.append(measurement.cause)

settings = Settings(rendering=RenderingSettings(ingest_timeout_seconds=600, render_timeout_seconds=600))
with ImageHost.open(":memory:", settings=settings, observe=observe) as host:
    def upload(file):
        try:
            image = host.upload(file, owner="admin")
            if file is large_photograph:
                host.render(image.id, "w=1200")
            outcomes.append("stored")
        except ImageHostError as error:
            outcomes.append(error.code)
    threads = [threading.Thread(target=upload, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    budget = host.settings.rendering.memory_budget_bytes
print(json.dumps([budget, sorted(outcomes), exits]))
"""


@pytest.fixture
def cgroup() -> Iterator[tuple[Path, Path]]:
    """A cgroup of 1 GiB: its directory, and the file that counts what the kernel has killed in it."""
    for root, limit, kills in VERSIONS:
        directory = root / f"imagehost-test-{os.getpid()}"
        with suppress(OSError):
            directory.mkdir()
            try:
                (directory / limit).write_text(str(LIMIT_BYTES), encoding="ascii")
                yield directory / "cgroup.procs", directory / kills
                return
            finally:
                directory.rmdir()
    pytest.skip("NOT TESTED: needs root and a memory controller")


def test_on_a_machine_of_one_gib_nothing_is_killed_by_the_kernel(cgroup: tuple[Path, Path]) -> None:
    processes, kills = cgroup
    command = [sys.executable, "-c", PROGRAM, str(processes)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    budget, outcomes, exits = json.loads(output)
    assert budget == LIMIT_BYTES // 2
    assert outcomes.count("VALIDATION_ERROR") == 4
    assert outcomes.count("stored") == 12
    assert set(exits) <= {"ended"}
    assert dict(line.split() for line in kills.read_text(encoding="ascii").splitlines())["oom_kill"] == "0"
