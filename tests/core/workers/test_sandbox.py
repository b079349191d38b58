"""Tests of the sandbox: each measure denies something that works without it."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from imagehost_core.sandbox import SandboxLimits, SandboxStatus, enter_sandbox, landlock, seccomp
from imagehost_core.sandbox import _libc as libc
from imagehost_core.workers.executor import ImageExecutor

RunTask = Callable[[ImageExecutor, str], str]
MakeExecutor = Callable[..., ImageExecutor]

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these measures")
OPEN = SandboxLimits(file_bytes=0, open_files=0, landlock=False, seccomp=False)
"""Limits that deny nothing, to show what happens without a measure."""


def has_landlock(abi_version: int) -> bool:
    try:
        return landlock.abi_version() >= abi_version
    except OSError:
        return False


def run_in_thread(action: Callable[[], object]) -> object:
    """Run an action in a new thread, which it may sandbox; return its result or its exception."""
    results: list[object] = []

    def run() -> None:
        try:
            results.append(action())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return results[0]


ESCAPES = [
    # An action of an exploited decoder, its result without the sandbox, and its result within.
    ("open_to_read", "7f454c46", "EPERM"),
    ("open_to_write", "written", "EPERM"),
    ("listen", "bound", "EPERM"),
    ("fork", "forked", "EPERM"),
    ("execute", "run", "EPERM"),
    ("signal_parent", "signalled", "EPERM"),
]


@linux
def test_the_sandbox_denies_what_works_without_it(make_executor: MakeExecutor, run_task: RunTask) -> None:
    unrestricted = make_executor(limits=OPEN)
    sandboxed = make_executor()
    for action, without, within in ESCAPES:
        assert run_task(unrestricted, action) == without, action
        assert run_task(sandboxed, action) == within, action


@linux
@pytest.mark.skipif(not has_landlock(1), reason="this kernel has no Landlock")
def test_landlock_alone_denies_access_to_the_file_system(
    make_executor: MakeExecutor, run_task: RunTask
) -> None:
    executor = make_executor(limits=SandboxLimits(seccomp=False))
    assert run_task(executor, "open_to_read") == "EACCES"
    assert run_task(executor, "open_to_write") == "EACCES"
    assert run_task(executor, "listen") == ("EACCES" if has_landlock(4) else "bound")
    assert run_task(executor, "signal_parent") == ("EPERM" if has_landlock(6) else "signalled")


@linux
def test_a_limit_cannot_be_raised_again(make_executor: MakeExecutor, run_task: RunTask) -> None:
    assert run_task(make_executor(), "raise_limit") == "not allowed to raise maximum limit"


@linux
def test_threads_can_be_started_in_the_sandbox(executor: ImageExecutor, run_task: RunTask) -> None:
    assert run_task(executor, "thread") == "threaded"


def test_a_worker_process_does_not_inherit_the_environment(
    executor: ImageExecutor, run_task: RunTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAGEHOST_SECRET", "s3cret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/somewhere/lib")
    names = set(run_task(executor, "environment").split(","))
    own = {"MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}
    assert names <= own | {"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "LC_CTYPE"}
    assert "LD_LIBRARY_PATH" in names
    assert run_task(executor, "isolated") == "True"


@linux
def test_a_worker_process_has_no_other_descriptors_than_its_pipes_and_files(
    executor: ImageExecutor, run_task: RunTask
) -> None:
    with Path(os.devnull).open() as file:
        os.set_inheritable(file.fileno(), True)
        # /dev/null, standard error twice, the two pipes, and /proc/self/status.
        assert run_task(executor, "open_descriptors") == "6"


@linux
def test_the_status_names_every_measure(executor: ImageExecutor) -> None:
    status = executor.status()
    names = {"oom_score", "RLIMIT_CORE", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE"}
    assert {*status.applied, *status.unavailable} == names | {"no_new_privs", "landlock", "seccomp"}
    assert names | {"no_new_privs"} <= set(status.applied)


def test_measures_that_are_disabled_are_not_named(make_executor: MakeExecutor) -> None:
    status = make_executor(limits=SandboxLimits(0, 0, 0, 0, 0, 0, landlock=False, seccomp=False)).status()
    assert {*status.applied, *status.unavailable} == {"RLIMIT_CORE", "no_new_privs"}


@linux
def test_a_sandbox_without_a_measure_is_logged_once(
    make_executor: MakeExecutor, run_task: RunTask, caplog: pytest.LogCaptureFixture
) -> None:
    # The kernel refuses a score above 1000.
    executor = make_executor(limits=SandboxLimits(oom_score=1_001))
    for _ in range(2):
        run_task(executor, "isolated")
    [message] = [record.getMessage() for record in caplog.records if "sandbox" in record.getMessage()]
    assert "oom_score" in message


@linux
def test_a_measure_that_the_system_lacks_is_named_with_the_reason_and_the_others_are_applied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    limits = SandboxLimits(0, 0, 0, 0, 0, 0, landlock=False)
    status = run_in_thread(lambda: enter_sandbox(limits))
    assert isinstance(status, SandboxStatus)
    assert status.unavailable == {"seccomp": "no list of system calls for vax"}
    assert status.applied == ("RLIMIT_CORE", "no_new_privs")


@linux
@pytest.mark.skipif(not has_landlock(1), reason="this kernel has no Landlock")
def test_landlock_applies_to_the_calling_thread_only() -> None:
    def action() -> bytes:
        libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1)
        landlock.restrict()
        return Path(__file__).read_bytes()

    assert isinstance(run_in_thread(action), PermissionError)
    assert Path(__file__).read_bytes()


@linux
def test_seccomp_applies_to_the_calling_thread_only() -> None:
    def action() -> socket.socket:
        enter_sandbox(SandboxLimits(0, 0, 0, 0, 0, 0, landlock=False))
        return socket.socket()

    assert isinstance(run_in_thread(action), PermissionError)
    socket.socket().close()


@linux
def test_a_call_that_fails_raises_the_error_of_the_kernel() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        libc.prctl(-1)


@linux
def test_the_structures_have_the_sizes_of_the_kernel() -> None:
    structures = (landlock.RulesetAttr, seccomp.SockFilter, seccomp.SockFprog)
    assert [ctypes.sizeof(structure) for structure in structures] == [24, 8, 16]


@pytest.mark.parametrize(
    "invalid",
    [
        {"memory_bytes": -1},
        {"cpu_seconds": 1},
        {"task_cpu_seconds": -1},
        {"file_bytes": -1},
        {"open_files": -1},
        {"oom_score": -1},
    ],
)
def test_invalid_limits_are_rejected(invalid: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must|None of"):
        SandboxLimits(**invalid)  # type: ignore[arg-type]


LIMITED = """
import os, resource, sys
from pathlib import Path
from imagehost_core.sandbox import SandboxLimits, enter_sandbox
status = enter_sandbox(SandboxLimits({limits}, landlock=False, seccomp=False))
score = Path("/proc/self/oom_score_adj").read_text().strip()
print(resource.getrlimit(resource.{name}), score, "{name}" in status.applied)
{then}
"""


@linux
@pytest.mark.parametrize(
    ("limits", "name", "expected"),
    [
        ("memory_bytes=2**33", "RLIMIT_AS", (2**33, 2**33)),
        ("cpu_seconds=50", "RLIMIT_CPU", (49, 50)),
        ("file_bytes=2**30", "RLIMIT_FSIZE", (2**30, 2**30)),
        ("open_files=128", "RLIMIT_NOFILE", (128, 128)),
        ("", "RLIMIT_CORE", (0, 0)),
    ],
)
def test_each_limit_is_set_as_soft_and_hard_limit(limits: str, name: str, expected: tuple[int, int]) -> None:
    unlimited = ["memory_bytes=0", "cpu_seconds=0", "file_bytes=0", "open_files=0"]
    others = [word for word in unlimited if word.split("=")[0] not in limits]
    script = LIMITED.format(limits=", ".join([*others, limits or "oom_score=800"]), name=name, then="")
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert completed.stdout.strip() == f"{expected} 800 True"


@linux
def test_a_limit_that_is_in_force_already_is_not_raised() -> None:
    before = "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))"
    script = (
        "import resource; "
        + before
        + LIMITED.format(limits="open_files=200, file_bytes=0", name="RLIMIT_NOFILE", then="")
    )
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert completed.stdout.strip() == "(100, 100) 800 True"


@linux
def test_a_process_beyond_its_cpu_limit_is_killed_without_a_watchdog() -> None:
    limits = "cpu_seconds=2, file_bytes=0"
    script = LIMITED.format(limits=limits, name="RLIMIT_CPU", then="while True: pass")
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert completed.returncode == -signal.SIGXCPU
