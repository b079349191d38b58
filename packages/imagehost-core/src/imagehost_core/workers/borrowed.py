"""Worker processes that the broker of another process lends."""

from __future__ import annotations

import os
import selectors
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress

from imagehost_core.errors import UnavailableError
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
    send_fds,
)
from imagehost_core.workers.failures import SharedFailure
from imagehost_core.workers.frames import FrameError
from imagehost_core.workers.lending import PoolLoad, WorkerPool
from imagehost_core.workers.messages import TaskError
from imagehost_core.workers.process import ExitInfo, Worker
from imagehost_core.workers.watchdog import Watchdog

STATE_SECONDS = 5.0
"""How long to wait for the state of the pool, and for the exit of a worker process beyond its grace."""
RETRY_SECONDS = 1
"""`Retry-After` when there is no broker: its replacement takes half a second to start."""


class BorrowedWorker(Worker):
    """A worker process of the broker, used through its pipes.

    Args:
        connection: The connection of the request.
        state: The state of the process.
        requests: Descriptor of the pipe to send tasks to.
        results: Descriptor of the pipe to read results from.
        key: The key of the request.
    """

    def __init__(
        self, connection: socket.socket, state: WorkerState, requests: int, results: int, key: str | None
    ) -> None:
        super().__init__(os.fdopen(requests, "wb", buffering=0), os.fdopen(results, "rb", buffering=0))
        self.connection, self.key = connection, key
        self.sandbox, self.task_count, self.usage = state.sandbox, state.task_count, state.usage
        self._pid = state.pid
        self._lock = threading.Lock()
        self._exit_info: ExitInfo | None = None

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._pid

    def kill(self) -> None:
        """Have the process killed at once."""
        self.send(Command(Action.KILL))

    def end(self, grace: float = 0) -> ExitInfo:
        """Have the process ended; wait for its exit.

        Args:
            grace: Seconds to wait for it to exit before it is killed.
        """
        if self._exit_info is None:
            self.send(Command(Action.END, grace=grace))
            self._exit_info = self._receive_exit(grace + STATE_SECONDS)
        return self._exit_info

    def give_back(self) -> None:
        """Return the process to the broker."""
        retired = self.retired or self.interrupted
        state = WorkerState(self.pid, self.sandbox, self.task_count, self.usage, retired)
        self.close_pipes()
        self.send(Command(Action.RELEASE, state))

    def send(self, command: Command) -> None:
        """Send a command; without a broker there is nothing to command."""
        with suppress(OSError), self._lock:
            send(self.connection, command)

    def _receive_exit(self, timeout: float) -> ExitInfo:
        self.connection.settimeout(timeout)
        try:
            return messages.decode(_receive_line(self.connection), ExitReply).to_exit_info()
        except (OSError, FrameError):
            # Its worker processes ended with the broker.
            return ExitInfo("SIGKILL", False, f"worker process lost with its broker pid={self.pid}")


class BorrowedPool(WorkerPool):
    """The pool of the broker, as `ImageExecutor` uses it.

    It must not be used in a process forked from the one that created it.

    Args:
        broker: The socket (SOCK_DGRAM) to send requests to. It stays the same when the broker is replaced.
    """

    def __init__(self, broker: socket.socket) -> None:
        self._broker = broker
        # A caller may be an event loop, which must not wait for a broker that is missing for long.
        broker.setblocking(False)
        self.watchdog = Watchdog()
        self._lock = threading.Lock()
        self._waiting: dict[socket.socket, Future[Worker | None]] = {}
        self._in_use: set[BorrowedWorker] = set()
        self._by_key: dict[str, BorrowedWorker] = {}
        self._selector = selectors.DefaultSelector()
        self._stop_receiver, self._stop_sender = socket.socketpair()
        self._selector.register(self._stop_receiver, selectors.EVENT_READ)
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def load(self) -> PoolLoad:
        """The current load of the pool, by all its borrowers; zeros if there is no broker."""
        state = self._state()
        return PoolLoad(state.busy, state.idle, state.waiting)

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """The process IDs of all busy and idle worker processes, in ascending order."""
        return self._state().pids

    @property
    def closed(self) -> bool:
        """Whether the pool is closed."""
        return self._closed

    def start(self) -> None:
        """Do nothing: the broker starts a worker process when it starts."""

    def submit(self, request: WorkerRequest) -> Future[Worker | None]:
        """Queue a request at the broker, as `ProcessPool.submit` does."""
        future: Future[Worker | None] = Future()
        try:
            connection = self._connect(BorrowRequest.of(request))
        except OSError as cause:
            future.set_exception(_no_broker(cause))
            return future
        with self._lock:
            if self._closed:
                connection.close()
                future.set_exception(_closed())
                return future
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="imagehost-borrower", daemon=True)
                self._thread.start()
            self._waiting[connection] = future
            self._selector.register(connection, selectors.EVENT_READ, (request, future))
        future.add_done_callback(lambda done: self._forget(connection) if done.cancelled() else None)
        return future

    def release(self, worker: Worker) -> None:
        """Give back a worker process."""
        assert isinstance(worker, BorrowedWorker)
        worker.give_back()
        with self._lock:
            self._in_use.discard(worker)
        if worker.key is None:
            worker.connection.close()
        # Else `complete` closes the connection: until then the broker keeps the key as running.

    def complete(self, key: str, *, succeeded: bool, error: TaskError | None = None) -> None:
        """Mark the result of a key as available, or as failed, as in `WorkerPool`."""
        with self._lock:
            worker = self._by_key.pop(key, None)
        if worker is not None:
            worker.send(Command(Action.COMPLETE, succeeded=succeeded, error=error))
            worker.connection.close()

    def close(self) -> None:
        """Give up all requests; the broker ends the worker processes that are in use."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._stop_sender.send(b"\0")
        if self._thread is not None:
            self._thread.join()
        # Until its end the thread can receive worker processes; their connections stay open for their tasks.
        with self._lock:
            waiting = list(self._waiting.items())
            in_use = list(self._in_use)
        for worker in in_use:
            worker.kill()
        for connection, future in waiting:
            connection.close()
            if not future.done() and future.set_running_or_notify_cancel():
                future.set_exception(_closed())
        self.watchdog.close()
        self._selector.close()
        for end in (self._stop_receiver, self._stop_sender, self._broker):
            end.close()

    def _connect(self, message: BorrowRequest) -> socket.socket:
        connection, remote = socket.socketpair()
        try:
            with remote:
                send_fds(self._broker, [messages.encode(message)], [remote.fileno()])
        except BaseException:
            connection.close()
            raise
        return connection

    def _state(self) -> PoolState:
        try:
            with self._connect(BorrowRequest()) as connection:
                connection.settimeout(STATE_SECONDS)
                return messages.decode(_receive_line(connection), PoolState)
        except (OSError, FrameError):
            return PoolState(0, 0, 0, ())

    def _run(self) -> None:
        """Receive replies, on a thread of its own, until the pool is closed."""
        while not self._closed:
            for key, _ in self._selector.select():
                if key.data is not None:
                    self._resolve(key)

    def _resolve(self, key: selectors.SelectorKey) -> None:
        """Resolve the future of a request whose connection is readable: with a reply, or closed."""
        connection, (request, future) = key.fileobj, key.data
        assert isinstance(connection, socket.socket)
        if not future.set_running_or_notify_cancel():
            return
        self._stop_waiting(connection)
        try:
            worker = self._receive(connection, request)
        except (OSError, FrameError) as error:
            connection.close()
            future.set_exception(_no_broker(error))
            return
        except (UnavailableError, SharedFailure) as error:
            connection.close()
            future.set_exception(error)
            return
        if worker is None:
            connection.close()
        else:
            with self._lock:
                self._in_use.add(worker)
                if request.key is not None:
                    self._by_key[request.key] = worker
        future.set_result(worker)

    def _receive(self, connection: socket.socket, request: WorkerRequest) -> BorrowedWorker | None:
        data, descriptors, _, _ = recv_fds(connection, MAX_MESSAGE_BYTES, 2)
        reply = messages.decode(_receive_line(connection, data), BorrowReply)
        if reply.error is not None:
            raise UnavailableError(reply.error, retry_after=reply.retry_after)
        if reply.shared is not None:
            raise SharedFailure(reply.shared)
        if reply.worker is None:
            return None
        requests, results = descriptors
        return BorrowedWorker(connection, reply.worker, requests, results, request.key)

    def _forget(self, connection: socket.socket) -> None:
        """Drop a cancelled request: the broker takes it out of its queue when the connection closes."""
        self._stop_waiting(connection)
        connection.close()

    def _stop_waiting(self, connection: socket.socket) -> None:
        with self._lock:
            if self._waiting.pop(connection, None) is not None:
                self._selector.unregister(connection)


def _closed() -> UnavailableError:
    return UnavailableError("expected a pool that is open but received one that is closed")


def _no_broker(cause: Exception) -> UnavailableError:
    error = UnavailableError("expected the image workers to respond", retry_after=RETRY_SECONDS)
    error.__cause__ = cause
    return error


def _receive_line(connection: socket.socket, data: bytes = b"") -> bytes:
    """Return the next message.

    Args:
        connection: The connection to the broker.
        data: The start of the message.

    Raises:
        OSError: The connection has ended, or timed out.
    """
    while not data.endswith(b"\n"):
        received = connection.recv(MAX_MESSAGE_BYTES)
        if not received:
            raise ConnectionError("the broker has closed the connection")
        data += received
    return data
