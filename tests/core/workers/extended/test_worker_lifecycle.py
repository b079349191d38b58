"""Tests that worker processes end with the program that started them and are not shared with its forks."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.waiting import PATIENCE, wait_until

RunScript = Callable[[str], "subprocess.Popen[str]"]
HasExited = Callable[[int], bool]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests read /proc")

EXECUTOR = """
import io, os, sys, threading
from contextlib import suppress
from imagehost_core.workers.failures import WorkerFailure
from imagehost_core.workers.executor import ImageExecutor
from imagehost_core.workers.executor import TaskCall
from imagehost_core.workers.costs import Cost
from imagehost_core.workers.lanes import Lane

def run_task(action, deadline=600):
    call = TaskCall("act", (action,), str, lambda _result: 1)
    return executor.run(call, io.BytesIO(), 0, Cost(Lane.HEAVY, 0).request(deadline), receive=b"".join)[0]

executor = ImageExecutor(2, tasks="hostile_tasks")
"""


def first_line(program: subprocess.Popen[str]) -> list[int]:
    assert program.stdout is not None
    return [int(word) for word in program.stdout.readline().split()]


def ended(program: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of a program and return its exit status and its output."""
    output, _ = program.communicate(timeout=PATIENCE)
    return program.returncode, output


BUSY_AND_IDLE = (
    EXECUTOR
    + """
import time
both = [threading.Thread(target=run_task, args=("pid",)) for _ in range(2)]
for thread in both:
    thread.start()
for thread in both:
    thread.join()
while executor.load.idle < 2:
    time.sleep(0.01)

def sleep():
    with suppress(WorkerFailure):
        run_task("sleep")

threading.Thread(target=sleep, daemon=True).start()
while not executor.load.busy:
    time.sleep(0.01)
time.sleep(0.2)
print(*executor.worker_pids, flush=True)
"""
)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_worker_processes_end_when_a_signal_ends_their_program(
    number: signal.Signals, run_script: RunScript, has_exited: HasExited
) -> None:
    program = run_script(BUSY_AND_IDLE + "sys.stdin.read()")
    pids = first_line(program)
    assert len(set(pids)) == 2
    assert not any(map(has_exited, pids))
    program.send_signal(number)
    ended(program)
    wait_until(lambda: all(map(has_exited, pids)))


def test_a_program_that_does_not_close_its_executor_exits(
    run_script: RunScript, has_exited: HasExited
) -> None:
    program = run_script(BUSY_AND_IDLE)
    pids = first_line(program)
    assert ended(program) == (0, "")
    wait_until(lambda: all(map(has_exited, pids)))


def test_worker_processes_outlive_the_thread_that_made_the_first_call(run_script: RunScript) -> None:
    program = run_script(
        EXECUTOR
        + """
pids = []
thread = threading.Thread(target=lambda: pids.append(run_task("pid")))
thread.start()
thread.join()
print(pids == [run_task("pid")] == [run_task("pid")])
"""
    )
    assert ended(program) == (0, "True\n")


def test_memory_of_the_parent_does_not_count_as_memory_of_its_workers(run_script: RunScript) -> None:
    script = """
allocated = bytearray(300 * 2**20)
""" + EXECUTOR.replace('"hostile_tasks"', '"hostile_tasks", max_worker_bytes=200 * 2**20')
    script += "print(run_task('pid') == run_task('pid'))"
    assert ended(run_script(script)) == (0, "True\n")


def test_a_script_needs_no_main_guard(run_script: RunScript) -> None:
    assert ended(run_script(EXECUTOR + "print(run_task('thread'))")) == (0, "threaded\n")


FORKED = (
    EXECUTOR
    + """
before = run_task("pid")
sys.stdout.flush()
child = os.fork()
if child == 0:
    {child}
    sys.exit(0)
status = os.waitpid(child, 0)[1]
print(status, run_task("pid") == before)
"""
)


@pytest.mark.parametrize(
    ("child", "output"),
    [
        ("print(run_task('pid') == before, executor.load.idle)", "False 1\n"),
        ("executor.close()", ""),
        ("executor.close(); os._exit(0)", ""),
        ("pass", ""),
        ("del executor; import gc; gc.collect()", ""),
    ],
)
def test_a_forked_process_has_its_own_workers_and_does_not_end_its_parents(
    child: str, output: str, run_script: RunScript
) -> None:
    # From Python 3.12 on, os.fork warns if there are several threads, because it can deadlock.
    script = "import warnings; warnings.simplefilter('ignore', DeprecationWarning)" + FORKED.format(
        child=child
    )
    assert ended(run_script(script)) == (0, output + "0 True\n")


def test_a_closed_executor_is_closed_in_a_forked_process_too(run_script: RunScript) -> None:
    script = (
        EXECUTOR
        + """
executor.close()
child = os.fork()
if child == 0:
    try:
        run_task("pid")
    except Exception as error:
        print(type(error).__name__)
    sys.exit(0)
os.waitpid(child, 0)
"""
    )
    assert ended(run_script(script)) == (0, "UnavailableError\n")
