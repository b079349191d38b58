"""`imagehost check` on machines that lack something: that is a line with what to change, and no failure.

`test_externally_managed_python` has the machine without a compiler.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.open_host import open_host
from tests.outside.deploy.programs.run_with_filter import HEADERS
from tests.waiting import PATIENCE

PROGRAMS = Path(__file__).parent / "programs"
LACKING = re.compile(r"landlock_\w+|seccomp")
"""System calls that old profiles of container engines refuse."""
Checks = dict[str, dict[str, str]]


def check(data: Path, *prefix: str) -> Checks:
    """Return the lines of the command by their names, run with nothing in the environment."""
    command = [*prefix, sys.executable, "-m", "imagehost_server", "check", "--data", str(data), "--json"]
    done = subprocess.run(
        command, env={}, cwd="/", capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {each["name"]: each for each in json.loads(done.stdout)["checks"]}


def require_advice(checks: Checks) -> None:
    """Assert that nothing has failed, and that each warning says what to change."""
    assert {each["state"] for each in checks.values()} <= {"ok", "warning"}
    assert all(each["advice"] for each in checks.values() if each["state"] == "warning")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a host that is closed."""
    open_host(tmp_path / "data").close()
    return tmp_path / "data"


def test_a_bare_machine_has_all_that_is_needed(data: Path) -> None:
    """It has no network, no shared memory, no other process, and no program but Python."""
    namespaces = ["unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc"]
    if os.geteuid() != 0 or subprocess.run([*namespaces, "true"], check=False).returncode:
        pytest.skip("NOT TESTED: a bare machine, which needs root and namespaces")
    without = 'mount --bind /proc/self /dev/shm && exec env --ignore-environment "$@"'
    checks = check(data, "/usr/bin/unshare", *namespaces[1:], "/bin/sh", "-c", without, "sh")
    require_advice(checks)
    assert checks["image workers"]["state"] == "ok"


def test_in_a_container_that_refuses_sandboxes_the_measures_are_named(data: Path) -> None:
    header = Path(HEADERS[platform.machine()])
    if not header.exists():
        pytest.skip("NOT TESTED: a container that refuses system calls, because the C headers are missing")
    names = re.findall(r"#define __NR_(\w+)", header.read_text(encoding="ascii"))
    allowed = ",".join(name for name in names if not LACKING.fullmatch(name))
    checks = check(data, sys.executable, str(PROGRAMS / "run_with_filter.py"), allowed)
    require_advice(checks)
    assert checks["landlock"]["state"] == "warning"
    assert "container" in checks["landlock"]["advice"]
    assert checks["image workers"]["state"] == "ok"
