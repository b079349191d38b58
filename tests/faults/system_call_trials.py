"""Trials of operations of a host while a system call fails; the program of `test_system_call_faults.py`.

It runs in a process with the library of `system_calls.py`, and writes what it has tried as JSON.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path

from attrs import define, field, frozen
from tests.faults.system_call_operations import OPERATIONS, World
from tests.faults.system_calls import VARIABLE, Fault, Outcome, SystemCalls

from imagehost_core import ImageHostError
from imagehost_core._util import durable
from imagehost_core.db.engines.sqlite_database import SqliteDatabase
from imagehost_core.maintenance import restore
from imagehost_core.storage import StagingArea

FAULTS_OF_A_CALL = tuple(product((errno.EIO, errno.ENOSPC), (False, True)))

UNCONFIRMED = ("backup", "gc", "checkpoint")
"""Operations that succeed although a sync has failed: a backup syncs a temporary copy of the database;
garbage collection reports what it has removed, and leaves the rest to the next; SQLite keeps the changes in
its log if the checkpoint fails that closes it."""


@frozen
class PlantedFault:
    """A fault of the product that trials must find.

    Attributes:
        owner: A module or a class of the product.
        name: The name of its function.
        replacement: The function while the fault is planted.
        operation: The operation in which calls fail.
        kind: The kind of the calls.
    """

    owner: object
    name: str
    replacement: Callable[..., None]
    operation: str
    kind: str


def _ignore_errors(descriptor: int) -> None:
    with suppress(OSError):
        os.fsync(descriptor)


def _do_nothing(*_: object) -> None:
    pass


PLANTED = {
    "the error of a sync is ignored": PlantedFault(durable, "_sync", _ignore_errors, "upload", "sync"),
    "staged files are not deleted": PlantedFault(StagingArea, "_remove", _do_nothing, "upload", "rename"),
    "a failed commit stays in the log": PlantedFault(
        SqliteDatabase, "_discard_failed_commit", _do_nothing, "update", "sync"
    ),
    "a restore leaves the log": PlantedFault(restore, "_require_no_log", _do_nothing, "restore", "sync"),
}


@define
class Runner:
    """The trials of one process.

    Attributes:
        root: The directory below which system calls fail.
        calls: The control of the library.
        tried: The number of trials in which a call has failed.
        failures: Descriptions of the trials that have failed.
        calls_of: The number of calls of each operation.
        results: The number of trials by operation, kind of the call, error and result.
    """

    root: Path
    calls: SystemCalls
    tried: int = 0
    failures: list[str] = field(factory=list)
    calls_of: dict[str, int] = field(factory=dict)
    results: dict[str, int] = field(factory=dict)
    _world: World | None = None

    @property
    def world(self) -> World:
        if self._world is None:
            self._world = World.open(self.root)
        return self._world

    def discard_world(self) -> None:
        """Close the host and delete its directory, which the next trial creates again."""
        if self._world is not None:
            with suppress(Exception):
                self._world.host.close()
            for path in self.root.iterdir():
                shutil.rmtree(path, ignore_errors=True)
            self._world = None

    def count(self, name: str) -> int:
        """Return the number of calls of an operation without a fault."""
        operation, check = OPERATIONS[name](self.world)
        with self.calls.failing(self.root) as outcome:
            operation()
        check(True)
        self.calls_of[name] = outcome.calls
        return outcome.calls

    def run(self, name: str, fault: Fault) -> bool:
        """Run a trial; return whether a call has failed."""
        world = self.world
        operation, check = OPERATIONS[name](world)
        error: Exception | None = None
        with self.calls.failing(self.root, fault) as outcome:
            try:
                operation()
            except Exception as raised:
                error = raised
        self.tried += outcome.failed > 0
        result = "success" if error is None else type(error).__name__
        key = f"{name}, {outcome.first.partition(' ')[0]}, {errno.errorcode[fault.error]}: {result}"
        self.results[key] = self.results.get(key, 0) + 1
        try:
            self._check(name, world, outcome, error, fault, check)
        except Exception:
            text = "".join(traceback.format_exception(error)) if error else "no exception\n"
            self.failures.append(f"{name}: {fault} ({outcome.first})\n{text}{traceback.format_exc()}")
            self.discard_world()
        return outcome.failed > 0

    def _check(
        self,
        name: str,
        world: World,
        outcome: Outcome,
        error: Exception | None,
        fault: Fault,
        check: Callable[[bool], object],
    ) -> None:
        assert error is None or isinstance(error, ImageHostError), f"{type(error)} is no error of imagehost"
        is_confirmed = error is None and name not in UNCONFIRMED
        assert not (is_confirmed and outcome.is_sync_of_changes), "success although a sync has failed"
        assert outcome.syncs_repeated == 0, "a sync was repeated"
        check(error is None)
        if fault.persistent:
            # While the disk fails, a crash may leave a commit that has failed, but not one without its files.
            world.check()
            world.check_after_crash()
        else:
            world.check_after_crash()
            world.check()

    def run_each(self, name: str, faults: Iterable[Fault]) -> None:
        """Run trials; those of one error end with the first of which no call has failed."""
        ended = set()
        for fault in faults:
            kind = (fault.error, fault.persistent)
            if kind not in ended and not self.run(name, fault):
                ended.add(kind)


def choose_faults(calls: int, number: int, choice: random.Random) -> list[Fault]:
    """Return some faults of an operation; all, with some calls more than it needs, if the number is 0."""
    if number == 0:
        return [Fault(when, *each) for each in FAULTS_OF_A_CALL for when in range(1, calls + 100)]
    step = calls / number
    return [
        Fault(1 + int(step * (index + choice.random())), *choice.choice(FAULTS_OF_A_CALL))
        for index in range(number)
    ]


@contextmanager
def planted(fault: PlantedFault) -> Iterator[None]:
    """Plant a fault of the product while the block runs."""
    original = getattr(fault.owner, fault.name)
    setattr(fault.owner, fault.name, fault.replacement)
    try:
        yield
    finally:
        setattr(fault.owner, fault.name, original)


def count_found(root: Path, calls: SystemCalls, fault: PlantedFault) -> int:
    """Return the number of trials that fail with a planted fault."""
    runner = Runner(root, calls)
    with planted(fault):
        calls.kinds = (fault.kind,)
        runner.run_each(fault.operation, (Fault(when, errno.EIO) for when in range(1, 16)))
    calls.kinds = ()
    runner.discard_world()
    return len(runner.failures)


def main(directory: str, report: str, number: str, seed: str, *names: str) -> None:
    """Run the trials of operations.

    Args:
        directory: An empty directory.
        report: The file to write to.
        number: The number of faults of each operation; 0: all.
        seed: The seed of the choice.
        names: The operations; by default all, and the planted faults.
    """
    root, choice = Path(directory), random.Random(seed)
    calls = SystemCalls(Path(os.environ[VARIABLE]))
    runner = Runner(root, calls)
    for name in names or OPERATIONS:
        runner.run_each(name, choose_faults(runner.count(name), int(number), choice))
        # Few images in each trial.
        runner.discard_world()
    values = {
        "tried": runner.tried,
        "failures": runner.failures,
        "calls": runner.calls_of,
        "results": runner.results,
        "found": {name: count_found(root, calls, fault) for name, fault in PLANTED.items() if not names},
    }
    Path(report).write_text(json.dumps(values, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
