"""The rows of members and of invalidations in PostgreSQL.

One connection belongs to a member: it receives the notifications that are sent to the member's channel.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import psycopg
from attrs import field, frozen

from imagehost_core.db.engines.membership import Invalidation, MemberState, Snapshot

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
