"""The broker: lends the worker processes of one pool to several processes of a machine.

With a pool in each of several server processes, a machine would run as many image tasks at a time as there
are cores *and* server processes, and keep as many worker processes. Here queue, admission and reserved slots
hold for all of them. No image passes through the broker: a borrower gets the pipes of its worker process.
What it borrowed is killed when its connection closes.
"""

from __future__ import annotations

import logging
import selectors
import socket
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Thread

from attrs import define

from imagehost_core.errors import UnavailableError
from imagehost_core.observer import Observer, ignore
from imagehost_core.sandbox import SandboxLimits
from imagehost_core.settings import RenderingSettings
from imagehost_core.workers import messages
from imagehost_core.workers.admission import WorkerRequest
from imagehost_core.workers.broker_messages import (
    MAX_MESSAGE_BYTES,
    Action,
    BorrowReply,
    BorrowRequest,
    Command,
    ExitReply,
    PoolState,
    WorkerState,
    recv_fds,
    send,
)
from imagehost_core.workers.executor import MAX_TASKS_PER_WORKER, MAX_WORKER_BYTES, TASKS
from imagehost_core.workers.failures import SharedFailure
from imagehost_core.workers.frames import FrameError
from imagehost_core.workers.pool import ProcessPool
from imagehost_core.workers.process import Worker, WorkerSpec

log = logging.getLogger("imagehost.workers")


@define(eq=False)
class _Loan:
    """A request of a borrower, and the worker process that it got.

    Attributes:
        connection: The connection of the request.
        request: The request.
        future: The pool's answer.
        is_released: Whether the borrower has given the worker process back.
        is_completed: Whether it has completed the request's key.
        received: The start of a command whose end has not arrived.
    """

    connection: socket.socket
    request: WorkerRequest
    future: Future[Worker | None]
    is_released: bool = False
    is_completed: bool = False
    received: bytes = b""


class PoolBroker:
    """The broker of a pool.

    Args:
        pool: The pool.
        requests: The socket (SOCK_DGRAM) that the requests of all borrowers arrive at.
    """

    def __init__(self, pool: ProcessPool, requests: socket.socket) -> None:
        self._pool, self._requests = pool, requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)

    def run(self) -> None:
        """Answer requests until the process ends."""
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    self._accept()
                else:
                    self._receive(key.data)

    def _accept(self) -> None:
        data, descriptors, _, _ = recv_fds(self._requests, MAX_MESSAGE_BYTES, 1)
        if not descriptors:
            return
        connection = socket.socket(fileno=descriptors[0])
        try:
            message = messages.decode(data, BorrowRequest)
        except FrameError:
            log.exception("invalid request for a worker process")
            connection.close()
            return
        if message.until is None:
            # A pool whose last worker process could not be started tries again.
            self._pool.start()
            load = self._pool.load
            with connection, suppress(OSError):
                send(connection, PoolState(load.busy, load.idle, load.waiting, self._pool.worker_pids))
            return
        request = message.to_request(message.until)
        loan = _Loan(connection, request, self._pool.submit(request))
        self._selector.register(connection, selectors.EVENT_READ, loan)
        loan.future.add_done_callback(partial(_reply, connection))

    def _receive(self, loan: _Loan) -> None:
        try:
            data = loan.connection.recv(MAX_MESSAGE_BYTES)
        except OSError:
            data = b""
        *lines, loan.received = (loan.received + data).split(b"\n")
        try:
            for line in lines:
                self._execute(loan, messages.decode(line, Command))
        except FrameError:
            log.exception("invalid message of a borrower")
            data = b""
        if not data:
            self._selector.unregister(loan.connection)
            self._settle(loan)
            loan.connection.close()

    def _execute(self, loan: _Loan, command: Command) -> None:
        worker = loan.future.result(0) if loan.future.done() else None
        if command.action is Action.COMPLETE and loan.request.key is not None:
            loan.is_completed = True
            self._pool.complete(loan.request.key, succeeded=command.succeeded, error=command.error)
        elif worker is None or loan.is_released:
            return
        elif command.action is Action.KILL:
            # It may still seem to be alive when it is given back.
            worker.retired = True
            worker.kill()
        elif command.action is Action.END:
            # It can wait for the exit.
            Thread(target=_end, args=(loan.connection, worker, command.grace), daemon=True).start()
        elif command.state is not None:
            loan.is_released = True
            state = command.state
            worker.sandbox, worker.usage = state.sandbox, state.usage
            worker.task_count, worker.retired = state.task_count, worker.retired or state.retired
            self._pool.release(worker)

    def _settle(self, loan: _Loan) -> None:
        """Take back what a borrower has not given back."""
        if loan.future.cancel():
            return
        with suppress(UnavailableError, SharedFailure):
            worker = loan.future.result()
            if worker is None:
                return
            if not loan.is_released:
                worker.kill()
                worker.retired = True
                self._pool.release(worker)
            if loan.request.key is not None and not loan.is_completed:
                self._pool.complete(loan.request.key, succeeded=False)


def run_broker(settings: RenderingSettings, requests: socket.socket, observe: Observer = ignore) -> None:
    """Lend the worker processes of a new pool until this process ends.

    Args:
        settings: Size, queue and limits of the pool.
        requests: The socket (SOCK_DGRAM) whose other end the `BorrowedPool` of each borrower has.
        observe: Receives the measurements of starts and exits of worker processes.
    """
    limits = SandboxLimits(memory_bytes=settings.memory_limit_bytes, task_cpu_seconds=settings.cpu_seconds)
    pool = ProcessPool(
        WorkerSpec(TASKS, limits, observe),
        size=settings.processes,
        queue=settings.queue,
        max_tasks_per_worker=MAX_TASKS_PER_WORKER,
        max_worker_bytes=MAX_WORKER_BYTES,
    )
    pool.start()
    PoolBroker(pool, requests).run()


def _reply(connection: socket.socket, future: Future[Worker | None]) -> None:
    """Answer a request. If its borrower is gone, its closed connection gives back the worker process."""
    if future.cancelled():
        return
    with suppress(OSError):
        error = future.exception()
        if isinstance(error, UnavailableError):
            send(connection, BorrowReply(error=error.details, retry_after=error.retry_after))
            return
        if isinstance(error, SharedFailure):
            send(connection, BorrowReply(shared=error.error))
            return
        worker = future.result()
        if worker is None:
            send(connection, BorrowReply())
            return
        state = WorkerState(worker.pid, worker.sandbox, worker.task_count, worker.usage, retired=False)
        send(connection, BorrowReply(state), worker.pipes())


def _end(connection: socket.socket, worker: Worker, grace: float) -> None:
    exit_info = worker.end(grace)
    with suppress(OSError):
        send(connection, ExitReply(exit_info.signal, exit_info.killed_by_pool, exit_info.message))
