"""Every migration of the schema from every older version, killed at each step, and by two hosts at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.core.services.host_content import rows_of
from tests.faults.changes import open_host, upload
from tests.faults.crash_points import OPEN, KilledProgram, killed_program
from tests.faults.engines import EnginePair
from tests.faults.old_schemas import PostgresSchemas, SqliteSchemas
from tests.faults.trials import SOAK, Record, Trials, run_trials, trial_count
from tests.hosts import Engines

from imagehost_core import ImageHost, SqlRow
from imagehost_core.db.word_bits import UNKNOWN

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL"),
]

Rows = dict[str, list[str]]


def content(host: ImageHost) -> Rows:
    """Return all rows of a host, without what an open host adds."""
    rows = rows_of(host._context.database)
    return {table: sorted(map(repr, each)) for table, each in rows.items()}


@contextmanager
def old_schemas(pair: EnginePair, data: Path) -> Iterator[tuple[SqliteSchemas | PostgresSchemas, Rows]]:
    """Yield a host in all versions of its schema, and its rows."""
    with ExitStack() as stack:
        url = "sqlite"
        if pair.postgres is not None:
            url = stack.enter_context(pair.postgres.empty_database())
        with open_host(Engines(url, "folder"), data) as host:
            host.webhooks.create(owner="admin", url="http://127.0.0.1:9/")
            album = host.albums.create(owner="admin", name="a")
            for number in range(3):
                upload(host, album_id=album.id if number else None, is_public=number != 2)
            with host._context.database.transaction() as transaction:
                # Lists have buckets from some hundred images on.
                bucket: SqlRow = {"list": "images", "owner_id": 10**6}
                bounds: SqlRow = {"last_created_at": 1, "last_id": "a", "image_count": 1}
                transaction.insert("list_buckets", {**bucket, **bounds})
                transaction.insert("bucket_versions", {**bucket, "version": 1})
                # Images of earlier versions have no filters.
                transaction.execute("UPDATE images SET word_bits = :unknown", {"unknown": UNKNOWN})
            rows = content(host)
        schemas = SqliteSchemas(data) if pair.postgres is None else PostgresSchemas(data, pair.postgres, url)
        yield schemas, rows


class MigrationChecker:
    """Opens copies of a host in an older version, and checks what the next open makes of them."""

    def __init__(
        self,
        schemas: SqliteSchemas | PostgresSchemas,
        rows: Rows,
        copy: Path,
        programs: Sequence[KilledProgram],
    ) -> None:
        self._schemas, self._rows, self._copy, self._programs = schemas, rows, copy, programs
        with schemas.copy(0, copy) as engines:
            open_host(engines, copy).close()
            self._schema = schemas.schema(engines, copy)

    def try_open(self, version: int, kill_at: int, processes: int = 1) -> list[str]:
        """Open a host in a version by processes of which the first is killed at a point; check the host.

        Returns:
            The points of the first process.
        """
        with self._schemas.copy(version, self._copy) as engines:
            with ThreadPoolExecutor(processes) as threads:
                first, *others = [
                    threads.submit(program.run, engines, self._copy, OPEN, {}, 0 if number else kill_at)
                    for number, program in enumerate(self._programs[:processes])
                ]
            assert not any(other.result()[1] for other in others)
            points, was_killed = first.result()
            assert was_killed == bool(kill_at)
            with open_host(engines, self._copy) as host:
                assert content(host) == self._rows or not version
                assert list(host.check()) == []
            assert self._schemas.schema(engines, self._copy) == self._schema
        return points


def try_version(trials: Trials, checker: MigrationChecker, version: int, name: str) -> None:
    """Try points of the migration from a version: all of them in the soak."""
    points: list[str] = []
    with trials.trial(f"from {name}: not killed"):
        points = checker.try_open(version, 0)
    count = min(len(points), trial_count(1, len(points)))
    for number in sorted(trials.random.sample(range(1, len(points) + 1), count)):
        with trials.trial(f"from {name}: killed at {number} of {len(points)}: {points[number - 1]}"):
            checker.try_open(version, number)
    for number in (0, *trials.random.sample(range(1, len(points) + 1), trial_count(0, 3))):
        with trials.trial(f"from {name}: two hosts, the first killed at {number}"):
            checker.try_open(version, number, processes=2)


def test_a_migration_of_the_schema_that_is_killed_anywhere_is_finished_by_the_next_open(
    engine_pair: EnginePair, tmp_path: Path, workspace: Path, record_property: Record
) -> None:
    with (
        old_schemas(engine_pair, tmp_path / "source") as (schemas, rows),
        killed_program(workspace) as first,
        killed_program(workspace) as second,
        run_trials("a kill at each point of a schema migration", engine_pair.name, record_property) as trials,
    ):
        checker = MigrationChecker(schemas, rows, tmp_path / "copy", (first, second))
        versions = list(enumerate(("an empty directory", *schemas.names[:-1])))
        for version, name in versions if SOAK else (*versions[:2], versions[-1]):
            try_version(trials, checker, version, name)
