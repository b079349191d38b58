"""The messages between a pool's broker and the processes that borrow its worker processes.

Each request has a connection of its own, a pair of connected sockets: the borrower sends one of the two with
its request, over the socket that all borrowers share, and the broker answers on it. So an answer needs no
number, and a borrower that dies is a closed connection. Messages are lines of JSON; the descriptors of a
lent worker process's pipes come with the reply (SCM_RIGHTS, unix(7)).
"""

from __future__ import annotations

import socket
import sys
from enum import Enum

from attrs import frozen

from imagehost_core.sandbox import SandboxStatus
from imagehost_core.workers import messages
from imagehost_core.workers.admission import JobClass, WorkerRequest
from imagehost_core.workers.messages import ResourceUsage, TaskError
from imagehost_core.workers.process import ExitInfo

if sys.platform == "win32":

    def send_fds(connection: socket.socket, buffers: list[bytes], descriptors: list[int]) -> int:
        """Raise NotImplementedError: Windows has no SCM_RIGHTS, so there is no broker."""
        raise NotImplementedError

    def recv_fds(
        connection: socket.socket, size: int, max_descriptors: int
    ) -> tuple[bytes, list[int], int, object]:
        """Raise NotImplementedError, as `send_fds`."""
        raise NotImplementedError
else:
    from socket import recv_fds as recv_fds
    from socket import send_fds as send_fds

MAX_MESSAGE_BYTES = 2**16
"""The longest message: the end of a worker process's standard error is the longest part of one."""


@frozen
class BorrowRequest:
    """`WorkerRequest` as a message; without `until` a request for the state of the pool."""

    until: float | None = None
    job_class: JobClass = JobClass.HEAVY
    key: str | None = None
    seconds: float = 0.0
    kind: str = ""
    flow: str = ""

    @classmethod
    def of(cls, request: WorkerRequest) -> BorrowRequest:
        """Return the message for a request."""
        return cls(request.until, request.job_class, request.key, request.seconds, request.kind, request.flow)

    def to_request(self, until: float) -> WorkerRequest:
        """Return the request in the message."""
        return WorkerRequest(until, self.job_class, self.key, self.seconds, self.kind, self.flow)


@frozen
class WorkerState:
    """What the borrower of a worker process and the broker tell each other about it.

    Attributes:
        pid: The process ID.
        sandbox: The status of its sandbox; `None` until it is known to be ready.
        task_count: Number of tasks it was sent.
        usage: Its resource usage as of the last result.
        retired: Whether it must be replaced.
    """

    pid: int
    sandbox: SandboxStatus | None
    task_count: int
    usage: ResourceUsage
    retired: bool


@frozen
class BorrowReply:
    """The answer to a request; with none of them, another task with the same key has succeeded.

    Attributes:
        worker: The lent worker process.
        error: Details of the `UnavailableError` instead.
        retry_after: Its `Retry-After`, in seconds.
        shared: The error of another task with the same key instead.
    """

    worker: WorkerState | None = None
    error: str | None = None
    retry_after: int = 1
    shared: TaskError | None = None


@frozen
class PoolState:
    """The load of the pool and the process IDs of its worker processes."""

    busy: int
    idle: int
    waiting: int
    pids: tuple[int, ...]


class Action(Enum):
    """What a borrower does with its worker process."""

    RELEASE = "release"
    KILL = "kill"
    END = "end"
    COMPLETE = "complete"


@frozen
class Command:
    """A message from the borrower of a worker process.

    Attributes:
        action: What to do.
        state: The state of the process, for `RELEASE`.
        grace: Seconds to wait for its exit, for `END`, which is answered with an `ExitReply`.
        succeeded: Whether the result of the key is available, for `COMPLETE`.
        error: The error for the requests that wait for the result, for `COMPLETE` after a failure.
    """

    action: Action
    state: WorkerState | None = None
    grace: float = 0.0
    succeeded: bool = False
    error: TaskError | None = None


@frozen
class ExitReply:
    """`ExitInfo` as a message."""

    signal: str | None
    killed_by_pool: bool
    message: str

    def to_exit_info(self) -> ExitInfo:
        """Return the value in the message."""
        return ExitInfo(self.signal, self.killed_by_pool, self.message)


def send(connection: socket.socket, message: object, descriptors: tuple[int, ...] = ()) -> None:
    """Send a message, whole or not at all.

    Raises:
        OSError: The other side is gone.
    """
    line = messages.encode(message) + b"\n"
    if descriptors:
        send_fds(connection, [line], list(descriptors))
    else:
        connection.sendall(line)
