"""The CPU cores and the memory that a process may use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagehost_core._util.machine import (
    available_cores,
    available_memory,
    cpu_quota,
    is_cpu_grouped,
    memory_limit,
    usable_cores,
)
from imagehost_core.settings import RenderingSettings

V2_MOUNT = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
V1_MOUNT = "33 29 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct"


def quota(files: dict[str, str]) -> float | None:
    return cpu_quota(lambda path: files.get(str(path)))


def v2(path: str, quotas: dict[str, str], mount: str = V2_MOUNT) -> dict[str, str]:
    files = {"/proc/self/cgroup": f"0::{path}\n", "/proc/self/mountinfo": f"{mount}\n"}
    return files | {f"/sys/fs/cgroup{directory}/cpu.max": text for directory, text in quotas.items()}


def test_without_cgroup_files_there_is_no_quota() -> None:
    assert quota({}) is None
    assert quota({"/proc/self/cgroup": "0::/a\n"}) is None
    assert quota({"/proc/self/mountinfo": V2_MOUNT}) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200000 100000\n", 2.0),
        ("150000 100000\n", 1.5),
        ("max 100000\n", None),
        ("max\n", None),
        ("\n", None),
        ("0 100000\n", None),
        ("100000 0\n", None),
    ],
)
def test_the_quota_of_version_2_is_cpu_max(text: str, expected: float | None) -> None:
    assert quota(v2("/service", {"/service": text})) == expected


def test_the_least_quota_of_all_levels_holds() -> None:
    levels = {"/a/b/c": "max 100000", "/a/b": "300000 100000", "/a": "50000 10000"}
    assert quota(v2("/a/b/c", levels)) == 3
    assert quota(v2("/a/b/c", levels | {"/a": "5000 10000"})) == 0.5
    assert quota(v2("/a", levels)) == 5


def test_a_container_sees_its_own_cgroup_as_the_root_of_the_mount() -> None:
    mount = V2_MOUNT.replace(" / /sys", " /docker/1 /sys")
    assert quota(v2("/docker/1/task", {"/task": "100000 100000", "": "400000 100000"}, mount)) == 1
    # A path outside of the mounted part: only the mount itself can be read.
    assert quota(v2("/../2", {"": "400000 100000"}, mount)) == 4


@pytest.mark.parametrize(
    ("quota_us", "expected"), [("250000\n", 2.5), ("-1\n", None), ("", None), ("0\n", None)]
)
def test_the_quota_of_version_1_is_that_of_the_cpu_controller(quota_us: str, expected: float | None) -> None:
    directory = "/sys/fs/cgroup/cpu,cpuacct/jobs"
    files = {
        "/proc/self/cgroup": "4:memory:/jobs\n3:cpu,cpuacct:/jobs\n0::/jobs\n",
        "/proc/self/mountinfo": f"{V1_MOUNT.replace('cpu,', 'memory,')}\n{V1_MOUNT}\n",
        f"{directory}/cpu.cfs_quota_us": quota_us,
        f"{directory}/cpu.cfs_period_us": "100000\n",
        "/sys/fs/cgroup/memory,cpuacct/jobs/cpu.cfs_quota_us": "100000",
        "/sys/fs/cgroup/memory,cpuacct/jobs/cpu.cfs_period_us": "100000",
    }
    assert quota(files) == expected


@given(affinity=st.integers(1, 1_024), cpus=st.none() | st.floats(0.001, 2_000))
def test_the_cores_are_those_of_the_affinity_or_the_quota_rounded_up(
    affinity: int, cpus: float | None
) -> None:
    cores = usable_cores(affinity, cpus)
    assert 1 <= cores <= affinity
    assert cpus is None or cores == affinity or cpus <= cores < cpus + 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no CPU affinity")
def test_a_process_pinned_to_one_core_has_one_image_worker_by_default() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from imagehost_core.settings import RenderingSettings; print(RenderingSettings().processes)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert output == "1\n"


def test_the_default_number_of_image_workers_is_that_of_the_available_cores() -> None:
    assert RenderingSettings().processes == available_cores() >= 1


def test_unreadable_files_count_as_missing() -> None:
    def read(path: PurePosixPath) -> str | None:
        return {"cgroup": "0::/a", "mountinfo": V2_MOUNT}.get(path.name)

    assert cpu_quota(read) is None


@pytest.mark.parametrize(
    ("text", "expected"), [("1073741824\n", 2**30), ("max\n", None), ("", None), ("-1\n", None)]
)
def test_the_memory_is_limited_by_the_cgroups_of_both_versions(text: str, expected: int | None) -> None:
    mount = V1_MOUNT.replace("cpu,cpuacct", "memory")
    files = {
        "/proc/self/cgroup": "4:memory:/jobs\n3:cpu,cpuacct:/jobs\n0::/jobs\n",
        "/proc/self/mountinfo": f"{V1_MOUNT}\n{mount}\n{V2_MOUNT}\n",
    }
    for path in ("memory/jobs/memory.limit_in_bytes", "jobs/memory.max"):
        found = {**files, f"/sys/fs/cgroup/{path}": text}
        assert memory_limit(lambda name, found=found: found.get(str(name))) == expected  # type: ignore[misc]


def test_the_default_memory_of_image_work_is_half_of_what_is_available() -> None:
    assert RenderingSettings().memory_budget_bytes == available_memory() // 2 > 0


@pytest.mark.parametrize(
    ("weights", "autogroup", "expected"),
    [
        pytest.param(["/a/b", "/a"], None, True, id="a cgroup of its own: a systemd service, a container"),
        pytest.param(["/a"], "1", False, id="a cgroup shared with other programs"),
        pytest.param([], "1", True, id="its session"),
        pytest.param([], "0", False, id="autogroup is switched off"),
        pytest.param([], None, False, id="a kernel without autogroup"),
    ],
)
def test_niceness_counts_within_the_host_where_the_scheduler_groups_its_session_or_cgroup(
    weights: list[str], autogroup: str | None, expected: bool
) -> None:
    files = v2("/a/b", {}) | {f"/sys/fs/cgroup{directory}/cpu.weight": "100\n" for directory in weights}
    if autogroup is not None:
        files["/proc/sys/kernel/sched_autogroup_enabled"] = f"{autogroup}\n"
    assert is_cpu_grouped(lambda path: files.get(str(path))) == expected


def test_niceness_counts_against_other_programs_on_other_systems() -> None:
    assert not is_cpu_grouped(lambda _: None)
