"""Thread limiters for blocking work: one for each kind of work, so that none starves another."""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import partial
from typing import Generic, ParamSpec, TypeVar

import anyio
from anyio import CapacityLimiter, Event, WouldBlock, fail_after, move_on_after, to_thread

from imagehost_core.errors import UnavailableError
from imagehost_core.limits import may_take
from imagehost_core.settings import RenderingSettings

P = ParamSpec("P")
T = TypeVar("T")

DATABASE_THREADS = 40
"""Threads for database calls of about a millisecond."""
FILE_THREADS = 16
"""Threads that read files for responses: a piece that is not in memory."""
MASTER_THREADS = 16
"""Threads that open masters, which may be downloaded from an object store."""
MAX_WAIT_SECONDS = 5.0
"""The longest time that a call waits for a thread while others wait for a database or an object store."""
PASSWORD_THREADS = 2
"""Threads that hash passwords; each hash takes 0.1 s and 64 MiB."""
MAX_WAITING_PASSWORDS = 400
"""Password checks of each standing that may wait: 20 s of work, half of it at most for one account name."""
MAX_PASSWORD_WAIT_SECONDS = 10.0
"""The longest time that a password check waits for its turn: people do not wait longer."""
MAX_DELAYED_SIGN_INS = 1_000
"""Sign-in attempts that may wait for their delay; each is a task without a thread."""
THREADS_RETRY_SECONDS = 3
"""`Retry-After` of a request that is rejected because too many wait."""
RESERVED_RENDERINGS = 1
"""Renderings beside those in the processes for all tasks: the worker pool has one process for light tasks."""
UPLOAD_BODY_THREADS = 16
"""Threads that parse, hash and write upload bodies."""
MAX_WAITING_SCRAPES = 4
"""Requests for the metrics that may wait for another; each takes some milliseconds."""
PROBE_THREADS = 5
"""One for each check of readiness: one that hangs delays no other."""
DNS_THREADS = 8
"""Threads that resolve host names of webhook endpoints, which may take as long as a DNS timeout."""


SLOW_READ_SECONDS = 0.025
"""The mean duration of reads on the event loop from which on they use threads; most take 0.1 ms."""
MEAN_OF_READS = 8
"""The number of reads in that mean, which is weighted: a busy machine may interrupt a single one for long."""
THREADS_AFTER_SLOW_READS_SECONDS = 1.0
"""How long reads use threads after slow ones."""


_TOO_MANY = "expected fewer requests of this kind at a time"


class ThreadLimiter:
    """A limited number of threads for one kind of work, and a queue.

    Args:
        threads: The number of threads.
        max_waiting: Calls that may wait for a thread; unlimited unless given.
        max_wait_seconds: The longest time that a call waits for a thread; unlimited unless given.
    """

    def __init__(
        self, threads: int, max_waiting: int | None = None, max_wait_seconds: float = math.inf
    ) -> None:
        self._threads = threads
        self._max_waiting = max_waiting
        self._max_wait_seconds = max_wait_seconds
        self._limiter: CapacityLimiter | None = None
        self._unlimited: CapacityLimiter | None = None

    @property
    def in_use(self) -> int:
        """The number of threads in use."""
        return self._limiter.borrowed_tokens if self._limiter else 0

    async def run(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call` in a thread; cancelling the request does not interrupt it.

        Raises:
            UnavailableError: `max_waiting` calls are waiting, or no thread was free in time.
        """
        # A CapacityLimiter belongs to an event loop, which may not run yet when this object is created.
        if self._limiter is None or self._unlimited is None:
            self._limiter = CapacityLimiter(self._threads)
            self._unlimited = CapacityLimiter(math.inf)
        if self._max_waiting is not None and self._limiter.statistics().tasks_waiting >= self._max_waiting:
            raise UnavailableError(_TOO_MANY, retry_after=THREADS_RETRY_SECONDS)
        bound = partial(call, *args, **kwargs)
        if math.isinf(self._max_wait_seconds):
            return await to_thread.run_sync(bound, limiter=self._limiter)
        await self._acquire(self._limiter, bound)
        try:
            return await to_thread.run_sync(bound, limiter=self._unlimited)
        finally:
            self._limiter.release_on_behalf_of(bound)

    async def _acquire(self, limiter: CapacityLimiter, borrower: object) -> None:
        """Wait for a thread, but no longer than `max_wait_seconds`."""
        try:
            limiter.acquire_on_behalf_of_nowait(borrower)
        except WouldBlock:
            try:
                with fail_after(self._max_wait_seconds):
                    await limiter.acquire_on_behalf_of(borrower)
            except TimeoutError:
                raise UnavailableError(_TOO_MANY, retry_after=THREADS_RETRY_SECONDS) from None


class SharedThreadLimiter:
    """A limited number of threads for one kind of work of several owners, without a queue.

    A call gets a thread if its owner holds fewer than are free (`may_take`).

    Args:
        threads: The number of threads.
    """

    def __init__(self, threads: int) -> None:
        self._free = threads
        self._held = Counter[Hashable]()
        self.threads = ThreadLimiter(threads)

    async def run(self, owner: Hashable, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of `call` in a thread; cancelling the request does not interrupt it.

        Args:
            owner: The owner of the call, such as the account that sent the request.
            call: The function.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Raises:
            UnavailableError: The owner holds as many threads as are free.
        """
        if not may_take(self._held[owner], self._free):
            raise UnavailableError(
                "expected fewer requests of this kind from one account at a time",
                retry_after=THREADS_RETRY_SECONDS,
            )
        self._held[owner] += 1
        self._free -= 1
        try:
            return await self.threads.run(call, *args, **kwargs)
        finally:
            self._free += 1
            self._held[owner] -= 1
            if not self._held[owner]:
                del self._held[owner]


class FairQueue(Generic[T]):
    """A limited queue of items of owners and their clients: owners take turns, and so do an owner's clients.

    An item gets a place if its owner leaves more of them free than its client holds (`may_take`): another
    owner finds one, and so does another client of this owner.

    Args:
        places: The most items.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._owners = OrderedDict[str, OrderedDict[str, deque[T]]]()

    def add(self, owner: str, client: str, item: T) -> bool:
        """Add an item, and return whether there was a place."""
        clients = self._owners.get(owner, OrderedDict())
        items = clients.get(client, deque())
        if not may_take(len(items), self._free - sum(map(len, clients.values()))):
            return False
        self._free -= 1
        self._owners.setdefault(owner, clients).setdefault(client, items).append(item)
        return True

    def next(self) -> T | None:
        """Remove and return the item whose turn it is."""
        if not self._owners:
            return None
        self._free += 1
        owner, clients = self._owners.popitem(last=False)
        client, items = clients.popitem(last=False)
        item = items.popleft()
        if items:
            clients[client] = items
        if clients:
            self._owners[owner] = clients
        return item

    def remove(self, owner: str, client: str, item: T) -> None:
        """Remove an item that waits no longer."""
        self._free += 1
        clients = self._owners[owner]
        clients[client].remove(item)
        if not clients[client]:
            del clients[client]
        if not clients:
            del self._owners[owner]


class Standing(IntEnum):
    """What is known of the client that sends a password; those of a lower number do not wait for the others.

    Attributes:
        KNOWN: A session of the account began at its IP address, or it has one now.
        NEW: Its IP address has sent no wrong password in this minute.
        FAILED: It has, or others are being verified.
    """

    KNOWN = 0
    NEW = 1
    FAILED = 2


class FairThreadLimiter:
    """A limited number of threads for one kind of work, with a `FairQueue` for each standing of clients.

    Args:
        threads: The number of threads.
        max_waiting: Calls of each standing that may wait for a thread.
        max_wait_seconds: The longest time that a call waits for its turn; unlimited unless given.
    """

    def __init__(self, threads: int, max_waiting: int, max_wait_seconds: float = math.inf) -> None:
        self._idle = threads
        self._max_wait_seconds = max_wait_seconds
        self.threads = ThreadLimiter(threads)
        self._queues = [FairQueue[Event](max_waiting) for _ in Standing]

    async def run(
        self,
        standing: Standing,
        keys: tuple[str, str],
        call: Callable[P, T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Return the result of `call` in a thread; cancelling the request does not interrupt it.

        Args:
            standing: The standing of the client.
            keys: The owner and the client that the call is for.
            call: The function.
            args: Its positional arguments.
            kwargs: Its keyword arguments.

        Raises:
            UnavailableError: The queue has no place for the client of the owner, or it was not its turn in
                time.
        """
        if self._idle:
            self._idle -= 1
        else:
            await self._wait(self._queues[standing], *keys)
        try:
            return await self.threads.run(call, *args, **kwargs)
        finally:
            self._release()

    async def _wait(self, queue: FairQueue[Event], owner: str, client: str) -> None:
        turn = Event()
        if not queue.add(owner, client, turn):
            raise UnavailableError(_TOO_MANY, retry_after=THREADS_RETRY_SECONDS)
        try:
            with fail_after(self._max_wait_seconds):
                await turn.wait()
        except BaseException as error:
            if turn.is_set():
                self._release()
            else:
                queue.remove(owner, client, turn)
            if isinstance(error, TimeoutError):
                raise UnavailableError(_TOO_MANY, retry_after=THREADS_RETRY_SECONDS) from None
            raise

    def _release(self) -> None:
        """Give a thread to the call whose turn it is."""
        if turn := next(filter(None, (queue.next() for queue in self._queues)), None):
            turn.set()
        else:
            self._idle += 1


class PasswordAttempts:
    """The password attempts of each client that are in progress, for which further ones can wait."""

    def __init__(self) -> None:
        self._in_progress = Counter[str]()
        self._ended = dict[str, Event]()

    @contextmanager
    def attempt(self, client: str) -> Iterator[None]:
        """Run a block that is an attempt of a client, to its end."""
        self._in_progress[client] += 1
        try:
            yield
        finally:
            self._in_progress[client] -= 1
            if not self._in_progress[client]:
                del self._in_progress[client]
            if ended := self._ended.pop(client, None):
                ended.set()

    async def wait_for_one(self, client: str) -> bool:
        """Return whether an attempt of a client is in progress and ends in `MAX_PASSWORD_WAIT_SECONDS`."""
        if client in self._in_progress:
            ended = self._ended.setdefault(client, Event())
            with move_on_after(MAX_PASSWORD_WAIT_SECONDS):
                await ended.wait()
                return True
        return False


class DelayQueue:
    """Requests that wait for some time, which hold neither a thread nor a connection of the database.

    Args:
        max_waiting: The most requests that wait. Further ones do not: a delay refuses nothing.
        sleep: Waits for a number of seconds.
    """

    def __init__(self, max_waiting: int, sleep: Callable[[float], Awaitable[object]] = anyio.sleep) -> None:
        self._places, self._sleep = max_waiting, sleep

    async def wait(self, seconds: float) -> None:
        """Wait, if there is a place."""
        if seconds and self._places:
            self._places -= 1
            try:
                await self._sleep(seconds)
            finally:
                self._places += 1


class LoopExecutor:
    """Short reads of the database, which run on the event loop: a thread switch takes longer than they do.

    It is for SQLite, whose reads do not wait for writers. Only a disk that is slow to read pages that are not
    in memory could delay all other requests, so slow reads make the next ones use threads for a while.

    Args:
        threads: Runs the reads after slow ones.
        clock: The source of the time, in seconds.
    """

    def __init__(self, threads: ThreadLimiter, clock: Callable[[], float] = time.perf_counter) -> None:
        self._threads = threads
        self._clock = clock
        self._mean_seconds = self._in_threads_until = 0.0

    @property
    def is_on_loop(self) -> bool:
        """Whether the next call runs on the event loop."""
        return self._clock() >= self._in_threads_until

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
            half of the threads for `uploads`, which one account can hold, fill the pool's queue. A request
            for a variant holds one only while a worker process renders it.
        is_database_local: Whether the database is a file of this machine. A read of a server over the network
            would block the event loop for as long as that takes to respond.

    Attributes:
        database: Reads and writes of the database.
        reads: Reads of one record or of a page among the first ones.
        files: Reads of files.
        masters: Opening of masters. They are separate from `files` so that an object store which does not
            respond cannot delay responses from the disk.
        slow_writes: Writes of request bodies to disk, and deletions of many images.
        passwords: Password hashes: known clients come first, then those that sent no wrong password, then the
            others. Of each, accounts take turns, and so do the IP addresses that try one's password.
        password_attempts: The attempts to send a right password, until it is known whether each was.
        sign_in_delays: Sign-in attempts before their hashes.
        dns: DNS lookups.
        probes: Checks of readiness, one of each kind at a time.
        metrics: Collection of the metrics, one at a time.
        variants: Data of renderings to and from worker processes: one thread for each process.
        uploads: Processing of uploads, which accounts share. They are separate from `variants` so that
            rendering cannot delay uploads.
    """

    def __init__(self, rendering: RenderingSettings, *, is_database_local: bool = True) -> None:
        self.database = ThreadLimiter(DATABASE_THREADS, max_wait_seconds=MAX_WAIT_SECONDS)
        self.reads = LoopExecutor(self.database) if is_database_local else self.database
        self.files = ThreadLimiter(FILE_THREADS)
        self.masters = ThreadLimiter(MASTER_THREADS, max_wait_seconds=MAX_WAIT_SECONDS)
        self.slow_writes = ThreadLimiter(UPLOAD_BODY_THREADS)
        self.passwords = FairThreadLimiter(PASSWORD_THREADS, MAX_WAITING_PASSWORDS, MAX_PASSWORD_WAIT_SECONDS)
        self.password_attempts = PasswordAttempts()
        self.sign_in_delays = DelayQueue(MAX_DELAYED_SIGN_INS)
        self.dns = ThreadLimiter(DNS_THREADS)
        self.probes = ThreadLimiter(PROBE_THREADS)
        self.metrics = ThreadLimiter(1, MAX_WAITING_SCRAPES)
        pool_threads = 2 * (rendering.processes + rendering.queue)
        self.variants = ThreadLimiter(rendering.processes + RESERVED_RENDERINGS)
        self.uploads = SharedThreadLimiter(pool_threads)

    @property
    def reads_on_loop(self) -> bool:
        """Whether `reads` runs the next call on the event loop, so that it ends before anything else runs."""
        return isinstance(self.reads, LoopExecutor) and self.reads.is_on_loop

    def threads_in_use(self) -> dict[str, int]:
        """Return the number of threads in use by the kind of work."""
        limited = {"passwords": self.passwords.threads, "uploads": self.uploads.threads}
        for name in ("database", "files", "masters", "slow_writes", "dns", "probes", "metrics", "variants"):
            limited[name] = getattr(self, name)
        return {name: threads.in_use for name, threads in limited.items()}
