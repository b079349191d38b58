"""Cache coherence of a process that shares its database in PostgreSQL with other hosts.

One thread and one connection run the protocol of `membership`. The thread takes no lock that a change
holds while it waits for other members, so two hosts that wait for each other's acknowledgement do not block
each other. Everything that arrives while it is busy is handled together: members apply and acknowledge many
changes at once, and one query reads the members for all changes that wait.
"""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from functools import partial
from typing import Any

import psycopg

from imagehost_core._util.clock import SynchronizedClock
from imagehost_core.cluster.membership import (
    HEARTBEAT_SECONDS,
    LEASE_SECONDS,
    Acknowledgement,
    ChangeTracker,
    Member,
    PostgresMemberTable,
    SilenceDetector,
)
from imagehost_core.cluster.postgres_connection import read_server_clock
from imagehost_core.cluster.remote_changes import ProcessCaches
from imagehost_core.observer import InvalidationEnded, Observer, SharedDatabaseLoad

RECONNECT_SECONDS = 0.5
"""Seconds between two attempts to connect."""
_UPKEEP_HEARTBEATS = 10
"""Heartbeats between two deletions of invalidations that all members have acknowledged, and two readings of
the server's clock; both are done with the first heartbeat of a connection."""

log = logging.getLogger(__name__)


class CacheCoherence:
    """This process as a member of the hosts that share a database.

    Args:
        connect: Connects to the database, in autocommit mode.
        caches: The caches of this process.
        server_clock: The clock of the server, which is read again from time to time.
        read_pool: Returns the statistics of the pool of connections, as psycopg_pool names them.
        observe: Receives the measurements.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection[dict[str, Any]]],
        caches: ProcessCaches,
        server_clock: SynchronizedClock | None,
        read_pool: Callable[[], Mapping[str, int]],
        observe: Observer,
    ) -> None:
        self.id = os.urandom(8).hex()
        self.host = caches.host
        self._connect = connect
        self._caches = caches
        self._server_clock = server_clock
        self._clock = caches.lease.clock
        self._read_pool, self._observe = read_pool, observe
        self._lease_started = self._clock()
        self._tracker = ChangeTracker(self._clock)
        self._wake_receiver, self._wake_sender = socket.socketpair()
        for end in (self._wake_receiver, self._wake_sender):
            end.setblocking(False)
        self._closing = threading.Event()
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="imagehost-coherence", daemon=True)

    def start(self) -> None:
        """Join, and begin to apply the changes of other hosts; returns at once."""
        self._thread.start()

    def wait_for_members(self, transaction_id: int) -> None:
        """Wait, after the commit of a change, until no other host serves from memory what was before it."""
        started = self._clock()
        change = self._tracker.add(transaction_id)
        self._wake()
        acknowledged = self._tracker.wait(change)
        self._observe(InvalidationEnded(self._clock() - started, acknowledged))
        if not acknowledged:
            log.warning("members: not acknowledged within the lease: transaction=%d", transaction_id)

    def close(self) -> None:
        """Leave, and stop the thread."""
        self._caches.lease.end()
        self._closing.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join()
        self._wake_receiver.close()
        self._wake_sender.close()

    def _wake(self) -> None:
        # A full buffer wakes the thread as well.
        with suppress(BlockingIOError):
            self._wake_sender.send(b"\0")

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._run_connection()
            except psycopg.Error as error:
                # One line for an outage. Its second error is that of an attempt to connect, which names host
                # and port.
                self._failures += 1
                if self._failures == 2:
                    log.warning("database does not respond: error=%s", " ".join(str(error).split()))
            except Exception:
                # Such as a file that cannot be deleted: not acknowledged, and tried again.
                log.exception("members: cannot apply invalidations")
            if not self._closing.is_set():
                self._measure()
                self._tracker.reconnected()
                self._closing.wait(RECONNECT_SECONDS)

    def _run_connection(self) -> None:
        with closing(self._connect()) as connection, selectors.DefaultSelector() as selector:
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            selector.register(connection.fileno(), selectors.EVENT_READ)
            table = PostgresMemberTable(connection, self.id, self.host)
            table.listen()
            caches = self._caches
            member = Member(table, caches.lease, caches.invalidate, caches.invalidate_all)
            member.join()
            if self._failures > 1:
                log.warning("database responds again")
            self._failures = 0
            silence = SilenceDetector(self._clock)
            heartbeats, next_heartbeat, is_busy = 0, self._clock(), True
            while not self._closing.is_set():
                if self._clock() >= next_heartbeat:
                    next_heartbeat = self._clock() + HEARTBEAT_SECONDS
                    member.refresh(heartbeat=True)
                    self._remove_silent(table, silence)
                    self._measure()
                    if heartbeats % _UPKEEP_HEARTBEATS == 0:
                        table.prune()
                        if self._server_clock is not None:
                            self._server_clock.synchronize(partial(read_server_clock, connection))
                    heartbeats += 1
                # A notification may have come with the response to a statement: the socket has nothing then.
                selector.select(0.0 if is_busy else max(0.0, next_heartbeat - self._clock()))
                is_woken = self._drain()
                received = self._receive(table)
                if None in received:
                    member.refresh(heartbeat=False)
                if is_woken and (changes := self._tracker.pending()):
                    self._tracker.update(changes, table.others(notify=True))
                is_busy = is_woken or bool(received)
            member.leave()

    def _measure(self) -> None:
        lease, now = self._caches.lease, self._clock()
        if lease.is_valid:
            self._lease_started = lease.until - LEASE_SECONDS
        pool = self._read_pool()
        changes = self._tracker.pending()
        used, waiting = pool["pool_size"] - pool["pool_available"], pool["requests_waiting"]
        self._observe(SharedDatabaseLoad(used, waiting, now - self._lease_started, len(changes)))

    def _receive(self, table: PostgresMemberTable) -> list[Acknowledgement | None]:
        """Handle the acknowledgements that were received; return all notifications."""
        received = list(table.notifications())
        for acknowledgement in filter(None, received):
            self._tracker.acknowledged(acknowledgement.member_id, acknowledgement.snapshot)
        return received

    def _remove_silent(self, table: PostgresMemberTable, silence: SilenceDetector) -> None:
        """Remove members that have stopped, and read again whom changes wait for."""
        changes = self._tracker.pending()
        members = table.others(notify=bool(changes))
        self._tracker.update(changes, members)
        for member_id, heartbeats in silence.silent(members).items():
            log.warning("members: removed one that is silent: member=%s", member_id)
            table.remove(member_id, heartbeats)

    def _drain(self) -> bool:
        try:
            return bool(self._wake_receiver.recv(4_096))
        except BlockingIOError:
            return False
