"""Servers killed at random times under load, and their database server: what was confirmed is stored.

A server has two processes. It is started again on what a kill has left, and must send what was confirmed,
nothing that was deleted, and nothing else may be left.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import define, field
from tests.faults.changes import open_host
from tests.faults.conftest import NO_LIMITS, kill, staged_files
from tests.faults.engines import EnginePair
from tests.faults.service_load import ServiceLoad
from tests.faults.trials import Record, run_trials, trial_count
from tests.hosts import Engines
from tests.postgres import PostgresServer

from imagehost_server.testing import RunningServer, start

pytestmark = pytest.mark.slow

DEADLINE = 60.0
"""The longest duration of a response, in seconds."""


@define
class KilledService:
    """A host that is killed and started again.

    Attributes:
        engines: Its database and its storage.
        data: Its data directory.
        load: The load, and what was confirmed to it so far.
    """

    engines: Engines
    data: Path
    load: ServiceLoad = field(factory=lambda: ServiceLoad([], "", DEADLINE, is_killed=True))

    @contextmanager
    def running(self) -> Iterator[RunningServer]:
        """Run the server with two processes for a block, and stop it."""
        variables = {
            **NO_LIMITS,
            "IMAGEHOST_LIMITS_UNAUTHENTICATED_PER_MINUTE": "0",
            **self.engines.variables,
        }
        server = start(self.data, "--workers", "2", variables=variables)
        try:
            self.load.servers, self.load.token = [server], self.load.token or server.token
            yield server
            server.stop()
        finally:
            kill(server)

    def kill_under_load(self, seconds: float, database: PostgresServer | None) -> None:
        """Run the load until a time, then kill the server, or the database server, which is started again."""
        with self.running() as server, self.load.running():
            time.sleep(seconds)
            if database is None:
                server.kill()
            else:
                database.kill()
                database.start()
                time.sleep(seconds)

    def check(self) -> None:
        """Assert that a server on what is left sends what was confirmed, and that nothing else is left."""
        with self.running():
            self.load.check()
            assert self.load.wrong == []
            assert staged_files(self.data) == []
        with open_host(self.engines, self.data) as host:
            host.maintenance.collect_garbage()
            assert list(host.check()) == []


def test_what_was_confirmed_before_a_kill_is_stored_and_nothing_else_is_left(
    engine_pair: EnginePair, tmp_path: Path, record_property: Record
) -> None:
    with (
        run_trials(
            "a server or database server killed under load", engine_pair.name, record_property
        ) as trials,
        engine_pair.new() as engines,
    ):
        service = KilledService(engines, tmp_path / "data")
        for number in range(trial_count(1 if engine_pair.postgres is None else 2, 200)):
            seconds = trials.random.uniform(0.3, 3)
            database = engine_pair.postgres if number % 2 else None
            with trials.trial(f"{'server' if database is None else 'database'} killed after {seconds:.3f} s"):
                service.kill_under_load(seconds, database)
                service.check()
            service.load.wrong.clear()
