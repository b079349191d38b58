"""A process killed at any step of any change leaves the change whole or not begun, and nothing else."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.core.services.host_content import rows_of
from tests.faults.changes import CHANGES, URL, open_host, upload
from tests.faults.crash_points import KilledProgram, killed_program
from tests.faults.engines import EnginePair
from tests.faults.trials import SOAK, Record, Trials, run_trials, trial_count
from tests.hosts import Engines

from imagehost_core import ImageHost
from imagehost_core.db.engines.database import SqlValue
from imagehost_core.maintenance.check.findings import FindingKind
from imagehost_core.settings import FOLDER, SQLITE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL"),
]

QUICK_ON_POSTGRES = ("upload", "delete", "images added to an album")
"""The changes that CI tries on PostgreSQL, where other hosts wait for the lease of a killed one."""
Rows = dict[str, list[tuple[SqlValue, ...]]]
COLLECTED = {
    FindingKind.STALE_STAGING,
    FindingKind.UNFINISHED_DELETION,
    FindingKind.VARIANT_WITHOUT_IMAGE,
    FindingKind.UNKNOWN_FILE,
}
"""What a crash of any change may leave until garbage is collected."""


def event_counts(host: ImageHost) -> Counter[str]:
    """Return the number of events in the outbox by type."""
    rows = host._context.records.database.fetch_all("SELECT type FROM events", {})
    return Counter(str(row["type"]) for row in rows)


@contextmanager
def new_host(engines: Engines, data: Path) -> Iterator[ImageHost]:
    """Open a new host with a webhook for all events, and an image."""
    with open_host(engines, data) as host:
        host.webhooks.create(owner="admin", url=URL)
        upload(host)
        yield host


class Checker:
    """Runs changes in processes that are killed, and checks the host after each.

    Args:
        engines: The database and the storage.
        data: The data directory.
        host: The host, open in this process all the time.
        program: The program that runs the changes.
    """

    def __init__(self, engines: Engines, data: Path, host: ImageHost, program: KilledProgram) -> None:
        self._engines, self._data, self._host, self._program = engines, data, host, program

    def try_change(self, name: str, kill_at: int) -> Sequence[str]:
        """Run a change that is killed at a point, 0 for none, and check the host; return the points."""
        change = CHANGES[name]
        may_leave_orphan = name == "gc" or "image.uploaded" in change.events
        arguments = change.prepare(self._host)
        rows, events = rows_of(self._host._context.records.database), event_counts(self._host)
        points, was_killed = self._program.run(self._engines, self._data, name, arguments, kill_at)
        with open_host(self._engines, self._data) as host:
            if change.is_applied is not None:
                is_applied = change.is_applied(host, arguments)
                assert is_applied or was_killed, "what was acknowledged is lost"
                assert change.is_applied(self._host, arguments) == is_applied, "another process differs"
                added = event_counts(host) - events
                assert added == (Counter(change.events) if is_applied else Counter())
                if not is_applied:
                    assert self._changed_tables(host, rows) <= change.tables
            left = {finding.kind for finding in host.check()}
            # Only an upload and gc may leave files without a record or a tombstone.
            assert left <= COLLECTED or (left <= {*COLLECTED, FindingKind.ORPHAN} and may_leave_orphan), left
            host.maintenance.collect_garbage()
            assert list(host.check()) == []
            if change.is_applied is not None and (change.is_repeatable or not is_applied):
                change.run(host, arguments)
                assert change.is_applied(host, arguments)
                assert event_counts(host) - events == Counter(change.events)
        return points

    def _changed_tables(self, host: ImageHost, rows: Rows) -> set[str]:
        now = rows_of(host._context.records.database)
        return {table for table in now if sorted(now[table], key=repr) != sorted(rows[table], key=repr)}


def try_points(trials: Trials, checker: Checker, name: str) -> None:
    """Try points of a change: all of them in the soak."""
    points: Sequence[str] = ()
    with trials.trial(f"{name}: not killed"):
        points = checker.try_change(name, 0)
    count = min(len(points), trial_count(1, len(points)))
    for number in sorted(trials.random.sample(range(1, len(points) + 1), count)):
        with trials.trial(f"{name}: killed at {number} of {len(points)}: {points[number - 1]}"):
            checker.try_change(name, number)


def test_a_kill_at_any_point_of_any_change_leaves_it_whole_or_not_begun(
    engine_pair: EnginePair, tmp_path: Path, workspace: Path, record_property: Record
) -> None:
    # The check of a host reads all of its images.
    quick = list(CHANGES) if engine_pair.postgres is None else list(QUICK_ON_POSTGRES)
    groups = [[name] for name in CHANGES] if SOAK else [quick]
    with run_trials("a kill at each point of a change", engine_pair.name, record_property) as trials:
        for number, names in enumerate(groups):
            data = tmp_path / f"data-{number}"
            with (
                engine_pair.new() as engines,
                new_host(engines, data) as host,
                killed_program(workspace) as program,
            ):
                checker = Checker(engines, data, host, program)
                for name in names:
                    try_points(trials, checker, name)


@pytest.mark.parametrize(
    ("fault", "name", "point"),
    [
        ("commit_before_files", "upload", "os.mkdir images"),
        ("delete_without_tombstone", "delete", "os.rename images"),
        ("event_in_its_own_transaction", "album create", "sql INSERT INTO events"),
    ],
)
def test_a_planted_fault_is_found_by_a_kill_at_its_point(
    tmp_path: Path, workspace: Path, fault: str, name: str, point: str
) -> None:
    trials, data = Trials("a planted fault", fault), tmp_path / "data"
    engines = Engines(SQLITE, FOLDER)
    with new_host(engines, data) as host, killed_program(workspace) as program:
        program.fault = fault
        checker = Checker(engines, data, host, program)
        points = checker.try_change(name, 0)
        number = next(number for number, each in enumerate(points, 1) if each.startswith(point))
        with trials.trial(f"{name}: killed at {point}"):
            checker.try_change(name, number)
    assert len(trials.failures) == 1
