"""Worker processes that several processes share through a broker."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest
from tests.core.workers.broker_process import TIMEOUT, Broker, granted, request

from imagehost_core.errors import UnavailableError
from imagehost_core.workers import ImageExecutor, JobClass, PoolLoad, failures
from imagehost_core.workers.messages import TaskError

pytestmark = pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="needs SCM_RIGHTS")

RunTask = Callable[..., str]
Eventually = Callable[[Callable[[], bool]], bool]
HasExited = Callable[[int], bool]


@pytest.fixture
def broker(hostile_tasks: str) -> Iterator[Broker]:
    broker = Broker(hostile_tasks)
    yield broker
    broker.close()


def test_borrowers_share_the_worker_processes(broker: Broker, run_task: RunTask) -> None:
    broker.start()
    with ImageExecutor(1, pool=broker.pool()) as first, ImageExecutor(1, pool=broker.pool()) as second:
        pid = int(run_task(first, "pid"))
        assert int(run_task(second, "pid", b"bytes" * 500_000)) == pid
        assert int(run_task(first, "pid")) == pid
        assert first.worker_pids == second.worker_pids == (pid,)
        assert first.load == second.load == PoolLoad(0, 1, 0)
        assert first.status().applied == second.status().applied


def test_the_slots_hold_for_all_borrowers_together(broker: Broker, eventually: Eventually) -> None:
    broker.start(size=1)
    first, second = broker.pool(), broker.pool()
    heavy = granted(first.submit(request()))
    waiting = second.submit(request())
    light = granted(second.submit(request(JobClass.LIGHT)))
    assert eventually(lambda: first.load == PoolLoad(2, 0, 1))
    assert not waiting.done()
    heavy.ready()
    first.release(heavy)
    assert granted(waiting).pid == heavy.pid
    assert light.pid != heavy.pid


def test_the_queue_is_that_of_all_borrowers_together(broker: Broker) -> None:
    broker.start(size=1)
    pools = [broker.pool() for _ in range(4)]
    granted(pools[0].submit(request()))
    futures = [pool.submit(request()) for pool in pools[1:]]
    with pytest.raises(UnavailableError, match="expected at most 2 requests"):
        futures[-1].result(TIMEOUT)
    assert not futures[0].done()


def test_of_requests_with_one_key_one_runs_and_the_others_use_its_result(broker: Broker) -> None:
    broker.start(size=2)
    first, second = broker.pool(), broker.pool()
    worker = granted(first.submit(request(key="variant")))
    waiting = second.submit(request(key="variant"))
    worker.ready()
    first.release(worker)
    first.complete("variant", succeeded=True)
    assert waiting.result(TIMEOUT) is None
    granted(second.submit(request(key="variant")))


@pytest.mark.parametrize("traceback", ["", "a long one\n" * 50_000])
def test_a_failure_is_shared_with_the_requests_of_other_borrowers(broker: Broker, traceback: str) -> None:
    broker.start(size=1)
    first, second = broker.pool(), broker.pool()
    worker = granted(first.submit(request(key="variant")))
    waiting = [second.submit(request(key="variant")) for _ in range(2)]
    worker.ready()
    first.release(worker)
    error = TaskError("SERVICE_UNAVAILABLE", details="it failed", retry_after=7, traceback=traceback)
    first.complete("variant", succeeded=False, error=error)
    failures_of_others = [future.exception(TIMEOUT) for future in waiting]
    assert [getattr(failure, "error", None) for failure in failures_of_others] == [error, error]
    granted(second.submit(request(key="variant")))


def test_the_worker_process_and_the_key_of_a_borrower_that_dies_are_free_again(
    broker: Broker, has_exited: HasExited, eventually: Eventually
) -> None:
    broker.start(size=1)
    pool = broker.pool()
    worker = granted(pool.submit(request(key="variant")))
    waiting = pool.submit(request(key="variant"))
    # What the end of its process does.
    worker.connection.close()
    worker.close_pipes()
    assert eventually(lambda: has_exited(worker.pid))
    assert granted(waiting).pid != worker.pid


def test_a_cancelled_request_leaves_the_queue(broker: Broker, eventually: Eventually) -> None:
    broker.start(size=1)
    pool = broker.pool()
    granted(pool.submit(request()))
    waiting = pool.submit(request())
    assert eventually(lambda: pool.load.waiting == 1)
    assert waiting.cancel()
    assert eventually(lambda: pool.load.waiting == 0)


def test_an_abandoned_request_gives_its_worker_process_back(broker: Broker, eventually: Eventually) -> None:
    broker.start(size=1)
    pool, asked = broker.pool(), request(key="variant")
    future = pool.submit(asked)
    granted(future)
    pool.abandon(asked, future)
    assert eventually(lambda: pool.load.busy == 0)
    granted(pool.submit(request(key="variant")))


@pytest.mark.slow
def test_failures_of_borrowed_worker_processes_are_those_of_own_ones(
    broker: Broker, run_task: RunTask, has_exited: HasExited
) -> None:
    broker.start()
    with ImageExecutor(1, pool=broker.pool()) as executor:
        pid = int(run_task(executor, "pid"))
        with pytest.raises(failures.DeadlineExceeded):
            run_task(executor, "sleep", deadline=3)
        assert has_exited(pid)
        with pytest.raises(failures.WorkerCrashed, match="SIGSEGV"):
            run_task(executor, "segfault")
        assert int(run_task(executor, "pid")) != pid


def test_after_the_death_of_the_broker_tasks_wait_for_its_replacement(
    broker: Broker, run_task: RunTask, eventually: Eventually
) -> None:
    broker.start()
    pool = broker.pool()
    with ImageExecutor(1, pool=pool) as executor:
        pid = int(run_task(executor, "pid"))
        held, waiting = granted(pool.submit(request())), pool.submit(request())
        assert eventually(lambda: pool.load.waiting == 1)
        broker.kill()
        with pytest.raises(UnavailableError, match="to respond"):
            waiting.result(TIMEOUT)
        assert held.end().signal == "SIGKILL"
        pool.release(held)
        later = pool.submit(request())
        broker.start()
        pool.release(granted(later))
        assert int(run_task(executor, "pid")) != pid


def test_a_request_beyond_its_deadline_is_rejected(broker: Broker) -> None:
    broker.start(size=1)
    pool = broker.pool()
    granted(pool.submit(request()))
    with pytest.raises(UnavailableError, match="in time"):
        pool.submit(request(seconds=0.2)).result(TIMEOUT)


def test_closing_a_borrower_rejects_its_requests_and_keeps_the_broker(broker: Broker) -> None:
    broker.start(size=1)
    pool, other = broker.pool(), broker.pool()
    worker = granted(pool.submit(request()))
    waiting = pool.submit(request())
    pool.close()
    pool.close()
    assert pool.closed
    with pytest.raises(UnavailableError):
        waiting.result(TIMEOUT)
    with pytest.raises(UnavailableError):
        pool.submit(request()).result(TIMEOUT)
    pool.release(worker)
    assert granted(other.submit(request())).pid != worker.pid


def test_without_a_broker_the_load_is_zero(broker: Broker) -> None:
    pool = broker.pool()
    pool.close()
    assert pool.load == PoolLoad(0, 0, 0)
    assert pool.worker_pids == ()


def test_invalid_messages_end_their_connection_only(broker: Broker, run_task: RunTask) -> None:
    broker.start()
    pool = broker.pool()
    near, far = socket.socketpair()
    with near, far:
        socket.send_fds(broker._requests, [b"nonsense"], [far.fileno()])
        broker._requests.send(b"no descriptor")
        far.close()
        assert near.recv(1) == b""
    worker = granted(pool.submit(request()))
    worker.connection.send(b"nonsense\n")
    with ImageExecutor(1, pool=pool) as executor:
        assert int(run_task(executor, "pid")) != worker.pid
