"""Membership: cache coherence of the processes of several hosts that share one database.

A *member* is a process that serves from memory. It has a row in the table `members`, with the last snapshot
of the database of which it has applied every invalidation, and a lease.

1. The transaction of a change stores its invalidations: the keys of the cache entries that become invalid.
2. A member reads, in one snapshot, the invalidations that its last acknowledged snapshot does not include;
   applies them; stores the snapshot as acknowledged; and only then extends its lease, to `LEASE_SECONDS`
   after the time *before* the read. So during a lease, every change that was committed before the last read
   is applied, and the order in which transactions commit does not matter.
3. Before a change is answered, its process waits until every member of another host has acknowledged a
   snapshot that includes the change, or until `LEASE_SECONDS` and a margin have passed since the commit: by
   then, every lease that began with a read from before the change has ended.

The row of a member that is silent for as long is deleted, provided that its counter of heartbeats has not
changed, so that only one change waits for a host that is cut off. That member finds its row missing when it
acknowledges, gets no lease, and joins anew with empty caches.

No time of day decides anything, and no two clocks are compared: each process measures durations of its own.

The classes of this module do no input and output; `coherence` runs them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import psycopg
from attrs import define, field, frozen

from imagehost_core._util.clock import ElapsedClock, elapsed_seconds
from imagehost_core.cluster.cache_lease import CacheLease

INSERT_INVALIDATION = """
INSERT INTO invalidations (host, origin, keys) VALUES (:host, :origin, :keys)
RETURNING CAST(transaction_id AS TEXT) AS transaction_id
"""
"""The statement that stores an invalidation in the transaction of its change."""

# Only the commit of a join waits for the disk: changes wait for the members in the table after a crash, too.
_SETTINGS = "SET synchronous_commit = off"
_JOIN = """
INSERT INTO members (id, host, acknowledged) VALUES (%(id)s, %(host)s, pg_current_snapshot())
ON CONFLICT (id) DO UPDATE SET acknowledged = excluded.acknowledged, heartbeats = members.heartbeats + 1
RETURNING acknowledged::text AS acknowledged
"""
_READ = """
SELECT pg_current_snapshot()::text AS snapshot, new.origin, new.keys
FROM (SELECT) AS one
LEFT JOIN invalidations AS new ON new.transaction_id >= pg_snapshot_xmin(%(acknowledged)s::pg_snapshot)
    AND NOT pg_visible_in_snapshot(new.transaction_id, %(acknowledged)s::pg_snapshot)
    AND new.host <> %(host)s
"""
_ACKNOWLEDGE = """
WITH acknowledgement AS (
    UPDATE members SET acknowledged = %(snapshot)s::pg_snapshot, heartbeats = heartbeats + 1
    WHERE id = %(id)s RETURNING id
)
SELECT id, (
    SELECT count(pg_notify('imagehost_' || origin, id || ' ' || %(snapshot)s))
    FROM unnest(%(origins)s::text[]) AS waiting (origin)
) AS notified FROM acknowledgement
"""
_OTHERS = "SELECT id, acknowledged::text AS acknowledged, heartbeats FROM members WHERE host <> %(host)s"
_NOTIFY_OTHERS = """
SELECT id, acknowledged::text AS acknowledged, heartbeats, pg_notify('imagehost_' || id, '') AS notified
FROM members WHERE host <> %(host)s
"""
_PRUNE = """
DELETE FROM invalidations WHERE transaction_id < (SELECT min(pg_snapshot_xmin(acknowledged)) FROM members)
"""


@frozen
class Acknowledgement:
    """A notification that another member has acknowledged a snapshot."""

    member_id: str
    snapshot: Snapshot


@frozen
class PostgresMemberTable:
    """The table of members, as one member uses it over its own connection.

    Attributes:
        id: The member.
        host: The host of the member: processes of one host invalidate each other's caches without a database.
    """

    _connection: psycopg.Connection[dict[str, Any]] = field(repr=False)
    id: str
    host: str

    def listen(self) -> None:
        """Begin to receive notifications."""
        self._connection.execute(_SETTINGS)
        # The id is hexadecimal.
        self._connection.execute(f'LISTEN "imagehost_{self.id}"')

    def notifications(self) -> Iterator[Acknowledgement | None]:
        """Yield the notifications that were received: acknowledgements, and `None` for new invalidations."""
        for notification in self._connection.notifies(timeout=0):
            member_id, _, snapshot = notification.payload.partition(" ")
            yield Acknowledgement(member_id, Snapshot.parse(snapshot)) if snapshot else None

    def join(self) -> Snapshot:
        """Insert or replace the member's row, durably; return the snapshot stored in it."""
        with self._connection.transaction():
            self._connection.execute("SET LOCAL synchronous_commit = on")
            row = self._connection.execute(_JOIN, {"id": self.id, "host": self.host}).fetchone()
        assert row is not None
        return Snapshot.parse(row["acknowledged"])

    def read(self, acknowledged: Snapshot) -> tuple[Snapshot, tuple[Invalidation, ...]]:
        """Return the current snapshot, and the invalidations of other hosts that an earlier one lacks."""
        values = {"acknowledged": acknowledged.text, "host": self.host}
        rows = self._connection.execute(_READ, values).fetchall()
        return Snapshot.parse(rows[0]["snapshot"]), tuple(
            Invalidation(row["origin"], tuple(row["keys"].split())) for row in rows if row["keys"] is not None
        )

    def acknowledge(self, snapshot: Snapshot, origins: Collection[str]) -> bool:
        """Store a snapshot as acknowledged and notify members that wait; return whether the row exists."""
        values = {"id": self.id, "snapshot": snapshot.text, "origins": list(origins)}
        return self._connection.execute(_ACKNOWLEDGE, values).fetchone() is not None

    def leave(self) -> None:
        """Delete the member's row."""
        self._connection.execute("DELETE FROM members WHERE id = %(id)s", {"id": self.id})

    def others(self, *, notify: bool) -> Mapping[str, MemberState]:
        """Return the members of other hosts by id.

        Args:
            notify: Whether to notify each of them of new invalidations.
        """
        rows = self._connection.execute(_NOTIFY_OTHERS if notify else _OTHERS, {"host": self.host})
        return {
            row["id"]: MemberState(Snapshot.parse(row["acknowledged"]), row["heartbeats"]) for row in rows
        }

    def remove(self, member_id: str, heartbeats: int) -> None:
        """Delete the row of another member, unless its number of heartbeats is another."""
        self._connection.execute(
            "DELETE FROM members WHERE id = %(id)s AND heartbeats = %(heartbeats)s",
            {"id": member_id, "heartbeats": heartbeats},
        )

    def prune(self) -> None:
        """Delete the invalidations that all members have acknowledged."""
        self._connection.execute(_PRUNE)


LEASE_SECONDS = 3.0
"""Seconds for which a member may serve from memory after it began to read the invalidations."""
MARGIN_SECONDS = 0.5
"""Seconds that a change waits longer than a lease: clocks of two hosts may differ in rate by 16 %."""
HEARTBEAT_SECONDS = 1.0
"""Seconds between two reads of a member that is sent no notification."""


@frozen
class Snapshot:
    """A snapshot of the database: which transactions had ended when it was taken.

    Attributes:
        text: PostgreSQL's `pg_snapshot`: `xmin:xmax:` and the ids between that were in progress.
        xmax: The first transaction id that was not assigned or had not ended, and none above had.
        in_progress: The ids below `xmax` of transactions in progress.
    """

    text: str
    xmax: int = field(repr=False)
    in_progress: frozenset[int] = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Return the snapshot of a `pg_snapshot` as text."""
        _, xmax, ids = text.split(":")
        return cls(text, int(xmax), frozenset(map(int, filter(None, ids.split(",")))))

    def includes(self, transaction_id: int) -> bool:
        """Return whether a transaction had ended."""
        return transaction_id < self.xmax and transaction_id not in self.in_progress


@frozen
class Invalidation:
    """Cache entries that a change of another host makes invalid.

    Attributes:
        origin: The member that made the change, which waits for the acknowledgement.
        keys: The keys of the cache entries.
    """

    origin: str
    keys: tuple[str, ...]


@frozen
class InvalidationRead:
    """What a member has read: the invalidations that are new in a snapshot.

    Attributes:
        started: The time before the read, of the member's clock.
        snapshot: The snapshot.
        invalidations: The invalidations that the last acknowledged snapshot does not include.
    """

    started: float
    snapshot: Snapshot
    invalidations: tuple[Invalidation, ...]

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all invalidations."""
        return frozenset(key for invalidation in self.invalidations for key in invalidation.keys)


@frozen
class MemberState:
    """The row of a member.

    Attributes:
        acknowledged: The last snapshot that it has acknowledged.
        heartbeats: The number of its acknowledgements.
    """

    acknowledged: Snapshot
    heartbeats: int


class Member:
    """This process as a member; one thread uses it.

    Args:
        table: The table of members.
        lease: The lease that the caches of this process check.
        apply: Invalidates the cache entries of keys.
        reset: Invalidates all cache entries.
    """

    def __init__(
        self,
        table: PostgresMemberTable,
        lease: CacheLease,
        apply: Callable[[Collection[str]], object],
        reset: Callable[[], object],
    ) -> None:
        self._table = table
        self._lease = lease
        self._apply = apply
        self._reset = reset
        self._acknowledged: Snapshot | None = None

    def join(self) -> None:
        """Join with empty caches, for the first time or after the connection to the database was lost.

        What was read before may be unknown to the database now: it may be another server, which has not
        received the last transactions of the one before. The lease ends first: the row that this stores
        claims that all invalidations so far are applied.
        """
        self._lease.end()
        self._reset()
        self._acknowledged = self._table.join()

    def refresh(self, *, heartbeat: bool) -> None:
        """Apply what other hosts have changed, and extend the lease; join anew if the row is missing.

        Args:
            heartbeat: Whether to acknowledge even if nothing has changed.
        """
        read = self.read()
        if read.invalidations or heartbeat:
            self.apply(read)
            if not self.acknowledge(read):
                self.join()

    def read(self) -> InvalidationRead:
        """Read the invalidations since the last acknowledged snapshot."""
        assert self._acknowledged is not None
        started = self._lease.clock()
        return InvalidationRead(started, *self._table.read(self._acknowledged))

    def apply(self, read: InvalidationRead) -> None:
        """Invalidate the cache entries of keys that were read."""
        if read.keys:
            self._apply(read.keys)

    def acknowledge(self, read: InvalidationRead) -> bool:
        """Acknowledge what was applied, and extend the lease; return whether the member's row exists.

        Without its row no change waits for this member: it must join anew.
        """
        origins = {invalidation.origin for invalidation in read.invalidations}
        if not self._table.acknowledge(read.snapshot, origins):
            self._lease.end()
            return False
        self._acknowledged = read.snapshot
        self._lease.until = max(self._lease.until, read.started + LEASE_SECONDS)
        return True

    def leave(self) -> None:
        """Stop serving from memory, and then let no change wait for this member."""
        self._lease.end()
        self._table.leave()


@define(eq=False)
class PendingChange:
    """A committed change that is not answered yet.

    Attributes:
        transaction_id: Its transaction.
        deadline: The time by which every lease from before the change has ended.
        waiting_for: The members that have not acknowledged it, or `None` if they were not read since the
            commit.
        is_done: Set when all have.
    """

    transaction_id: int
    deadline: float
    waiting_for: set[str] | None = None
    is_done: threading.Event = field(factory=threading.Event)


class ChangeTracker:
    """The changes of this process that wait for members; thread-safe.

    Args:
        clock: The source of elapsed time.
    """

    def __init__(self, clock: ElapsedClock = elapsed_seconds) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pending: list[PendingChange] = []
        self._unknown_until = -math.inf

    def add(self, transaction_id: int) -> PendingChange:
        """Begin to wait for the members of other hosts, after the commit of a change."""
        change = PendingChange(transaction_id, self._clock() + LEASE_SECONDS + MARGIN_SECONDS)
        with self._lock:
            self._pending.append(change)
        return change

    def pending(self) -> tuple[PendingChange, ...]:
        """Return the changes that wait now, to be passed to `update` with the members that are read next."""
        with self._lock:
            return tuple(self._pending)

    def update(self, changes: Iterable[PendingChange], members: Mapping[str, MemberState]) -> None:
        """Store which members changes wait for.

        Args:
            changes: Changes that were pending before the members were read.
            members: The members of other hosts, by id.
        """
        for change in changes:
            change.waiting_for = {
                member_id
                for member_id, member in members.items()
                if not member.acknowledged.includes(change.transaction_id)
            }
        self._finish()

    def acknowledged(self, member_id: str, snapshot: Snapshot) -> None:
        """Store that a member has acknowledged a snapshot."""
        for change in self.pending():
            if change.waiting_for is not None and snapshot.includes(change.transaction_id):
                change.waiting_for.discard(member_id)
        self._finish()

    def reconnected(self) -> None:
        """Let changes wait for a whole lease from now on, as the table of members may be incomplete.

        After a failover to another server, members may have joined of which it knows nothing.
        """
        self._unknown_until = self._clock() + LEASE_SECONDS + MARGIN_SECONDS

    def wait(self, change: PendingChange) -> bool:
        """Wait for a change; return whether all members have acknowledged it.

        If not, those that have not do not serve from memory any more.
        """
        if not change.is_done.wait(max(0.0, change.deadline - self._clock())):
            with self._lock:
                if change in self._pending:
                    self._pending.remove(change)
            return False
        return True

    def _finish(self) -> None:
        if self._clock() < self._unknown_until:
            return
        with self._lock:
            done = [change for change in self._pending if change.waiting_for == set()]
            self._pending = [change for change in self._pending if change.waiting_for != set()]
        for change in done:
            change.is_done.set()


class SilenceDetector:
    """The members of other hosts that have stopped to acknowledge; one thread uses it.

    Args:
        clock: The source of elapsed time.
    """

    def __init__(self, clock: ElapsedClock = elapsed_seconds) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[int, float]] = {}

    def silent(self, members: Mapping[str, MemberState]) -> dict[str, int]:
        """Return the number of heartbeats of each member whose leases have all ended, by id.

        Args:
            members: The members of other hosts, as they were read now.
        """
        now, seen = self._clock(), self._seen
        self._seen = {
            member_id: seen[member_id]
            if member_id in seen and seen[member_id][0] == member.heartbeats
            else (member.heartbeats, now)
            for member_id, member in members.items()
        }
        silence = LEASE_SECONDS + MARGIN_SECONDS
        return {id_: beats for id_, (beats, since) in self._seen.items() if now - since >= silence}
