"""Membership: no process serves from memory what a change made invalid, once the change is answered."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.waiting import PATIENCE

from imagehost_core.cluster.cache_lease import CacheLease, LeasedGenerationTable
from imagehost_core.cluster.membership import (
    LEASE_SECONDS,
    MARGIN_SECONDS,
    ChangeTracker,
    Invalidation,
    InvalidationRead,
    Member,
    MemberState,
    PendingChange,
    PostgresMemberTable,
    SilenceDetector,
    Snapshot,
)

KEY = "image"
HOSTS = 2


class ConnectionLostError(Exception):
    pass


@define
class ModelDatabase:
    """PostgreSQL as far as the protocol sees it."""

    next_id: int = 3
    in_progress: set[int] = field(factory=set)
    version: int = 0
    invalidations: list[tuple[int, str]] = field(factory=list)
    members: dict[str, MemberState] = field(factory=dict)

    def begin(self) -> int:
        transaction_id, self.next_id = self.next_id, self.next_id + 1
        self.in_progress.add(transaction_id)
        return transaction_id

    def snapshot(self) -> Snapshot:
        running = ",".join(map(str, sorted(self.in_progress)))
        return Snapshot.parse(f"{min(self.in_progress, default=self.next_id)}:{self.next_id}:{running}")


@define
class ModelTable:
    """The table of members, as one member uses it over its connection."""

    database: ModelDatabase
    name: str
    is_connected: bool = True
    notified: list[str] = field(factory=list)

    def join(self) -> Snapshot:
        self._require_connection()
        snapshot = self.database.snapshot()
        beats = self.database.members[self.name].heartbeats if self.name in self.database.members else 0
        self.database.members[self.name] = MemberState(snapshot, beats + 1)
        return snapshot

    def read(self, acknowledged: Snapshot) -> tuple[Snapshot, tuple[Invalidation, ...]]:
        self._require_connection()
        snapshot = self.database.snapshot()
        return snapshot, tuple(
            Invalidation(origin, (KEY,))
            for transaction_id, origin in self.database.invalidations
            if snapshot.includes(transaction_id)
            and not acknowledged.includes(transaction_id)
            and origin != self.name
        )

    def acknowledge(self, snapshot: Snapshot, origins: Collection[str]) -> bool:
        self._require_connection()
        state = self.database.members.get(self.name)
        if state is None:
            return False
        self.database.members[self.name] = MemberState(snapshot, state.heartbeats + 1)
        self.notified += origins
        return True

    def leave(self) -> None:
        self._require_connection()
        self.database.members.pop(self.name, None)

    def others(self, *, notify: bool) -> Mapping[str, MemberState]:  # noqa: ARG002
        self._require_connection()
        return {name: state for name, state in self.database.members.items() if name != self.name}

    def remove(self, member_id: str, heartbeats: int) -> None:
        self._require_connection()
        state = self.database.members.get(member_id)
        if state is not None and state.heartbeats == heartbeats:
            del self.database.members[member_id]

    def _require_connection(self) -> None:
        if not self.is_connected:
            raise ConnectionLostError


@define
class HostClock:
    """A clock that runs at a rate of its own."""

    rate: float
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds * self.rate


def member_of(table: ModelTable, lease: CacheLease, generations: LeasedGenerationTable) -> Member:
    return Member(cast(PostgresMemberTable, table), lease, generations.invalidate, generations.invalidate_all)


@define(eq=False)
class Host:
    """One process of one host, with one value in its cache."""

    table: ModelTable
    clock: HostClock
    lease: CacheLease
    generations: LeasedGenerationTable
    tracker: ChangeTracker
    silence: SilenceDetector
    member: Member
    cached: tuple[int, int] | None = None
    must_join: bool = True
    filling: tuple[int | None, int] | None = None
    read: InvalidationRead | None = None
    applied: bool = False
    members: tuple[tuple[PendingChange, ...], Mapping[str, MemberState]] | None = None
    silent: dict[str, int] = field(factory=dict)

    @property
    def can_refresh(self) -> bool:
        return self.table.is_connected and not self.must_join


@define(eq=False)
class Change:
    host: Host
    transaction_id: int
    version: int = 0
    pending: PendingChange | None = None


hosts = st.integers(0, HOSTS - 1)


class Hosts(RuleBasedStateMachine):
    """Hosts that change and cache one value, lose connections, and stop at any step."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.database = ModelDatabase()
        self.hosts = [self._open(number) for number in range(HOSTS)]
        self.changes: list[Change] = []
        self.answered = 0
        for number in range(HOSTS):
            self.join(number)
            self.refresh(number)
            self.fill_the_cache(number)

    def _open(self, number: int) -> Host:
        clock = HostClock((0.95, 1.05)[number])
        lease = CacheLease(clock)
        generations = LeasedGenerationTable(Path(self.folder.name, str(number)), lease)
        table = ModelTable(self.database, f"host{number}")
        member = Member(
            cast(PostgresMemberTable, table), lease, generations.invalidate, generations.invalidate_all
        )
        return Host(table, clock, lease, generations, ChangeTracker(clock), SilenceDetector(clock), member)

    def teardown(self) -> None:
        for host in self.hosts:
            host.generations.close()
        self.folder.cleanup()

    @rule(host=hosts)
    def begin_change(self, host: int) -> None:
        self.changes.append(Change(self.hosts[host], self.database.begin()))

    @precondition(lambda self: self.running())
    @rule(last=st.booleans())
    def commit(self, last: bool) -> None:
        change = self.running()[-1 if last else 0]
        host = change.host
        # As a change on its own host does, by the generations in shared memory.
        host.generations.invalidate([KEY])
        self.database.in_progress.remove(change.transaction_id)
        self.database.version += 1
        change.version = self.database.version
        self.database.invalidations.append((change.transaction_id, host.table.name))
        change.pending = host.tracker.add(change.transaction_id)
        host.generations.invalidate([KEY])

    def running(self) -> list[Change]:
        return [change for change in self.changes if change.version == 0]

    @rule(host=hosts, acknowledged=st.booleans())
    def change(self, host: int, acknowledged: bool) -> None:
        self.begin_change(host)
        self.commit(last=True)
        self.read_members(host)
        self.read_members(host)
        if acknowledged:
            self.refresh(1 - host)
            self.notify(1 - host)
        self.fill_the_cache(host)

    @rule(host=hosts)
    def join(self, host: int) -> None:
        at = self.hosts[host]
        at.table.is_connected = True
        if at.must_join:
            at.member.join()
            at.must_join, at.read = False, None

    @precondition(lambda self: any(host.can_refresh for host in self.hosts))
    @rule(host=hosts)
    def read_invalidations(self, host: int) -> None:
        at = self.hosts[host]
        if at.can_refresh:
            at.read, at.applied = at.member.read(), False

    @precondition(lambda self: any(host.read for host in self.hosts))
    @rule(host=hosts)
    def apply_or_acknowledge(self, host: int) -> None:
        at = self.hosts[host]
        if at.read is None:
            return
        if not at.applied:
            at.member.apply(at.read)
            at.applied = True
            return
        read, at.read = at.read, None
        try:
            at.must_join = not at.member.acknowledge(read)
        except ConnectionLostError:
            at.must_join = True

    @precondition(lambda self: any(host.can_refresh for host in self.hosts))
    @rule(host=hosts)
    def refresh(self, host: int) -> None:
        at = self.hosts[host]
        if at.can_refresh:
            at.read = None
            at.member.refresh(heartbeat=True)

    @precondition(lambda self: any(host.table.notified for host in self.hosts))
    @rule(host=hosts)
    def notify(self, host: int) -> None:
        at = self.hosts[host]
        state = self.database.members.get(at.table.name)
        if at.table.notified and state is not None:
            self.hosts[1 - host].tracker.acknowledged(at.table.name, state.acknowledged)
        at.table.notified = []

    @precondition(lambda self: self.changes)
    @rule(host=hosts)
    def read_members(self, host: int) -> None:
        at = self.hosts[host]
        if at.members is None and at.table.is_connected:
            at.members = at.tracker.pending(), at.table.others(notify=True)
        elif at.members is not None:
            at.tracker.update(*at.members)
            at.members = None

    @rule(host=hosts)
    def look_for_silent_members(self, host: int) -> None:
        at = self.hosts[host]
        if at.table.is_connected:
            at.silent = at.silence.silent(at.table.others(notify=False))

    @precondition(lambda self: any(host.silent for host in self.hosts))
    @rule(host=hosts)
    def remove_silent_members(self, host: int) -> None:
        at = self.hosts[host]
        silent, at.silent = at.silent, {}
        for member_id, heartbeats in silent.items():
            if at.table.is_connected:
                at.table.remove(member_id, heartbeats)

    @rule(host=hosts)
    def cut_off(self, host: int) -> None:
        at = self.hosts[host]
        at.table.is_connected = False
        at.must_join = True

    @rule(host=hosts)
    def miss_a_change(self, host: int) -> None:
        self.cut_off(host)
        self.change(1 - host, acknowledged=False)
        self.let_time_pass(LEASE_SECONDS + MARGIN_SECONDS)
        self.join(host)

    @precondition(lambda self: len(self.changes) > 3)
    @rule()
    def restart_the_database(self) -> None:
        for host in self.hosts:
            host.must_join, host.read, host.members = True, None, None
            host.tracker.reconnected()
            host.silence = SilenceDetector(host.clock)

    @rule(host=hosts)
    def leave(self, host: int) -> None:
        at = self.hosts[host]
        if at.can_refresh:
            at.must_join, at.read = True, None
            at.member.leave()

    @rule(seconds=st.sampled_from((1.0, LEASE_SECONDS - 0.5, LEASE_SECONDS + MARGIN_SECONDS)))
    def let_time_pass(self, seconds: float) -> None:
        for host in self.hosts:
            host.clock.seconds += seconds

    @rule(host=hosts)
    def start_to_fill_the_cache(self, host: int) -> None:
        at = self.hosts[host]
        at.filling = at.generations.read(KEY), self.database.version

    @precondition(lambda self: any(host.filling for host in self.hosts))
    @rule(host=hosts)
    def finish_to_fill_the_cache(self, host: int) -> None:
        at = self.hosts[host]
        if at.filling is not None:
            generation, version = at.filling
            if generation is not None:
                at.cached = generation, version
            at.filling = None

    @rule(host=hosts)
    def fill_the_cache(self, host: int) -> None:
        self.start_to_fill_the_cache(host)
        self.finish_to_fill_the_cache(host)

    @invariant()
    def what_is_valid_in_memory_is_not_older_than_an_answered_change(self) -> None:
        for change in self.changes:
            pending = change.pending
            if pending is not None and (pending.is_done.is_set() or change.host.clock() >= pending.deadline):
                self.answered = max(self.answered, change.version)
        for host in self.hosts:
            if host.cached is not None and host.cached[0] == host.generations.read(KEY):
                assert host.cached[1] >= self.answered


TestHosts = Hosts.TestCase
TestHosts.settings = settings(stateful_step_count=30)


@given(xmax=st.integers(3, 40), in_progress=st.sets(st.integers(3, 40)), transaction_id=st.integers(3, 45))
def test_a_snapshot_includes_the_transactions_below_its_end_that_were_not_in_progress(
    xmax: int, in_progress: set[int], transaction_id: int
) -> None:
    running = sorted(number for number in in_progress if number < xmax)
    snapshot = Snapshot.parse(f"{min(running, default=xmax)}:{xmax}:{','.join(map(str, running))}")
    assert snapshot.includes(transaction_id) == (transaction_id < xmax and transaction_id not in running)


def test_a_lease_counts_from_before_the_read_and_ends_without_the_row_of_the_member(tmp_path: Path) -> None:
    clock, database = HostClock(1.0), ModelDatabase()
    lease, table = CacheLease(clock), ModelTable(database, "host")
    generations = LeasedGenerationTable(tmp_path / "generations", lease)
    member = Member(
        cast(PostgresMemberTable, table), lease, generations.invalidate, generations.invalidate_all
    )
    member.join()
    assert generations.read(KEY) is None
    read = member.read()
    clock.seconds += 1
    assert member.acknowledge(read)
    assert lease.until == LEASE_SECONDS
    assert generations.read(KEY) is not None
    table.remove("host", database.members["host"].heartbeats)
    read = member.read()
    assert not member.acknowledge(read)
    assert generations.read(KEY) is None
    generations.close()


def test_a_member_is_silent_after_a_lease_and_a_margin_without_a_heartbeat() -> None:
    clock = HostClock(1.0)
    silence, snapshot = SilenceDetector(clock), ModelDatabase().snapshot()
    assert silence.silent({"a": MemberState(snapshot, 1), "b": MemberState(snapshot, 1)}) == {}
    clock.seconds += LEASE_SECONDS
    assert silence.silent({"a": MemberState(snapshot, 2), "b": MemberState(snapshot, 1)}) == {}
    clock.seconds += MARGIN_SECONDS
    assert silence.silent({"a": MemberState(snapshot, 2), "b": MemberState(snapshot, 1)}) == {"b": 1}


def test_a_change_waits_for_a_whole_lease_after_the_connection_was_lost() -> None:
    clock = HostClock(1.0)
    tracker = ChangeTracker(clock)
    tracker.reconnected()
    change = tracker.add(3)
    tracker.update(tracker.pending(), {})
    assert not change.is_done.is_set()
    clock.seconds += LEASE_SECONDS + MARGIN_SECONDS
    tracker.update(tracker.pending(), {})
    assert change.is_done.is_set()


def test_a_change_waits_for_a_silent_member_no_longer_than_a_lease_and_a_margin() -> None:
    clock, database = HostClock(1.0), ModelDatabase()
    tracker, before = ChangeTracker(clock), database.snapshot()
    change = tracker.add(database.next_id)
    tracker.update([change], {"a": MemberState(before, 1)})
    with ThreadPoolExecutor(1) as threads:
        clock.seconds += LEASE_SECONDS + MARGIN_SECONDS
        waiting = threads.submit(tracker.wait, change)
        try:
            assert waiting.result(PATIENCE) is False
        finally:
            change.is_done.set()
    assert tracker.pending() == ()
