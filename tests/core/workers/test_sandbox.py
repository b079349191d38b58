"""A worker can compute, and hardly anything else; each measure of its cage is shown at work."""

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

from imagehost_core.sandbox import _libc as kernel
from imagehost_core.sandbox import enter as cage
from imagehost_core.sandbox import landlock
from imagehost_core.workers import ImageExecutor, SandboxLimits

Ask = Callable[[ImageExecutor, str], str]
MakePool = Callable[..., ImageExecutor]

linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux has these measures")
OPEN = SandboxLimits(file_bytes=0, open_files=0, landlock=False, seccomp=False)
"""A cage whose doors stand open, to show what happens without a measure."""


def has_landlock(spoken: int) -> bool:
    try:
        return landlock.version() >= spoken
    except OSError:
        return False


def confined(act: Callable[[], object]) -> object:
    """Return what comes of an act on a thread of its own, which may be confined for good."""
    came: list[object] = []

    def run() -> None:
        try:
            came.append(act())
        except BaseException as error:
            came.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return came[0]


ESCAPES = [
    # What a decoder does that was taken over, what comes of it in the open, and in the cage.
    ("open_to_read", "7f454c46", "EPERM"),
    ("open_to_write", "written", "EPERM"),
    ("listen", "bound", "EPERM"),
    ("fork", "forked", "EPERM"),
    ("execute", "run", "EPERM"),
    ("signal_parent", "signalled", "EPERM"),
]


@linux
@pytest.mark.parametrize(("act", "in_the_open", "caged"), ESCAPES)
def test_the_cage_takes_away_what_works_without_it(
    act: str, in_the_open: str, caged: str, make_pool: MakePool, ask: Ask
) -> None:
    assert ask(make_pool(limits=OPEN), act) == in_the_open
    assert ask(make_pool(), act) == caged


@linux
@pytest.mark.skipif(not has_landlock(1), reason="this kernel has no Landlock")
def test_landlock_alone_takes_away_the_file_system(make_pool: MakePool, ask: Ask) -> None:
    pool = make_pool(limits=SandboxLimits(seccomp=False))
    assert ask(pool, "open_to_read") == "EACCES"
    assert ask(pool, "open_to_write") == "EACCES"
    assert ask(pool, "listen") == ("EACCES" if has_landlock(4) else "bound")
    assert ask(pool, "signal_parent") == ("EPERM" if has_landlock(6) else "signalled")


@linux
def test_a_limit_cannot_be_raised_again(make_pool: MakePool, ask: Ask) -> None:
    assert ask(make_pool(), "raise_limit") == "not allowed to raise maximum limit"


@linux
def test_threads_can_be_started_in_the_cage(pool: ImageExecutor, ask: Ask) -> None:
    assert ask(pool, "thread") == "threaded"


def test_a_worker_has_nothing_of_the_environment(
    pool: ImageExecutor, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IMAGEHOST_SECRET", "s3cret")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/somewhere/lib")
    names = set(ask(pool, "look_around").split(","))
    ours = {"MALLOC_ARENA_MAX", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"}
    assert names <= ours | {"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "LC_CTYPE"}
    assert "LD_LIBRARY_PATH" in names
    assert ask(pool, "isolated") == "True"


@linux
def test_a_worker_has_its_pipes_and_its_log_and_no_other_descriptor(pool: ImageExecutor, ask: Ask) -> None:
    with Path(os.devnull).open() as file:
        os.set_inheritable(file.fileno(), True)
        # Nothing to read, the log twice, the two pipes, and the meter.
        assert ask(pool, "open_descriptors") == "6"


@linux
def test_the_status_names_every_measure(pool: ImageExecutor) -> None:
    status = pool.status()
    names = {"oom_score", "RLIMIT_CORE", "RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE"}
    assert {*status.in_force, *status.lacking} == names | {"no_new_privs", "landlock", "seccomp"}
    assert names | {"no_new_privs"} <= set(status.in_force)


def test_measures_that_are_switched_off_are_not_named(make_pool: MakePool) -> None:
    status = make_pool(limits=SandboxLimits(0, 0, 0, 0, 0, landlock=False, seccomp=False)).status()
    assert {*status.in_force, *status.lacking} == {"RLIMIT_CORE", "no_new_privs"}


@linux
def test_a_measure_that_the_system_lacks_is_named_with_the_reason_and_the_others_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    limits = SandboxLimits(0, 0, 0, 0, 0, landlock=False)
    status = confined(lambda: cage.enter_sandbox(limits))
    assert isinstance(status, cage.SandboxStatus)
    assert status.lacking == {"seccomp": "no list of system calls for vax"}
    assert status.in_force == ("RLIMIT_CORE", "no_new_privs")


@linux
@pytest.mark.skipif(not has_landlock(1), reason="this kernel has no Landlock")
def test_landlock_confines_the_thread_that_asks_for_it() -> None:
    def act() -> bytes:
        kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
        landlock.restrict()
        return Path(__file__).read_bytes()

    assert isinstance(confined(act), PermissionError)
    assert Path(__file__).read_bytes()


@linux
def test_seccomp_confines_the_thread_that_asks_for_it() -> None:
    def act() -> socket.socket:
        cage.enter_sandbox(SandboxLimits(0, 0, 0, 0, 0, landlock=False))
        return socket.socket()

    assert isinstance(confined(act), PermissionError)
    socket.socket().close()


@linux
def test_a_call_that_the_kernel_refuses_raises_its_error() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        kernel.prctl(-1)


@linux
def test_the_structures_have_the_sizes_of_the_kernel() -> None:
    from imagehost_core.sandbox.landlock import _Ruleset
    from imagehost_core.sandbox.seccomp import _Filter, _Program

    assert [ctypes.sizeof(kind) for kind in (_Ruleset, _Filter, _Program)] == [24, 8, 16]


@pytest.mark.parametrize(
    "wrong",
    [{"memory_bytes": -1}, {"cpu_seconds": 1}, {"file_bytes": -1}, {"open_files": -1}, {"oom_score": -1}],
)
def test_limits_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"must|None of"):
        SandboxLimits(**wrong)  # type: ignore[arg-type]


LIMITED = """
import os, resource, sys
from pathlib import Path
from imagehost_core.sandbox import enter as cage
from imagehost_core.workers import SandboxLimits
status = cage.enter_sandbox(SandboxLimits({limits}, landlock=False, seccomp=False))
score = Path("/proc/self/oom_score_adj").read_text().strip()
print(resource.getrlimit(resource.{name}), score, "{name}" in status.in_force)
{then}
"""


@linux
@pytest.mark.parametrize(
    ("limits", "name", "most"),
    [
        ("memory_bytes=2**33", "RLIMIT_AS", (2**33, 2**33)),
        ("cpu_seconds=50", "RLIMIT_CPU", (49, 50)),
        ("file_bytes=2**30", "RLIMIT_FSIZE", (2**30, 2**30)),
        ("open_files=128", "RLIMIT_NOFILE", (128, 128)),
        ("", "RLIMIT_CORE", (0, 0)),
    ],
)
def test_each_limit_is_set_for_good(limits: str, name: str, most: tuple[int, int]) -> None:
    wide = ["memory_bytes=0", "cpu_seconds=0", "file_bytes=0", "open_files=0"]
    others = [word for word in wide if word.split("=")[0] not in limits]
    script = LIMITED.format(limits=", ".join([*others, limits or "oom_score=800"]), name=name, then="")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == f"{most} 800 True"


@linux
def test_a_limit_that_is_in_force_already_is_not_raised() -> None:
    before = "resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))"
    script = (
        "import resource; "
        + before
        + LIMITED.format(limits="open_files=200, file_bytes=0", name="RLIMIT_NOFILE", then="")
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "(100, 100) 800 True"


@linux
def test_too_much_processor_time_ends_a_worker_even_if_nobody_watches() -> None:
    limits = "cpu_seconds=2, file_bytes=0"
    script = LIMITED.format(limits=limits, name="RLIMIT_CPU", then="while True: pass")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True)
    assert done.returncode == -signal.SIGXCPU
