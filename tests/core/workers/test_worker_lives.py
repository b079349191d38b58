"""Workers do not outlive the program that started them, however it ends, and are not shared by a fork."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

RunScript = Callable[[str], "subprocess.Popen[str]"]
Eventually = Callable[[Callable[[], bool]], bool]
Gone = Callable[[int], bool]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests look into /proc")

POOL = """
import io, os, sys, threading
from contextlib import suppress
from imagehost_core.workers.failures import WorkerFailure
from imagehost_core.workers import SandboxLimits, ImageExecutor
from imagehost_core.workers.executor import TaskCall

def ask(act, deadline=600):
    call = TaskCall("act", (act,), str, lambda _said: 1)
    return pool.run(call, io.BytesIO(), 0, deadline=deadline, receive=b"".join)[0]

pool = ImageExecutor(2, tasks="hostile_tasks")
"""


def first_line(program: subprocess.Popen[str]) -> list[int]:
    assert program.stdout is not None
    return [int(word) for word in program.stdout.readline().split()]


def ended(program: subprocess.Popen[str]) -> tuple[int, str]:
    said, _ = program.communicate(timeout=60)
    return program.returncode, said


BUSY_AND_IDLE = (
    POOL
    + """
import time
pool.start()
while pool.load.idle < 2:
    time.sleep(0.01)
pids = []
with pool._acquired(60) as one, pool._acquired(60) as two:
    pids = [one.pid, two.pid]

def work():
    with suppress(WorkerFailure):
        ask("sleep")

threading.Thread(target=work, daemon=True).start()
while not pool.load.busy:
    time.sleep(0.01)
time.sleep(0.2)
print(*pids, flush=True)
"""
)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_their_program_when_a_signal_ends_it(
    how: signal.Signals, run_script: RunScript, gone: Gone, eventually: Eventually
) -> None:
    program = run_script(BUSY_AND_IDLE + "sys.stdin.read()")
    pids = first_line(program)
    assert len(set(pids)) == 2
    assert not any(map(gone, pids))
    program.send_signal(how)
    ended(program)
    assert eventually(lambda: all(map(gone, pids)))


def test_a_program_that_ends_without_closing_its_pool_does_not_hang(
    run_script: RunScript, gone: Gone, eventually: Eventually
) -> None:
    program = run_script(BUSY_AND_IDLE)
    pids = first_line(program)
    assert ended(program) == (0, "")
    assert eventually(lambda: all(map(gone, pids)))


def test_workers_outlive_the_thread_that_made_the_first_call(run_script: RunScript) -> None:
    program = run_script(
        POOL
        + """
pids = []
thread = threading.Thread(target=lambda: pids.append(ask("pid")))
thread.start()
thread.join()
print(pids == [ask("pid")] == [ask("pid")])
"""
    )
    assert ended(program) == (0, "True\n")


def test_the_memory_of_the_program_is_not_laid_to_its_workers(run_script: RunScript) -> None:
    script = """
much = bytearray(300 * 2**20)
""" + POOL.replace('"hostile_tasks"', '"hostile_tasks", max_bytes=200 * 2**20')
    assert ended(run_script(script + "print(ask('pid') == ask('pid'))")) == (0, "True\n")


def test_five_lines_at_the_top_of_a_script_are_enough(run_script: RunScript) -> None:
    assert ended(run_script(POOL + "print(ask('thread'))")) == (0, "threaded\n")


FORKED = (
    POOL
    + """
before = ask("pid")
sys.stdout.flush()
child = os.fork()
if child == 0:
    {child}
    sys.exit(0)
status = os.waitpid(child, 0)[1]
print(status, ask("pid") == before)
"""
)


@pytest.mark.parametrize(
    ("child", "said"),
    [
        ("print(ask('pid') == before, pool.load.idle)", "False 1\n"),
        ("pool.close()", ""),
        ("pool.close(); os._exit(0)", ""),
        ("pass", ""),
        ("del pool; import gc; gc.collect()", ""),
    ],
)
def test_a_forked_process_has_workers_of_its_own_and_leaves_its_parents_alone(
    child: str, said: str, run_script: RunScript
) -> None:
    # From Python 3.12 on, os.fork warns where there are threads, and says that it may deadlock.
    script = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)" + FORKED.format(
        child=child
    )
    assert ended(run_script(script)) == (0, said + "0 True\n")


def test_a_pool_that_is_closed_stays_closed_in_a_forked_process(run_script: RunScript) -> None:
    script = (
        POOL
        + """
pool.close()
child = os.fork()
if child == 0:
    try:
        ask("pid")
    except Exception as error:
        print(type(error).__name__)
    sys.exit(0)
os.waitpid(child, 0)
"""
    )
    assert ended(run_script(script)) == (0, "UnavailableError\n")
