"""Measurements: what happens inside a host, for the metrics and traces of the program that embeds it.

The host calls one function, the observer, with a value for each thing that has happened. It calls it in the
thread and in the context (`contextvars`) of the work, so that an observer can tell whose work it was. An
observer must be quick and thread-safe, and must not raise.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen


@frozen
class Measurement:
    """A thing that has happened; each kind is a subclass in this module."""


@frozen
class TransactionEnded(Measurement):
    """A write transaction of the database has ended.

    Attributes:
        waited_seconds: How long it waited for other writes.
        seconds: How long it ran after that, with its commit.
        committed: Whether it was committed.
    """

    waited_seconds: float
    seconds: float
    committed: bool


@frozen
class VariantFound(Measurement):
    """A variant was requested, and was found in a tier of the cache or rendered.

    Attributes:
        tier: `memory`, `disk`, or `render`.
    """

    tier: str


@frozen
class WorkerAcquired(Measurement):
    """A task has left the queue of the image worker processes.

    Attributes:
        lane: `light` or `heavy`.
        waited_seconds: How long it waited.
        admitted: Whether it has a worker process; `False` if it was rejected, at once or at its deadline.
        flow: The key of the account or IP address that waited behind its own tasks.
    """

    lane: str
    waited_seconds: float
    admitted: bool
    flow: str


@frozen
class PoolLoad(Measurement):
    """The load of the pool of image worker processes has changed.

    Attributes:
        busy: The number of worker processes that run a task.
        idle: The number of worker processes without a task.
        waiting: The number of requests in the queue.
    """

    busy: int
    idle: int
    waiting: int


@frozen
class TaskEnded(Measurement):
    """A task of an image worker process has ended.

    Attributes:
        task: `render` or `ingest`.
        lane: `light` or `heavy`.
        format: The format of a variant, or of an uploaded file.
        seconds: How long it ran, without the wait for a worker process.
        outcome: `ok`, `error` (the task has raised one), `timeout`, `crashed`, `killed`, `out_of_memory` or
            `not_started`.
    """

    task: str
    lane: str
    format: str
    seconds: float
    outcome: str


@frozen
class WorkerStarted(Measurement):
    """An image worker process was started."""


@frozen
class WorkerExited(Measurement):
    """An image worker process has ended.

    Attributes:
        cause: `ended` by the pool, when it was idle, retired or too slow; `killed` from outside, such as by
            the kernel when memory runs out; or `crashed`.
    """

    cause: str


@frozen
class UploadEnded(Measurement):
    """An upload of a file has ended.

    Attributes:
        code: `ok`, or the code of the error.
        received_bytes: The size of the file.
        stored_bytes: The size of the master; 0 after an error.
    """

    code: str
    received_bytes: int
    stored_bytes: int


@frozen
class DeliveryAttempted(Measurement):
    """An attempt to deliver a webhook has ended.

    Attributes:
        succeeded: Whether the endpoint has accepted it.
        seconds: How long it took.
    """

    succeeded: bool
    seconds: float


@frozen
class CachePurgeAttempted(Measurement):
    """A request that removes an image from the shared cache has ended.

    Attributes:
        succeeded: Whether the cache has confirmed it.
        seconds: How long it took.
        given_up: Whether it failed and is not retried any more.
    """

    succeeded: bool
    seconds: float
    given_up: bool = False


@frozen
class VariantsSwept(Measurement):
    """The variant cache on the disk was measured, and reduced to its limit.

    Attributes:
        stored_bytes: The bytes of all variants that are left.
    """

    stored_bytes: int


@frozen
class VariantsEvicted(Measurement):
    """Variants were deleted from the cache on the disk, to stay within a limit.

    Attributes:
        limit: `cache`, the bytes of all variants, or `image`, the number of variants of an image.
        count: The number of variants, at least 1.
        size_bytes: The bytes of their files.
    """

    limit: str
    count: int
    size_bytes: int


@frozen
class StoreRequestEnded(Measurement):
    """A request to the object store has ended; one that is sent again is another.

    Attributes:
        operation: `head`, `create`, `put`, `get`, `list` or `delete`.
        succeeded: Whether the store has responded, also that there is no such object.
        seconds: How long it took, with the body.
    """

    operation: str
    succeeded: bool
    seconds: float


@frozen
class StoreBytesTransferred(Measurement):
    """The bytes of an object were sent to the object store, or received from it.

    Attributes:
        operation: `create`, `put` or `get`.
        size_bytes: Their number.
    """

    operation: str
    size_bytes: int


@frozen
class SharedDatabaseLoad(Measurement):
    """The load of this process as a user of a database that several hosts share, each second.

    Attributes:
        connections_used: The number of connections of the pool that are in use.
        connections_waiting: The number of threads that wait for one.
        lease_age_seconds: How long ago the lease of the caches began, also of one that is over.
        changes_waiting: The number of changes that other hosts have not acknowledged yet.
    """

    connections_used: int
    connections_waiting: int
    lease_age_seconds: float
    changes_waiting: int


@frozen
class InvalidationEnded(Measurement):
    """A change no longer waits until other hosts have invalidated their caches.

    Attributes:
        seconds: How long it waited.
        acknowledged: Whether all have acknowledged it, or else their leases have ended.
    """

    seconds: float
    acknowledged: bool


Observer = Callable[[Measurement], None]
"""Receives each measurement."""


def ignore(_measurement: Measurement) -> None:
    """Do nothing: the observer of a host whose program wants no measurements."""
