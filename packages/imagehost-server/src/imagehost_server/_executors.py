"""Where blocking work runs: executors of threads, so that no kind of work starves another."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from imagehost_core.errors import UnavailableError
from imagehost_core.settings import RenderingSettings

P = ParamSpec("P")
T = TypeVar("T")

DATABASE_THREADS = 40
"""Requests that read or write the catalog; each takes about a millisecond."""
FILE_THREADS = 16
"""Files that are being read for an answer, a megabyte at a time."""
PASSWORD_THREADS = 2
"""Passwords that are being checked; each takes a tenth of a second and 64 MiB."""
MAX_WAITING_PASSWORDS = 50
"""Passwords that may wait to be checked: two and a half seconds of work."""
RETRY_AFTER_SECONDS = 3
"""When to try again where too much work waits."""
WAITERS_PER_THREAD = 4
"""How many times as many requests for variants may wait for a thread as there are: when many want the same
picture at once, one of them waits for the pool, and all others for that one."""
UPLOAD_BODY_THREADS = 16
"""Bodies that are being written to disk."""
DNS_THREADS = 8
"""Destinations whose names are being resolved, which takes as long as somebody else's servers like."""


class ThreadLimiter:
    """A bounded number of threads for one kind of work; more work waits for a free one.

    Args:
        threads: How many.
        queue: How much work may wait; all, unless given.
    """

    def __init__(self, threads: int, queue: int | None = None) -> None:
        self._threads = threads
        self._queue = queue
        self._limiter: CapacityLimiter | None = None

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what `call` returns; it is not abandoned when the request is.

        Raises:
            UnavailableError: Too much work waits already.
        """
        # A limiter belongs to an event loop, and there is none yet when a room is made.
        if self._limiter is None:
            self._limiter = CapacityLimiter(self._threads)
        if self._queue is not None and self._limiter.statistics().tasks_waiting >= self._queue:
            raise UnavailableError(
                "expected fewer requests of this kind at a time", retry_after=RETRY_AFTER_SECONDS
            )
        return await to_thread.run_sync(partial(call, *args, **kwargs), limiter=self._limiter)


class Executors:
    """The executors of one server process.

    Args:
        workers: The pool of the core. Whoever waits for it holds a thread, so there are as many as can be at
            work or wait in its queue: with different work, the queue is what refuses.

    Attributes:
        catalog: Quick reads and writes.
        files: Reading files.
        bodies: Writing bodies to disk.
        passwords: Checking passwords.
        names: Resolving names.
        variants: Making variants.
        uploads: Storing uploads, which do not wait for variants, however many are asked for.
    """

    def __init__(self, workers: RenderingSettings) -> None:
        self.database = ThreadLimiter(DATABASE_THREADS)
        self.files = ThreadLimiter(FILE_THREADS)
        self.upload_bodies = ThreadLimiter(UPLOAD_BODY_THREADS)
        self.passwords = ThreadLimiter(PASSWORD_THREADS, MAX_WAITING_PASSWORDS)
        self.dns = ThreadLimiter(DNS_THREADS)
        for_pool = 2 * (workers.processes + workers.queue)
        self.variants = ThreadLimiter(for_pool, WAITERS_PER_THREAD * for_pool)
        self.uploads = ThreadLimiter(for_pool, for_pool)
