"""A broker in a process of its own, for tests."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from contextlib import ExitStack

from imagehost_core.workers import JobClass
from imagehost_core.workers.admission import WorkerRequest
from imagehost_core.workers.borrowed import BorrowedPool, BorrowedWorker
from imagehost_core.workers.process import Worker

TIMEOUT = 20.0
BROKER = """
import socket, sys
sys.path.insert(0, {path!r})
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.workers.broker import PoolBroker
from imagehost_core.workers.pool import ProcessPool
from imagehost_core.workers.process import WorkerSpec
spec = WorkerSpec({tasks!r}, SandboxLimits())
pool = ProcessPool(spec, size={size}, queue=2, max_tasks_per_worker=99, max_worker_bytes=2**40)
PoolBroker(pool, socket.socket(fileno={descriptor})).run()
"""


class Broker:
    """A broker in a process of its own, and pools that borrow from it."""

    def __init__(self, tasks: str) -> None:
        self._tasks, self._stack = tasks, ExitStack()
        ends = socket.socketpair(type=socket.SOCK_DGRAM)
        self._requests, self._received = (self._stack.enter_context(end) for end in ends)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def descriptor(self) -> int:
        """The descriptor of the socket that borrowers send their requests to."""
        return self._requests.fileno()

    def start(self, size: int = 1) -> None:
        """Start the broker, or another one in its place."""
        descriptor = self._received.fileno()
        script = BROKER.format(path=sys.path[0], tasks=self._tasks, size=size, descriptor=descriptor)
        script = f"import sys; sys.path[:] = {sys.path!r}\n{script}"
        self.process = subprocess.Popen([sys.executable, "-c", script], pass_fds=[descriptor])

    def pool(self) -> BorrowedPool:
        """Return another borrower."""
        pool = BorrowedPool(self._requests.dup())
        self._stack.callback(discard, pool)
        return pool

    def kill(self) -> None:
        """Kill the broker."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """End everything."""
        self._stack.close()
        self.kill()


def discard(pool: BorrowedPool) -> None:
    """Close a pool, and what its borrower still uses, as the end of a process does."""
    pool.close()
    for worker in {*pool._in_use, *pool._by_key.values()}:
        worker.close_pipes()
        worker.connection.close()


def request(
    job_class: JobClass = JobClass.HEAVY, key: str | None = None, seconds: float = TIMEOUT
) -> WorkerRequest:
    return WorkerRequest(time.monotonic() + seconds, job_class, key)


def granted(future: Future[Worker | None], timeout: float = TIMEOUT) -> BorrowedWorker:
    worker = future.result(timeout)
    assert isinstance(worker, BorrowedWorker)
    return worker
