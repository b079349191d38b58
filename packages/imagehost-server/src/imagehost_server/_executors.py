"""Thread limiters for blocking work: one for each kind of work, so that none starves another."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from imagehost_core.errors import UnavailableError
from imagehost_core.settings import RenderingSettings

P = ParamSpec("P")
T = TypeVar("T")

DATABASE_THREADS = 40
"""Threads for database calls of about a millisecond."""
FILE_THREADS = 16
"""Threads that read files for responses, 1 MiB at a time."""
PASSWORD_THREADS = 2
"""Threads that hash passwords; each hash takes 0.1 s and 64 MiB."""
MAX_WAITING_PASSWORDS = 50
"""Password checks that may wait: 2.5 s of work."""
RETRY_AFTER_SECONDS = 3
"""`Retry-After` of a request that is rejected because too many wait."""
RESERVED_RENDERINGS = 1
"""Renderings beside those in all processes of the pool: a small one has a process in reserve."""
UPLOAD_BODY_THREADS = 16
"""Threads that parse, hash and write upload bodies."""
MAX_WAITING_SCRAPES = 4
"""Requests for the metrics that may wait for another; each takes some milliseconds."""
DNS_THREADS = 8
"""Threads that resolve host names of webhook endpoints, which may take as long as a DNS timeout."""


SLOW_READ_SECONDS = 0.025
"""The mean duration of reads on the event loop from which on they use threads; most take 0.1 ms."""
MEAN_OF_READS = 8
"""The number of reads in that mean, which is weighted: a busy machine may interrupt a single one for long."""
THREADS_AFTER_SLOW_READS_SECONDS = 1.0
"""How long reads use threads after slow ones."""


class ThreadLimiter:
    """A limited number of threads for one kind of work, and a queue.

    Args:
        threads: The number of threads.
        max_waiting: Calls that may wait for a thread; unlimited unless given.
    """

    def __init__(self, threads: int, max_waiting: int | None = None) -> None:
        self._threads = threads
        self._max_waiting = max_waiting
        self._limiter: CapacityLimiter | None = None

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call` in a thread; cancelling the request does not interrupt it.

        Raises:
            UnavailableError: `max_waiting` calls are waiting.
        """
        # A CapacityLimiter belongs to an event loop, which may not run yet when this object is created.
        if self._limiter is None:
            self._limiter = CapacityLimiter(self._threads)
        if self._max_waiting is not None and self._limiter.statistics().tasks_waiting >= self._max_waiting:
            raise UnavailableError(
                "expected fewer requests of this kind at a time", retry_after=RETRY_AFTER_SECONDS
            )
        return await to_thread.run_sync(partial(call, *args, **kwargs), limiter=self._limiter)


class LoopExecutor:
    """Short reads of the database, which run on the event loop: a thread switch takes longer than they do.

    Reads do not wait for writers. Only a disk that is slow to read pages that are not in memory could delay
    all other requests, so slow reads make the next ones use threads for a while.

    Args:
        threads: Runs the reads after slow ones.
        clock: The source of the time, in seconds.
    """

    def __init__(self, threads: ThreadLimiter, clock: Callable[[], float] = time.perf_counter) -> None:
        self._threads = threads
        self._clock = clock
        self._mean_seconds = self._in_threads_until = 0.0

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call`."""
        started = self._clock()
        if started < self._in_threads_until:
            return await self._threads.run(call, *args, **kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            ended = self._clock()
            self._mean_seconds += (ended - started - self._mean_seconds) / MEAN_OF_READS
            if self._mean_seconds > SLOW_READ_SECONDS:
                self._mean_seconds, self._in_threads_until = 0.0, ended + THREADS_AFTER_SLOW_READS_SECONDS


class Executors:
    """The thread limiters of one server process.

    Args:
        rendering: Settings of the core's worker pool. An upload holds a thread while it runs or waits, so
            `uploads` has enough threads to fill the pool's queue, whose limit is then the effective one. A
            request for a variant holds one only while a worker process renders it.

    Attributes:
        database: Reads and writes of the database.
        reads: Reads of one record or of a page among the first ones.
        files: Reads of files.
        upload_bodies: Writes of request bodies to disk.
        passwords: Password hashes.
        dns: DNS lookups.
        metrics: Collection of the metrics, one at a time.
        variants: Data of renderings to and from worker processes: one thread for each process.
        uploads: Processing of uploads, separate from `variants` so that rendering cannot delay uploads.
    """

    def __init__(self, rendering: RenderingSettings) -> None:
        self.database = ThreadLimiter(DATABASE_THREADS)
        self.reads = LoopExecutor(self.database)
        self.files = ThreadLimiter(FILE_THREADS)
        self.upload_bodies = ThreadLimiter(UPLOAD_BODY_THREADS)
        self.passwords = ThreadLimiter(PASSWORD_THREADS, MAX_WAITING_PASSWORDS)
        self.dns = ThreadLimiter(DNS_THREADS)
        self.metrics = ThreadLimiter(1, MAX_WAITING_SCRAPES)
        pool_threads = 2 * (rendering.processes + rendering.queue)
        self.variants = ThreadLimiter(rendering.processes + RESERVED_RENDERINGS)
        self.uploads = ThreadLimiter(pool_threads, pool_threads)
