"""The broker when borrowers, worker processes or it itself die; a missing guard is found in seconds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from tests.core.workers.broker_process import Broker, granted, request

from imagehost_core.errors import UnavailableError
from imagehost_core.workers import ImageExecutor, PoolLoad, failures, messages
from imagehost_core.workers.admission import WorkerRequest
from imagehost_core.workers.borrowed import BorrowedWorker
from imagehost_core.workers.broker_messages import Action, BorrowRequest, Command, WorkerState

pytestmark = pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="needs SCM_RIGHTS")

RunTask = Callable[..., str]
HasExited = Callable[[int], bool]

SOON = 10.0
BORROWER = """
import sys; sys.path[:] = {path!r}
import socket, time
from imagehost_core.workers.admission import WorkerRequest
from imagehost_core.workers.borrowed import BorrowedPool
pool = BorrowedPool(socket.socket(fileno={descriptor}))
print(pool.submit(WorkerRequest(time.monotonic() + 60, key="variant")).result().pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def broker(hostile_tasks: str) -> Iterator[Broker]:
    broker = Broker(hostile_tasks)
    yield broker
    broker.close()


def soon(condition: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within seconds."""
    until = time.monotonic() + SOON
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def test_a_worker_process_that_is_killed_while_it_is_lent_fails_its_task_and_is_replaced(
    broker: Broker, run_task: RunTask
) -> None:
    broker.start()
    with ImageExecutor(1, pool=broker.pool()) as executor, ThreadPoolExecutor(1) as threads:
        pid = int(run_task(executor, "pid"))
        task = threads.submit(run_task, executor, "sleep")
        assert soon(lambda: executor.load == PoolLoad(1, 0, 0))
        os.kill(pid, signal.SIGKILL)
        assert isinstance(task.exception(SOON), failures.WorkerKilled)
        assert int(run_task(executor, "pid", deadline=SOON)) != pid
        assert executor.load == PoolLoad(0, 1, 0)


def test_a_worker_process_that_its_borrower_has_killed_is_lent_to_no_other(broker: Broker) -> None:
    broker.start(size=1)
    pool = broker.pool()
    # Before it is known to be ready, so that the pool would not notice its exit.
    worker = granted(pool.submit(request()))
    worker.kill()
    pool.release(worker)
    assert granted(pool.submit(request())).pid != worker.pid


def test_a_worker_process_that_is_given_back_twice_is_lent_once(broker: Broker) -> None:
    broker.start(size=2)
    pool = broker.pool()
    worker = granted(pool.submit(request(key="variant")))
    worker.ready()
    state = WorkerState(worker.pid, worker.sandbox, worker.task_count, worker.usage, retired=False)
    pool.release(worker)
    worker.send(Command(Action.RELEASE, state))
    first, second = (granted(pool.submit(request())) for _ in range(2))
    assert first.pid != second.pid


def test_a_borrower_that_is_killed_returns_its_worker_process_and_its_key(
    broker: Broker, has_exited: HasExited
) -> None:
    broker.start(size=1)
    descriptor = broker.descriptor
    script = BORROWER.format(path=sys.path, descriptor=descriptor)
    with subprocess.Popen(
        [sys.executable, "-c", script], pass_fds=[descriptor], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        pool = broker.pool()
        waiting, other = pool.submit(request(key="variant")), pool.submit(request())
        assert soon(lambda: pool.load == PoolLoad(1, 0, 2))
        process.kill()
    worker = granted(waiting, SOON)
    assert worker.pid != pid
    assert soon(lambda: has_exited(pid))
    worker.ready()
    pool.release(worker)
    assert granted(other).pid == worker.pid


def test_the_request_of_a_borrower_that_dies_while_it_waits_leaves_the_queue(broker: Broker) -> None:
    broker.start(size=1)
    pool = broker.pool()
    granted(pool.submit(request()))
    near, far = socket.socketpair()
    with near, far:
        message = messages.encode(BorrowRequest.of(request()))
        with socket.socket(fileno=os.dup(broker.descriptor)) as requests:
            socket.send_fds(requests, [message], [far.fileno()])
        assert soon(lambda: pool.load == PoolLoad(1, 0, 1))
    assert soon(lambda: pool.load == PoolLoad(1, 0, 0))


def test_tasks_and_requests_fail_at_once_when_the_broker_dies(
    broker: Broker, run_task: RunTask, has_exited: HasExited
) -> None:
    broker.start()
    pool = broker.pool()
    with ImageExecutor(1, pool=pool) as executor, ThreadPoolExecutor(1) as threads:
        pid = int(run_task(executor, "pid"))
        task = threads.submit(run_task, executor, "sleep")
        assert soon(lambda: executor.load == PoolLoad(1, 0, 0))
        waiting = pool.submit(request())
        assert soon(lambda: executor.load == PoolLoad(1, 0, 1))
        broker.kill()
        assert isinstance(waiting.exception(SOON), UnavailableError)
        assert isinstance(task.exception(SOON), failures.WorkerKilled)
        assert soon(lambda: has_exited(pid))
        broker.start()
        assert int(run_task(executor, "pid", deadline=SOON)) != pid


def test_closing_a_borrower_kills_the_worker_processes_that_it_uses(
    broker: Broker, run_task: RunTask, has_exited: HasExited
) -> None:
    broker.start()
    pool, other = broker.pool(), broker.pool()
    executor = ImageExecutor(1, pool=pool)
    with ThreadPoolExecutor(2) as threads:
        pid = int(run_task(executor, "pid"))
        task = threads.submit(run_task, executor, "sleep")
        try:
            assert soon(lambda: other.load == PoolLoad(1, 0, 0))
            closing = threads.submit(executor.close)
            assert isinstance(task.exception(SOON), failures.WorkerKilled)
            closing.result(SOON)
            assert soon(lambda: has_exited(pid))
            assert granted(other.submit(request())).pid != pid
        finally:
            broker.kill()


def test_closing_a_borrower_kills_a_worker_process_that_it_receives_meanwhile(
    broker: Broker, run_task: RunTask, has_exited: HasExited, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.start()
    pool, other = broker.pool(), broker.pool()
    has_reply, is_closing = Event(), Event()
    receive = pool._receive

    def receive_slowly(connection: socket.socket, request: WorkerRequest) -> BorrowedWorker | None:
        has_reply.set()
        assert is_closing.wait(SOON)
        return receive(connection, request)

    monkeypatch.setattr(pool, "_receive", receive_slowly)
    with ThreadPoolExecutor(2) as threads:
        task = threads.submit(run_task, ImageExecutor(1, pool=pool), "sleep")
        try:
            assert has_reply.wait(SOON)
            (pid,) = other.worker_pids
            closing = threads.submit(pool.close)
            assert soon(lambda: pool.closed)
            is_closing.set()
            assert isinstance(task.exception(SOON), failures.WorkerKilled)
            closing.result(SOON)
            assert soon(lambda: has_exited(pid))
        finally:
            broker.kill()
